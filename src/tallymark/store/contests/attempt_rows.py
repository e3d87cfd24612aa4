"""Rows of attempts, their scores and submissions, read as records."""

from __future__ import annotations

import hashlib
import re
import sys
from collections import namedtuple
from datetime import UTC, datetime
from functools import cache, lru_cache
from math import isfinite
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from sqlalchemy import bindparam, or_, select, tuple_

from tallymark.challenges.attempt import (
    Attempt,
    Evaluation,
    Metrics,
    Outcome,
    Payload,
)
from tallymark.errors import Conflict, InvalidInput, NotFound
from tallymark.scoring import Origin
from tallymark.store.contests.tables import (
    attempt_details,
    attempt_id,
    attempt_scores,
    attempt_waits,
    attempts,
    challenge_versions,
    challenges,
    is_own_score,
    score_history,
    scorings,
)
from tallymark.store.dialects import json_text, make_storable, read_json_mapping, read_numbers
from tallymark.store.quick_statements import QuickSelect, QuickStatements, write_insert

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sqlalchemy import BindParameter, ColumnElement, Connection, Row, Select

    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.store.quick_statements import QuickStatements


_BEYOND = 2**63
# Nearly all scores of a challenge are by one rule.
_decode_origin = lru_cache(maxsize=256)(msgspec.json.Decoder(Origin).decode)
_FACTS = ("challenge_id", "agent", "attempt", "tenant", "scoring", "submitted_at", "number")
_METRICS = tuple(name for name in Metrics.__struct_fields__ if name != "more")


class ScoreEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A score that an attempt was given: its time and rule."""

    at: float
    score: float | None
    result: str | None = None
    error: str | None = None
    origin: Origin | None = None


def _keep_finite(number: float | None) -> float | None:
    return float(number) if number is not None and isfinite(number) else None


def _keep_within_64_bits(number: int | None) -> int | None:
    return number if number is not None and -_BEYOND <= number < _BEYOND else None


VALUE_NAMES = (
    "score",
    "ranks",
    "succeeded",
    "tokens_total",
    "elapsed_ms",
    "rating",
    "created_at",
    "cost",
    "calls",
    "result",
    "error",
    "more",
    "dimensions",
)
"""The columns that an outcome fills, in the order of `list_values`."""


def list_values(outcome: Outcome) -> tuple[Any, ...]:
    """Columns of an outcome; numbers that no column can hold become NULL."""
    metrics = outcome.metrics
    return (
        _keep_finite(outcome.score),
        outcome.ranks,
        metrics.succeeded,
        _keep_within_64_bits(metrics.tokens_total),
        _keep_within_64_bits(metrics.elapsed_ms),
        _keep_finite(metrics.rating),
        _keep_within_64_bits(metrics.created_at),
        _keep_finite(metrics.cost),
        _keep_within_64_bits(metrics.calls),
        outcome.result,
        None if outcome.error is None else make_storable(outcome.error),
        json_text(metrics.more) if metrics.more else None,
        json_text(outcome.dimensions) if outcome.dimensions else None,
    )


def score_row(outcome: Outcome, **facts: Any) -> dict[str, Any]:
    facts.update(zip(VALUE_NAMES, list_values(outcome), strict=True))
    return facts


SCORE_NAMES = tuple(score_row(Outcome(score=None), **dict.fromkeys(_FACTS)))
"""The columns of such a row, in the order of `take_score`."""
take_score = itemgetter(*SCORE_NAMES)


def to_outcome(
    row: Mapping[str, Any], details: str | None, level: Any, origin: str | None
) -> Outcome:
    """Outcome from its rows. `row` is that of the score."""
    metrics = {name: row[name] for name in _METRICS}
    metrics["succeeded"] = bool(row["succeeded"])  # SQLite has no booleans
    return Outcome(
        score=row["score"],
        result=row["result"],
        ranks=bool(row["ranks"]),
        metrics=Metrics(**metrics, more=read_numbers(row["more"])),
        dimensions=read_json_mapping(row["dimensions"]),
        details=read_json_mapping(details),
        trajectory_level=level,
        error=row["error"],
        origin=None if origin is None else _decode_origin(origin),
    )


_ADD_SCORING = (
    write_insert("scorings", ("tenant", "challenge_id", "at", "why", "origin")) + " RETURNING id"
)


def add_scoring(
    connection: Connection, kept: StoredChallenge, why: str, origin: str | None, at: float
) -> int:
    """Add a row of `scorings` for attempts scored by another rule, or all at once."""
    row = (kept.tenant, kept.id, at, why, origin)
    ((key,),) = QuickStatements(connection).read(_ADD_SCORING, *row)
    return int(key)


def origin_text(outcome: Outcome) -> str | None:
    return None if outcome.origin is None else json_text(outcome.origin)


def read_history(connection: Connection, attempt: Row[Any]) -> list[ScoreEntry]:
    """Score that an attempt was given, oldest first. `attempt` is its row."""
    table = score_history.c
    query = (
        select(table.at, table.score, table.result, table.error, scorings.c.origin)
        .join(scorings, scorings.c.id == table.scoring)
        .where(scorings.c.challenge_id == attempt.challenge_id)
        .where(table.agent == attempt.agent, table.attempt == attempt.key)
        .order_by(table.scoring)
    )
    return [_make_entry(*row) for row in connection.execute(query)]


def _make_entry(
    at: float, score: float | None, result: str | None, error: str | None, origin: str | None
) -> ScoreEntry:
    made_by = None if origin is None else _decode_origin(origin)
    return ScoreEntry(at=at, score=score, result=result, error=error, origin=made_by)


_ID = re.compile(r"a([0-9]{1,18})")
_METRIC_NAMES = tuple(name for name in Metrics.__struct_fields__ if name != "more")
AGENT_BYTES_A_DAY = 256_000_000
"""Limit for an agent's stored submissions and witnessed spans, so that no agent fills the disk."""
TOO_MANY_BYTES = f"an agent may send {AGENT_BYTES_A_DAY:,} bytes a day, and they are used up"
_SUM = "excluded.bytes + CASE WHEN agent_bytes.day = excluded.day THEN agent_bytes.bytes ELSE 0 END"
_COUNT_BYTES = f"""
    INSERT INTO agent_bytes (tenant, agent, day, bytes) VALUES (?, ?, ?, ?)
    ON CONFLICT (tenant, agent) DO UPDATE SET day = excluded.day, bytes = {_SUM}
    WHERE {_SUM} <= ?
"""  # noqa: S608  our own words


class StoredAttempt(NamedTuple):
    """An attempt with its row, so that its next change need not read it again."""

    attempt: Attempt
    row: tuple[Any, ...]
    """The columns of `attempts`, in the order of the table."""
    frozen_at: float | None
    """Since when the public board of its challenge is frozen."""

    @property
    def key(self) -> int:
        return int(self.row[_KEY])

    @property
    def tenant(self) -> str:
        return str(self.row[_TENANT])

    @property
    def challenge_id(self) -> int:
        """The key of its challenge, which never changes."""
        return int(self.row[_CHALLENGE_ID])

    @property
    def version_id(self) -> int:
        """The key of the version that it was entered at."""
        return int(self.row[_VERSION_ID])

    @property
    def match_at(self) -> float | None:
        """When it ended as a match."""
        found: float | None = self.row[_MATCH_AT]
        return found


ROW_NAMES = tuple(each.name for each in attempts.c)
_KEY, _TENANT, _CHALLENGE_ID, _VERSION_ID, _MATCH_AT = (
    ROW_NAMES.index(name) for name in ("key", "tenant", "challenge_id", "version_id", "match_at")
)


def make_stored(
    kept: StoredChallenge, key: int, version_id: int, attempt: Attempt
) -> StoredAttempt:
    """A new attempt with its row."""
    row = {name: getattr(attempt, name, None) for name in ROW_NAMES}
    row |= {"key": key, "tenant": kept.tenant, "challenge_id": kept.id, "version_id": version_id}
    outcome = attempt.outcome
    level = "none" if outcome is None else outcome.trajectory_level
    row |= {"match_at": attempt.submitted_at, "trajectory_level": level}
    return StoredAttempt(attempt, tuple(row.values()), kept.frozen_at)


def attempt_key(identifier: str) -> int | None:
    """Row key of an id, with or without leading zeros; None for an invalid id."""
    match = _ID.fullmatch(identifier)
    return int(match[1]) if match else None


def select_attempts(tenant: str | BindParameter[str]) -> Select[Any]:
    """Query of everything that an `Attempt` is made from."""
    scores = attempt_scores.c
    return (
        select(
            attempts,
            challenges.c.name.label("challenge"),
            challenges.c.frozen_at,
            challenge_versions.c.version,
            scores.score,
            scores.ranks,
            scores.result,
            scores.error,
            scores.more,
            scores.dimensions,
            *(scores[name] for name in _METRIC_NAMES),
            scorings.c.origin,
            attempt_details.c.details,
            attempt_waits.c.reason.label("waiting"),
        )
        .join(challenges, challenges.c.id == attempts.c.challenge_id)
        .join(challenge_versions, challenge_versions.c.id == attempts.c.version_id)
        .outerjoin(attempt_scores, is_own_score)
        .outerjoin(scorings, scorings.c.id == scores.scoring)
        .outerjoin(attempt_details, attempt_details.c.attempt == attempts.c.key)
        .outerjoin(attempt_waits, attempt_waits.c.attempt == attempts.c.key)
        .where(attempts.c.tenant == tenant)
    )


def is_shown_to(agent: str) -> ColumnElement[bool]:
    """Condition that leaves out the open attempts of others."""
    return or_(attempts.c.state != "entered", attempts.c.agent == agent)


def to_attempt(row: Row[Any]) -> Attempt:
    """Attempt from a row of `select_attempts`."""
    outcome = None
    if row.ranks is not None:
        outcome = to_outcome(row._asdict(), row.details, row.trajectory_level, row.origin)
    return Attempt(
        id=attempt_id(row.key),
        challenge=row.challenge,
        version=row.version,
        agent=row.agent,
        number=row.number,
        state=row.state,
        seed=row.seed,
        entered_at=row.entered_at,
        expires_at=row.expires_at,
        submitted_at=row.submitted_at,
        scored_at=row.scored_at,
        verified=bool(row.verified),  # SQLite has no booleans
        memoryless=bool(row.memoryless),
        waiting=row.waiting,
        voided_at=row.voided_at,
        outcome=outcome,
    )


def find_attempt(statements: QuickStatements, tenant: str, identifier: str) -> StoredAttempt | None:
    """Find an attempt by its id; None if the tenant has no such attempt."""
    query, make_row = _prepare_attempt()
    values = {"whose": tenant, "which": attempt_key(identifier)}
    for row in map(make_row, statements.select(query, values)):
        return StoredAttempt(to_attempt(row), tuple(row[: len(attempts.c)]), row.frozen_at)
    return None


def read_attempt(statements: QuickStatements, tenant: str, key: int) -> StoredAttempt:
    """Read an attempt that another row refers to."""
    found = find_attempt(statements, tenant, attempt_id(key))
    assert found is not None  # noqa: S101 (as said)
    return found


@cache
def _prepare_attempt() -> tuple[QuickSelect, Callable[[Iterable[Any]], Any]]:
    query = select_attempts(bindparam("whose")).where(attempts.c.key == bindparam("which"))
    names = query.selected_columns.keys()
    columns: Any = namedtuple("columns", names)  # type: ignore[misc]  # noqa: PYI024 (known only now)
    return QuickSelect(query), columns._make


def explain_unknown_attempt(identifier: str) -> NotFound:
    return NotFound(f"there is no attempt {identifier!r}", hint="check the id")


def explain_foreign_attempt(identifier: str, agent: str) -> NotFound:
    """The error for an attempt that is not the agent's own, or does not exist."""
    return NotFound(
        f"{agent!r} has no attempt {identifier!r}",
        hint="only the agent that entered may submit or withdraw",
    )


def explain_expiry(attempt: Attempt) -> Conflict:
    return Conflict(
        f"attempt {attempt.id} expired at {format_moment(attempt.expires_at)}",
        hint="enter the challenge again",
    )


def format_moment(at: float) -> str:
    """A time in UTC for messages."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def make_payload_row(payload: Payload) -> dict[str, Any]:
    """Columns of a payload; content that JSON cannot hold is refused."""
    reported, trajectory = payload.reported, payload.trajectory
    return {
        "digest": make_digest(payload),
        "submission": _encode_sorted(payload.submission).decode(),
        "metadata": _encode_sorted(payload.metadata).decode(),
        "reported": None if reported is None else _encode_sorted(reported).decode(),
        "packed_trajectory": None if trajectory is None else pack_trajectory(trajectory),
        "steps_digest": None if trajectory is None else _hash_steps(trajectory),
    }


def pack_trajectory(trajectory: str) -> bytes:
    """Compress a trajectory for storage."""
    packed: bytes = zstd.compress(make_storable(trajectory).encode(), 3)
    return packed


def count_bytes(texts: Mapping[str, Any]) -> int:
    """Stored size of a payload."""
    names = ("submission", "metadata", "packed_trajectory")
    return sum(len(texts[name]) for name in names if texts[name] is not None)


def count_agent_bytes(
    statements: QuickStatements, tenant: str, agent: str, at: float, size: int
) -> bool:
    """Count bytes against an agent's daily limit; return False if they exceed it."""
    day = datetime.fromtimestamp(at, UTC).date().isoformat()
    row = (tenant, make_storable(agent), day, size)
    return size <= AGENT_BYTES_A_DAY and statements.run(_COUNT_BYTES, *row, AGENT_BYTES_A_DAY) == 1


def _hash_steps(trajectory: str) -> str | None:
    from tallymark.challenges.trajectory import hash_steps  # noqa: PLC0415 (few send any)

    return hash_steps(trajectory)


def make_digest(payload: Payload) -> str:
    """Hash of the content: equal contents have equal hashes."""
    return hashlib.sha256(_encode_sorted(payload)).hexdigest()


def _encode_sorted(value: Any) -> bytes:
    """JSON with sorted keys; content that JSON cannot hold is refused."""
    try:
        return msgspec.json.encode(value, order="sorted")
    except UnicodeEncodeError:
        what = "text that is not Unicode"
    except RecursionError:
        what = "values nested too deeply"
    except TypeError:
        what = "a value that JSON does not know"
    raise InvalidInput(f"the submission holds {what}", hint="submit plain JSON")


def read_digest(connection: Connection, key: int) -> str | None:
    """Digest of an attempt's submission."""
    query = select(attempt_details.c.digest).where(attempt_details.c.attempt == key)
    found: str | None = connection.scalar(query)
    return found


def read_payload(connection: Connection, tenant: str, key: int | None) -> Payload | None:
    """Submission of an attempt; None if there is none."""
    mine = (attempt_details.c.tenant == tenant, attempt_details.c.attempt == key)
    row = connection.execute(select(attempt_details).where(*mine)).one_or_none()
    if row is None or row.digest is None:
        return None
    names = ("submission", "metadata", "reported")
    parts = {name: msgspec.Raw((getattr(row, name) or "null").encode()) for name in names}
    packed = row.packed_trajectory
    trajectory = None if packed is None else zstd.decompress(bytes(packed)).decode()
    text = msgspec.json.encode(parts | {"trajectory": trajectory})
    return msgspec.json.decode(text, type=Payload)


def has_earlier_twin(connection: Connection, tenant: str, key: int | None) -> bool:
    """Return whether an earlier attempt, at any challenge, was submitted with the same steps."""
    own, its_details = attempts.alias("own"), attempt_details.alias("its_details")
    place = tuple_(attempts.c.submitted_at, attempts.c.key)
    query = (
        select(attempts.c.key)
        .join(attempt_details, attempt_details.c.attempt == attempts.c.key)
        .join(its_details, its_details.c.steps_digest == attempt_details.c.steps_digest)
        .join(own, own.c.key == its_details.c.attempt)
        .where(attempt_details.c.tenant == tenant, its_details.c.tenant == tenant)
        .where(own.c.key == key, place < tuple_(own.c.submitted_at, own.c.key))
    )
    return connection.execute(query.limit(1)).one_or_none() is not None


def read_evaluation(connection: Connection, key: int) -> Evaluation | None:
    """Evaluation of an attempt; None if it was not evaluated here."""
    query = select(attempt_details.c.evaluation).where(attempt_details.c.attempt == key)
    text = connection.scalar(query)
    return None if text is None else msgspec.json.decode(text, type=Evaluation)
