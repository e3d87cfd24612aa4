"""Challenges and attempts: definitions, states, scores and history, compared with the log.

Scores are computed again by the version of the challenge that gave them.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from sqlalchemy import func, select

from tallymark.challenges.attempt_scores import origin_of
from tallymark.challenges.challenge import Challenge
from tallymark.challenges.rescore_plan import make_rescorer
from tallymark.errors import TallymarkError
from tallymark.store.contests.attempt_rows import score_row
from tallymark.store.contests.rescorings import read_key_pages, read_scored_pages
from tallymark.store.contests.tables import (
    attempt_details,
    attempt_id,
    attempt_scores,
    attempts,
    challenge_versions,
    challenges,
    contest_audit,
    is_own_score,
    score_history,
    scorings,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Connection, Row

    from tallymark.challenges.attempt import Attempt, Evaluation
    from tallymark.challenges.plugins import Plugin
    from tallymark.challenges.rescore_plan import Rescorer
    from tallymark.store.checks.findings import Findings
    from tallymark.store.contests.challenges import StoredChallenge

    FindPlugin = Callable[[str, Challenge], Plugin | None]
    """The plugin of a challenge of a tenant; None leaves what plugins score alone."""

_DEFINITIONS = "challenges"
_decode = msgspec.json.Decoder(Challenge).decode


def check_definition(connection: Connection, kept: StoredChallenge, findings: Findings) -> None:
    """Compare the current definition with the published version."""
    findings.note_checked(_DEFINITIONS)
    subject = f"challenge {kept.challenge.name}"
    counts = connection.execute(
        select(challenges.c.version, challenges.c.published_at).where(challenges.c.id == kept.id)
    ).one()
    query = select(challenge_versions.c.definition, challenge_versions.c.published_at)
    mine = challenge_versions.c.challenge_id == kept.id
    published = connection.execute(
        query.where(mine, challenge_versions.c.version == counts.version)
    ).first()
    if published is None:
        findings.add(
            _DEFINITIONS, kept.tenant, subject, "version", counts.version, "one that is kept"
        )
        return
    if published.published_at != counts.published_at:
        # A later Tallymark may have read more in the same files.
        findings.note_skipped("definitions that were published again")
        return
    told, should = (
        msgspec.to_builtins(each) for each in (kept.challenge, _decode(published.definition))
    )
    # Defaults are left out, so a field that only one of the two has is a difference as well.
    findings.compare(_DEFINITIONS, kept.tenant, subject, told, dict.fromkeys(told) | should)


_SCORES = "scores"
_SCORED = ("scored", "failed")
_VOIDS = {"voided": True, "unvoided": False}
_log = contest_audit.c


def check_attempts(connection: Connection, kept: StoredChallenge, findings: Findings) -> None:
    """Compare state, score and history of each attempt with the log."""
    history = _History(connection, kept)
    not_logged = 0
    for keys in read_key_pages(connection, kept):
        page = _read_page(connection, keys)
        logged = _read_log(connection, kept, keys)
        given = history.read(page)
        for row in page:
            findings.note_checked("attempts")
            entry = logged.get(row.key, {})
            not_logged += "began" not in entry  # it was loaded
            _compare_attempt(findings, kept, row, entry, given[row.key])
    loaded = _count_loaded(connection, kept)
    if not_logged != loaded:
        subject = f"challenge {kept.challenge.name}"
        findings.add("log", kept.tenant, subject, "attempts without entries", not_logged, loaded)
    _check_numbers(connection, kept, findings)


def _read_page(connection: Connection, keys: Sequence[int]) -> list[Row[Any]]:
    names = ("key", "agent", "number", "state", "submitted_at", "voided_at")
    scores = attempt_scores.c
    query = (
        select(*(attempts.c[name] for name in names))
        .add_columns(scores.attempt.label("scored"), scores.scoring)
        .add_columns(scores.score, scores.result, scores.error)
        .add_columns(attempt_details.c.evaluation.is_not(None).label("evaluated"))
        .outerjoin(attempt_scores, is_own_score)
        .outerjoin(attempt_details, attempt_details.c.attempt == attempts.c.key)
        .where(attempts.c.key.in_(keys))
    )
    found = {row.key: row for row in connection.execute(query)}
    return [found[key] for key in keys]


def _read_log(
    connection: Connection, kept: StoredChallenge, keys: list[int]
) -> dict[int, dict[str, Any]]:
    """By attempt: its last state, whether it is void, and the first score it was given here.

    Loaded attempts have no first entry; later they may be rescored and change their state.
    """
    columns = (_log.seq, _log.attempt, _log.event, _log.before, _log.after, _log.note)
    query = select(*columns).where(_log.challenge_id == kept.id, _log.attempt.in_(keys))
    found: dict[int, dict[str, Any]] = {}
    # Put in order here: SQLite would go through the whole log of the challenge to have it so.
    for row in sorted(connection.execute(query), key=attrgetter("seq")):
        entry = found.setdefault(row.attempt, {})
        if row.event in _VOIDS:
            entry["void"] = _VOIDS[row.event]
        elif row.after is not None:
            entry["state"] = row.after
            if row.before is None:
                entry["began"] = True
            if row.after in _SCORED and "began" in entry:
                entry.setdefault("given", (row.note or {}).get("score"))
    return found


class _History:
    """Scores that attempts were given, read agent by agent.

    All history is read once in that order: looking up a page, rescoring by rescoring, takes time in
    proportion to the number of rescorings.
    """

    def __init__(self, connection: Connection, kept: StoredChallenge) -> None:
        table = score_history.c
        query = (
            select(table.agent, table.attempt, table.scoring)
            .add_columns(table.score, table.result, table.error)
            .join(scorings, scorings.c.id == table.scoring)
            .where(scorings.c.challenge_id == kept.id)
            .order_by(table.agent, table.attempt, table.scoring)
            .execution_options(stream_results=True)
        )
        self._rows: Iterator[Row[Any]] = iter(connection.execute(query))
        self._ahead = next(self._rows, None)
        self._known: dict[int, list[Row[Any]]] = {}
        """Rows of the last agent whose attempts were not requested yet."""

    def read(self, page: Sequence[Row[Any]]) -> dict[int, list[Row[Any]]]:
        """Score of a page's attempts, oldest first."""
        while self._ahead is not None and self._ahead.agent <= page[-1].agent:
            self._known.setdefault(self._ahead.attempt, []).append(self._ahead)
            self._ahead = next(self._rows, None)
        return {row.key: self._known.pop(row.key, []) for row in page}


def _compare_attempt(
    findings: Findings,
    kept: StoredChallenge,
    row: Row[Any],
    entry: dict[str, Any],
    history: list[Any],
) -> None:
    subject = _name(kept, row.key, row.agent)
    is_scored = row.state in _SCORED
    stored: dict[str, Any] = {
        "score row": row.scored is not None,
        "void": row.voided_at is not None,
    }
    should: dict[str, Any] = {"score row": is_scored, "void": entry.get("void", False)}
    if is_scored and "began" in entry:
        # Loaded attempts need only a score.
        stored["evaluation"], should["evaluation"] = bool(row.evaluated), True
    if "state" in entry:
        stored["state"], should["state"] = row.state, entry["state"]
    if is_scored and row.scored is not None:
        stored["failed"], should["failed"] = row.error is not None, row.state == "failed"
        last = [each for each in history if each.scoring <= row.scoring][-1:]
        names = ("score", "result", "error")
        stored |= {name: getattr(row, name) for name in names}
        should |= {name: getattr(each, name) for each in last for name in names}
        should |= {} if last else {"history": "the score"}
        if history and "given" in entry:
            stored["first score"], should["first score"] = history[0].score, entry["given"]
    findings.compare("attempts", kept.tenant, subject, stored, should)


def _count_loaded(connection: Connection, kept: StoredChallenge) -> int:
    query = select(_log.note).where(_log.challenge_id == kept.id, _log.event == "loaded")
    return sum((note or {}).get("attempts", 0) for note in connection.scalars(query))


def _check_numbers(connection: Connection, kept: StoredChallenge, findings: Findings) -> None:
    """An agent's attempts are counted from 1 on."""
    most, count = func.max(attempts.c.number), func.count()
    query = select(attempts.c.agent, most, count).where(attempts.c.challenge_id == kept.id)
    for agent, last, there in connection.execute(
        query.group_by(attempts.c.agent).having(most != count)
    ):
        subject = f"{agent} at {kept.challenge.name}"
        findings.add("attempts", kept.tenant, subject, "attempts", there, last)


def check_scores(
    connection: Connection,
    kept: StoredChallenge,
    findings: Findings,
    find_plugin: FindPlugin | None = None,
) -> None:
    """Recompute each score by the version of the challenge that gave it."""
    rules = _Rules(connection, kept, find_plugin)
    for page in read_scored_pages(connection, kept):
        by_version: dict[str, tuple[_Rule, list[tuple[Attempt, Evaluation]]]] = {}
        for pair in page:
            found = rules.find(pair[0])
            if isinstance(found, str):
                findings.note_skipped(found)
            else:
                by_version.setdefault(found.challenge.version, (found, []))[1].append(pair)
        for rule, pairs in by_version.values():
            for (attempt, _), (_, outcome) in zip(pairs, rule.rescore(pairs), strict=True):
                if attempt.outcome is not None:
                    findings.note_checked(_SCORES)
                    subject = _name(kept, int(attempt.id[1:]), attempt.agent)
                    told = (score_row(each) for each in (attempt.outcome, outcome))
                    findings.compare(_SCORES, kept.tenant, subject, *told)


class _Rule(NamedTuple):
    """A version of a challenge that gave scores."""

    challenge: Challenge
    plugin: Plugin | None
    rescore: Rescorer


class _Rules:
    """The rules of a challenge, each opened when it is first needed."""

    def __init__(
        self, connection: Connection, kept: StoredChallenge, find_plugin: FindPlugin | None
    ) -> None:
        query = select(challenge_versions.c.version, challenge_versions.c.definition)
        query = query.where(challenge_versions.c.challenge_id == kept.id)
        self._definitions = dict(connection.execute(query).all())
        self._tenant = kept.tenant
        self._find_plugin = find_plugin
        self._opened: dict[str, _Rule | str] = {}

    def find(self, attempt: Attempt) -> _Rule | str:
        """The rule that scored an attempt, or the reason why it cannot do so again."""
        origin = None if attempt.outcome is None else attempt.outcome.origin
        if origin is None:
            return "scores whose rule is not known"
        version = str(origin.config.get("challenge_version"))
        if version not in self._opened:
            self._opened[version] = self._open(version)
        rule = self._opened[version]
        if isinstance(rule, str):
            return rule
        if rule.plugin is not None and attempt.outcome and attempt.outcome.error is not None:
            return "failures of plugins"  # of time or memory, as they were then
        made_by = origin_of(rule.challenge, attempt.seed, rule.plugin)
        same = (made_by.scorer, made_by.version) == (origin.scorer, origin.version)
        return rule if same else "scores by a rule of elsewhere"

    def _open(self, version: str) -> _Rule | str:
        definition = self._definitions.get(version)
        if definition is None:
            return "scores whose rule is not known"
        challenge = msgspec.json.decode(definition, type=Challenge)
        plugin = None
        if challenge.scoring.plugin is not None:
            if self._find_plugin is None:
                return "scores by plugins"
            try:
                plugin = self._find_plugin(self._tenant, challenge)
            except TallymarkError:
                return "scores by plugins that cannot be loaded"
        return _Rule(challenge, plugin, make_rescorer(challenge, plugin, tenant=self._tenant))


def _name(kept: StoredChallenge, key: int, agent: str) -> str:
    return f"attempt {attempt_id(key)} of {agent} at {kept.challenge.name}"
