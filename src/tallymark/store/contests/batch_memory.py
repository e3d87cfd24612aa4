"""What a batch knows: the rows that its items are about, read at once, then changed in memory.

All of it was read while the batch held the locks of its challenges, and is true until it ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.attempt import Attempt
from tallymark.challenges.challenge import Challenge, MatchTerms
from tallymark.store.column_types import make_storable
from tallymark.store.contests.attempt_tables import attempt_id, attempts
from tallymark.store.contests.challenges import StoredChallenge
from tallymark.store.quick_statements import ManyQuery

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallymark.challenges.attempt import Outcome
    from tallymark.store.contests.attempt_rows import StoredAttempt
    from tallymark.store.contests.rank_blocks import Spot
    from tallymark.store.quick_statements import QuickStatements

ROW_NAMES = tuple(each.name for each in attempts.c)
take_row = attrgetter(*ROW_NAMES)
"""The columns of an attempt, as a tuple."""
_CACHE = "tally_challenges"
_MOST_CACHED = 5000
_decode_challenge = msgspec.json.Decoder(Challenge).decode
_decode_terms = msgspec.json.Decoder(MatchTerms).decode
_KEY = (("key", "bigint"),)
_ENTRY = (("challenge_id", "bigint"), ("edition", "int"), ("agent", "text"))
_AGENT = (("tenant", "text"), ("agent", "text"))
_REQUEST = (*_AGENT, ("key", "text"))
_mine = "own.challenge_id = given.challenge_id AND own.agent = given.agent"

OWNERS = ManyQuery(
    """
    SELECT own.key, own.tenant, own.challenge_id, own.agent
    FROM {given} LEFT JOIN attempts AS own ON own.key = given.key
    """,
    _KEY,
)
_LOCKED = ManyQuery(
    """
    SELECT id, tenant, version, revision, edition, frozen_at, closed_at, held_at, unfrozen_at
    FROM challenges WHERE id IN (SELECT key FROM {given}) ORDER BY id
    """,
    _KEY,
)
_LOCKING = ManyQuery(f"{_LOCKED.text} FOR NO KEY UPDATE", _KEY)
_ROWS = ManyQuery(
    f"""
    SELECT {", ".join(f"own.{name}" for name in ROW_NAMES)}, attempt_waits.reason
    FROM {{given}}
    LEFT JOIN attempts AS own ON own.key = given.key
    LEFT JOIN attempt_waits ON attempt_waits.attempt = own.key
    """,  # noqa: S608  our own names
    _KEY,
)
_ENTRANTS = ManyQuery(
    f"""
    SELECT given.challenge_id, given.agent,
           (SELECT number FROM attempts AS own WHERE {_mine} ORDER BY number DESC LIMIT 1),
           (SELECT number FROM attempts AS own WHERE {_mine} AND own.voided_at IS NULL
            ORDER BY number LIMIT 1),
           (SELECT key FROM attempts AS own WHERE {_mine} AND own.state = 'entered'),
           boards.place, boards.submitted_at, boards.attempt, boards.tries
    FROM {{given}}
    LEFT JOIN boards ON boards.challenge_id = given.challenge_id AND boards.edition = given.edition
         AND boards.agent = given.agent
    """,  # noqa: S608
    _ENTRY,
)
ADMISSIONS = ManyQuery(
    """
    SELECT given.tenant, given.agent, agents.handle IS NOT NULL,
           disqualified_agents.agent IS NOT NULL
    FROM {given}
    LEFT JOIN agents ON agents.tenant = given.tenant AND agents.handle = given.agent
    LEFT JOIN disqualified_agents ON disqualified_agents.tenant = given.tenant
         AND disqualified_agents.agent = given.agent
    """,
    _AGENT,
)
_REQUESTS = ManyQuery(
    """
    SELECT given.tenant, given.agent, given.key, own.digest, own.attempt
    FROM {given}
    LEFT JOIN idempotency AS own ON own.tenant = given.tenant AND own.agent = given.agent
         AND own.key = given.key
    """,
    _REQUEST,
)


class AttemptRow:
    """A row of `attempts`, and what else is known of it."""

    # The columns, so that a row is made by position.
    __slots__ = (*ROW_NAMES, "assumed", "digest", "fresh", "outcome", "waiting")

    key: int
    tenant: str
    challenge_id: int
    version_id: int
    agent: str
    number: int
    state: Any
    seed: int
    entered_at: float
    expires_at: float
    submitted_at: float | None
    scored_at: float | None
    verified: bool
    memoryless: bool
    trajectory_level: str
    match_at: float | None
    voided_at: float | None
    waiting: str | None
    digest: str | None
    """Of what was submitted, where this batch took it."""
    outcome: Outcome | None
    """Where this batch scored it."""
    fresh: bool
    """Made by this batch, and not yet stored."""
    assumed: bool
    """Read before the batch, when it was open: it is changed only if it still is."""

    def __init__(
        self,
        values: Iterable[Any],
        waiting: str | None = None,
        *,
        fresh: bool = False,
        assumed: bool = False,
    ) -> None:
        for name, value in zip(ROW_NAMES, values, strict=True):
            setattr(self, name, value)
        self.waiting, self.fresh, self.assumed = waiting, fresh, assumed
        self.digest = self.outcome = None
        # SQLite has no booleans.
        self.verified, self.memoryless = bool(self.verified), bool(self.memoryless)

    def to_attempt(self, challenge: str, version: str) -> Attempt:
        """As it is now."""
        return Attempt(
            id=attempt_id(self.key),
            challenge=challenge,
            version=version,
            agent=self.agent,
            number=self.number,
            state=self.state,
            seed=self.seed,
            entered_at=self.entered_at,
            expires_at=self.expires_at,
            submitted_at=self.submitted_at,
            scored_at=self.scored_at,
            verified=self.verified,
            memoryless=self.memoryless,
            waiting=self.waiting,
            voided_at=self.voided_at,
            outcome=self.outcome,
        )


@dataclass(slots=True)
class Entrant:
    """One agent at one challenge."""

    last_number: int
    first_number: int | None
    """Of its attempts that are not void."""
    open_key: int | None
    stored_spot: Spot | None
    """Where the stored board has it."""
    spot: Spot | None
    """Where it stands by now."""
    tries: int
    value: float | None = None
    score: float | None = None
    """Of the attempt at `spot`, if that is not the stored one."""
    entered: list[float] = field(default_factory=list)
    """When the attempts were entered that this batch made, and has not stored."""
    stored_count: int | None = None
    """How many attempts are stored that count, once that was asked."""
    scored: int = 0
    """How many this batch scored, and has not stored."""
    counted: bool = False
    """`tries` is another than the stored one."""

    def forget_new(self) -> None:
        """What this batch made of it is stored now."""
        self.entered, self.stored_count, self.scored = [], None, 0
        self.stored_spot, self.counted = self.spot, False

    @property
    def moved(self) -> bool:
        """Whether the board must be told where it stands."""
        return self.spot != self.stored_spot


class BatchMemory:
    """Reads it all, and remembers."""

    def __init__(self, statements: QuickStatements) -> None:
        self._statements = statements
        # Of the driver's connection: what is in it never changes once it is committed.
        self._cache: dict[tuple[Any, ...], Any] = statements.connection.info.setdefault(_CACHE, {})
        if len(self._cache) > _MOST_CACHED:
            self._cache.clear()
        self._ids: dict[tuple[str, str], int | None] = {}
        """Of this batch alone: a challenge may be renamed or deleted."""
        self.challenges: dict[int, StoredChallenge] = {}
        self.rows: dict[int, AttemptRow] = {}
        self.entrants: dict[tuple[int, str], Entrant] = {}
        self.requests: dict[tuple[str, str, str], tuple[str, int]] = {}
        """What was asked under a key, as a digest, and the attempt that was the answer."""
        self.scorings: dict[int, tuple[int, str, str | None]] = {}
        """By challenge, the last rule that attempts were scored by: its key, why, its origin."""

    def find_challenge_id(self, tenant: str, name: str) -> int | None:
        """The key of a challenge; None when there is none of this name."""
        if (tenant, name) not in self._ids:
            query = "SELECT id FROM challenges WHERE tenant = ? AND name = ?"
            known = make_storable(name) == name
            rows = self._statements.read(query, tenant, name) if known else []
            self._ids[tenant, name] = rows[0][0] if rows else None
        return self._ids[tenant, name]

    def lock_challenges(self, keys: Iterable[int]) -> None:
        """From here on nobody else changes these challenges, their attempts or their boards."""
        query = _LOCKING if self._statements.is_postgres else _LOCKED
        for key, tenant, version, revision, *state in self._statements.read_many(
            query, [(key,) for key in sorted(set(keys))]
        ):
            definition: Any = (*state, self._read_definition(key, revision, version))
            self.challenges[key] = StoredChallenge(key, tenant, revision, *definition)

    def load(
        self,
        keys: Iterable[int],
        pairs: Iterable[tuple[int, str]],
        requests: Iterable[tuple[str, str, str]],
    ) -> None:
        """Read attempts by their keys, agents with their open attempts, and requests."""
        read_many = self._statements.read_many
        opened = []
        entries = [(key, self.challenges[key].edition, agent) for key, agent in set(pairs)]
        for challenge_id, agent, last, first, open_key, *spot, tries in read_many(
            _ENTRANTS, entries
        ):
            at: Any = None if tries is None else tuple(spot)
            entrant = Entrant(last or 0, first, open_key, at, at, tries or 0)
            self.entrants[challenge_id, agent] = entrant
            if open_key is not None:
                opened.append(open_key)
        for *values, waiting in read_many(_ROWS, [(key,) for key in {*keys, *opened}]):
            if values[0] is not None:
                self.rows[values[0]] = AttemptRow(values, waiting)
        for *request, digest, attempt in read_many(_REQUESTS, list(set(requests))):
            if digest is not None:
                tenant, agent, key = request
                self.requests[tenant, agent, key] = (digest, attempt)

    def assume(self, known: Iterable[StoredAttempt]) -> None:
        """Add open attempts that were read before the batch, unless `load` has read them."""
        for each in known:
            row = AttemptRow(each.row, assumed=True)
            self.rows.setdefault(row.key, row)

    def version_id(self, kept: StoredChallenge) -> int:
        """The key of the version that counts."""
        found: int = self._read_version(kept.id, kept.challenge.version)
        return found

    def version_of(self, row: AttemptRow) -> str:
        """The version that an attempt was entered at."""
        kept = self.challenges[row.challenge_id]
        if row.version_id == self.version_id(kept):
            return kept.challenge.version
        found: str = self._read_entered_version(row.version_id)[0]
        return found

    def terms_of(self, version_id: int) -> MatchTerms:
        """What a version says of its attempts as matches."""
        found: MatchTerms = self._read_entered_version(version_id)[1]
        return found

    def _read_definition(self, key: int, revision: int, version: str) -> Challenge:
        known: Challenge | None = self._cache.get(("definition", key, revision, version))
        if known is None:
            query = "SELECT definition FROM challenges WHERE id = ?"
            known = _decode_challenge(self._statements.read(query, key)[0][0])
            self._cache["definition", key, revision, version] = known
        return known

    def _read_version(self, challenge_id: int, version: str) -> int:
        known: int | None = self._cache.get(("version", challenge_id, version))
        if known is None:
            query = "SELECT id FROM challenge_versions WHERE challenge_id = ? AND version = ?"
            known = self._statements.read(query, challenge_id, version)[0][0]
            self._cache["version", challenge_id, version] = known
        return int(known)

    def _read_entered_version(self, version_id: int) -> tuple[str, MatchTerms]:
        known: tuple[str, MatchTerms] | None = self._cache.get(("terms", version_id))
        if known is None:
            query = "SELECT version, definition FROM challenge_versions WHERE id = ?"
            version, definition = self._statements.read(query, version_id)[0]
            known = self._cache["terms", version_id] = (version, _decode_terms(definition))
        return known
