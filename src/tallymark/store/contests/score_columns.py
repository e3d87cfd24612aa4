"""Numbers of a challenge's attempts as columns in memory: loaded once, then updated.

They hold what a board could be made of by another rule: every attempt that ranks and is not void,
and the board as it stands. Frozen ones are as of the freeze of the public board. Changed attempts
are found in the log, after the last entry that was seen: see docs/decisions/0034-what-if.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import func, select

from tallymark.errors import InvalidInput
from tallymark.store.contests.challenges import find_challenge
from tallymark.store.contests.formula_scores import (
    METRIC_NAMES,
    list_json_numbers,
    read_columns,
    run_raw,
)
from tallymark.store.contests.tables import agents as agents_table
from tallymark.store.contests.tables import (
    attempt_details,
    attempt_scores,
    attempts,
    boards,
    contest_audit,
    disqualified,
    is_own_score,
    score_history,
    scorings,
)
from tallymark.store.database import TenantRows
from tallymark.store.dialects import read_json_mapping, read_numbers, repeatable_read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from sqlalchemy import ColumnElement, Connection, Row

    from tallymark.challenges.challenge import Challenge
    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.store.contests.formula_scores import Columns

_MOST_CHANGES = 20_000
"""After more entries than this, all is read again."""
_SOME = 500
_HARMLESS = frozenset({"closed", "reopened", "paused", "data failed"})
"""Acts on a whole challenge that change none of its numbers."""
_ORDER = ("submitted_at", "attempt")
_BOARD_ORDER = ("place", "submitted_at", "attempt")
_BOARD_COLUMNS = (*_BOARD_ORDER, "value", "score")
_KINDS = {"agent": np.int32, "attempt": np.int64}
_scores = attempt_scores.c
_NAME_BYTES = 180
"""Approximate memory of an agent's name in a list and a dictionary."""
_ZEROED = '%"constraint_effect":"zero"%'


@dataclass(slots=True)
class ScoreColumns:
    """The columns of one challenge and view. The caller locks them while reading."""

    tenant: str
    challenge_id: int
    revision: int
    seq: int
    """The last entry of the log that it knows."""
    frozen_at: float | None
    """When the board was frozen that it belongs to; None for the live one."""
    attempts: Columns
    """`agent` (a number), `attempt`, `submitted_at`, and every name of `numbers`."""
    board: Columns
    """The board as it stands, with the agents' numbers."""
    agents: list[str]
    """By their numbers."""
    numbers: tuple[str, ...]
    zeroed: frozenset[int] = frozenset()
    """Attempts whose score is 0 because a constraint was broken."""
    absent: frozenset[str] = frozenset()
    """Agents that are disqualified, as of the last look."""
    places: dict[str, int] = field(default_factory=dict)
    """The number of each agent."""
    owners: dict[str, str] | None = None
    """Owners of agents, if a board shows only the best agent of each owner."""
    owners_seq: int = -1
    """The last entry of the tenant's log by which they are known."""

    @property
    def nbytes(self) -> int:
        """About what it takes, the names of agents included."""
        columns = chain(self.attempts.values(), self.board.values())
        return sum(each.nbytes for each in columns) + _NAME_BYTES * len(self.agents)


class ScoreColumnReader(TenantRows):
    def refresh(self, name: str, known: ScoreColumns | None, *, as_frozen: bool) -> ScoreColumns:
        """Return current columns: the known ones updated, or new ones.

        `as_frozen` are those of the frozen board while there is one.
        """
        with self._database.read() as connection:
            kept = find_challenge(repeatable_read(connection), self._tenant, name)
            if kept.challenge.kind == "versus":
                raise InvalidInput(f"{name} is played red against blue: no rule scores it")
            frozen_at = kept.frozen_at if as_frozen else None
            seq = read_newest(connection, kept.id)
            columns = known
            if columns is None or not _bring_up_to_date(connection, kept, columns, frozen_at, seq):
                columns = _read_all(connection, kept, frozen_at, seq)
            mine = disqualified.c.tenant == self._tenant
            columns.absent = frozenset(connection.scalars(select(disqualified.c.agent).where(mine)))
            if kept.challenge.one_per == "owner":
                _refresh_owners(connection, columns)
        return columns

    def view_of(self, name: str, *, as_frozen: bool) -> tuple[int, float | None, Challenge]:
        """Which columns a caller is to be shown: the challenge's id and the freeze of its board."""
        with self._database.read() as connection:
            kept = find_challenge(connection, self._tenant, name)
        return kept.id, kept.frozen_at if as_frozen else None, kept.challenge


def read_newest(connection: Connection, challenge_id: int) -> int:
    """The last entry of a challenge in the log."""
    mine = contest_audit.c.challenge_id == challenge_id
    return int(connection.scalar(select(func.max(contest_audit.c.seq)).where(mine)) or 0)


def _refresh_owners(connection: Connection, columns: ScoreColumns) -> None:
    """Reload owners if the tenant's log has new entries."""
    mine = contest_audit.c.tenant == columns.tenant
    newest = select(func.max(contest_audit.c.seq)).where(mine, contest_audit.c.challenge_id == 0)
    seq = connection.scalar(newest) or 0
    if seq != columns.owners_seq:
        theirs = (agents_table.c.tenant == columns.tenant, agents_table.c.owner.is_not(None))
        query = select(agents_table.c.handle, agents_table.c.owner).where(*theirs)
        columns.owners = {row[0]: row[1] for row in _fetch(connection, query)}
        columns.owners_seq = seq


def list_number_names(challenge: Challenge) -> tuple[str, ...]:
    """The numbers that a formula may name, but those that follow from others."""
    return (*METRIC_NAMES, *chain.from_iterable(list_json_numbers(challenge).values()))


# All at once


def _read_all(
    connection: Connection, kept: StoredChallenge, frozen_at: float | None, seq: int
) -> ScoreColumns:
    if frozen_at is not None:
        _require_old_numbers(connection, kept, frozen_at)
    agents, columns = _read_numbers(connection, kept)
    left_out = _find_left_out(connection, kept, frozen_at, columns["attempt"])
    if left_out is not None:
        columns = {name: column[~left_out] for name, column in columns.items()}
    found = ScoreColumns(
        tenant=kept.tenant,
        challenge_id=kept.id,
        revision=kept.revision,
        seq=seq,
        frozen_at=frozen_at,
        attempts=_sort_rows(columns, _ORDER),
        board={},
        agents=agents,
        numbers=list_number_names(kept.challenge),
        zeroed=_find_zeroed(connection, kept),
        places={agent: number for number, agent in enumerate(agents)},
    )
    found.board = _read_board(connection, kept, found)
    return found


def _read_board(
    connection: Connection,
    kept: StoredChallenge,
    columns: ScoreColumns,
    agents: Sequence[str] | None = None,
) -> dict[str, NDArray[Any]]:
    """The rows of a board, or those of some agents."""
    board = kept.get_board(as_frozen=columns.frozen_at is not None)
    query = select(boards.c.agent, *(boards.c[name] for name in _BOARD_COLUMNS)).where(
        board.rows(boards)
    )
    if agents is None:
        rows = _fetch(connection, query.order_by(*(boards.c[name] for name in _BOARD_ORDER)))
    else:
        rows = chain.from_iterable(
            _fetch(connection, query.where(boards.c.agent.in_(agents[start : start + _SOME])))
            for start in range(0, len(agents), _SOME)
        )
    found, numbers = list(rows), columns.places
    made = _make_columns(found, ("agent", *_BOARD_COLUMNS), skipped=1)
    # Nearly all are known from their attempts.
    known = (numbers.get(row[0]) for row in found)
    agents_found = [
        _number_of(columns, row[0]) if number is None else number
        for row, number in zip(found, known, strict=True)
    ]
    return {"agent": np.array(agents_found, dtype=_KINDS["agent"]), **made}


def _number_of(columns: ScoreColumns, agent: str) -> int:
    number = columns.places.setdefault(agent, len(columns.agents))
    if number == len(columns.agents):
        columns.agents.append(agent)
    return number


def _make_columns(
    rows: Sequence[Sequence[Any]], names: Sequence[str], *, skipped: int = 0
) -> dict[str, NDArray[Any]]:
    """Make columns of rows, without the first `skipped`; missing values become NaN."""
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return {
        name: np.array(column, dtype=_KINDS.get(name, np.float64))
        for name, column in zip(names[skipped:], cells[skipped:], strict=True)
    }


def _fetch(connection: Connection, query: Any) -> Iterable[tuple[Any, ...]]:
    """Rows from the driver itself: SQLAlchemy's own take three times as long."""
    compiled = query.compile(
        dialect=connection.dialect, compile_kwargs={"render_postcompile": True}
    )
    values = compiled.construct_params()
    if compiled.positional:
        given: Any = tuple(values[name] for name in compiled.positiontup)
    else:
        given = values
    cursor: Any = connection.exec_driver_sql(str(compiled), given).cursor
    found: Iterable[tuple[Any, ...]] = cursor
    return found


_RANKING = "challenge_id = {} AND ranks"


def _read_numbers(
    connection: Connection, kept: StoredChallenge
) -> tuple[list[str], dict[str, NDArray[Any]]]:
    """The agents, and all columns with the agents' numbers."""
    mine = _RANKING.format(kept.id)
    whole, json = {"attempt": "attempt"}, list_json_numbers(kept.challenge)
    numbers = ("submitted_at", *METRIC_NAMES)
    if connection.dialect.name == "postgresql":
        agents, hashes, seed = _hash_agents(connection, mine)
        whole["agent"] = f"hashtextextended(agent, {seed})"
        columns = read_columns(connection, mine, whole, numbers, json)
        sorting = np.argsort(hashes)
        columns["agent"] = sorting[np.searchsorted(hashes[sorting], columns["agent"])]
    else:
        # In the order of the key, agent by agent, so that no name is read for each row.
        counting = f"SELECT agent, count(*) FROM attempt_scores WHERE {mine} GROUP BY agent"  # noqa: S608
        counted = list(run_raw(connection, counting))
        agents, sizes = [row[0] for row in counted], [row[1] for row in counted]
        columns = read_columns(connection, mine, whole, numbers, json)
        columns["agent"] = np.repeat(np.arange(len(agents)), sizes)
    columns["agent"] = columns["agent"].astype(_KINDS["agent"])
    return agents, columns


def _hash_agents(connection: Connection, mine: str) -> tuple[list[str], NDArray[np.int64], int]:
    """The agents with hashes of their names, and the seed by which all of these differ."""
    seed = 0
    while True:
        query = f"SELECT agent, hashtextextended(agent, {seed}) FROM attempt_scores WHERE {mine}"  # noqa: S608
        rows = run_raw(connection, f"{query} GROUP BY agent").fetchall()
        hashes = np.array([row[1] for row in rows], dtype=np.int64)
        if len(np.unique(hashes)) == len(rows):
            return [row[0] for row in rows], hashes, seed
        seed += 1


# Rows that count


def _find_left_out(
    connection: Connection, kept: StoredChallenge, frozen_at: float | None, keys: NDArray[Any]
) -> NDArray[np.bool_] | None:
    """The rows that are not on the board: void ones, and what came after a freeze."""
    if frozen_at is None:
        void = attempts.c.voided_at.is_not(None)
        query = select(attempts.c.key).where(attempts.c.challenge_id == kept.id, void)
        gone = list(connection.scalars(query))
        return np.isin(keys, gone) if gone else None
    known = (
        select(score_history.c.attempt)
        .join(scorings, scorings.c.id == score_history.c.scoring)
        .where(scorings.c.challenge_id == kept.id, score_history.c.at < frozen_at)
    )
    then = np.fromiter((row[0] for row in _fetch(connection, known)), np.int64)
    return ~np.isin(keys, then) | np.isin(keys, _find_void_at_freeze(connection, kept))


def _find_void_at_freeze(connection: Connection, kept: StoredChallenge) -> list[int]:
    """Attempts that were void at the freeze, by the log: by now they may count again."""
    log = contest_audit.c
    query = (
        select(log.attempt, log.event)
        .where(log.challenge_id == kept.id)
        .where(log.event.in_(("voided", "unvoided", "frozen")))
        .order_by(log.seq)
    )
    void: set[int] = set()
    then: list[int] = []
    for key, event in connection.execute(query):
        if event == "frozen":
            then = list(void)
        elif event == "voided":
            void.add(key)
        else:
            void.discard(key)
    return then


def _require_old_numbers(connection: Connection, kept: StoredChallenge, frozen_at: float) -> None:
    """Refuse if attempts were evaluated again since the freeze: their old numbers are gone."""
    query = (
        select(_scores.attempt)
        .join(scorings, scorings.c.id == _scores.scoring)
        .where(_scores.challenge_id == kept.id, scorings.c.challenge_id == kept.id)
        .where(scorings.c.why == "rescore", scorings.c.at >= frozen_at)
    )
    if connection.execute(query.limit(1)).first() is not None:
        raise InvalidInput(
            f"attempts at {kept.challenge.name!r} were scored again since its board was frozen,"
            " and the earlier numbers are not stored",
            hint="ask again when the board moves, or ask its organiser",
        )


def _find_zeroed(
    connection: Connection, kept: StoredChallenge, keys: Sequence[int] | None = None
) -> frozenset[int]:
    """Attempts that scored 0 for a broken constraint; no formula would let them rank."""
    scoring = kept.challenge.scoring
    ranks = kept.challenge.constraints.on_violation == "zero" and scoring.dimensions
    if not ranks:
        return frozenset()
    query = (
        select(attempts.c.key, attempt_details.c.details)
        .join(attempt_details, attempt_details.c.attempt == attempts.c.key)
        .where(attempts.c.challenge_id == kept.id, attempt_details.c.details.like(_ZEROED))
    )
    query = query if keys is None else query.where(attempts.c.key.in_(keys))
    return frozenset(
        key
        for key, details in connection.execute(query)
        if read_json_mapping(details).get("constraint_effect") == "zero"
    )


# Since the last look


def _bring_up_to_date(
    connection: Connection,
    kept: StoredChallenge,
    columns: ScoreColumns,
    frozen_at: float | None,
    seq: int,
) -> bool:
    """Apply changes since the last refresh; return False if all must be read again."""
    known = (columns.challenge_id, columns.revision, columns.frozen_at)
    if known != (kept.id, kept.revision, frozen_at) or seq < columns.seq:
        return False
    if seq == columns.seq:
        return True
    log = contest_audit.c
    query = (
        select(log.attempt, log.event)
        .where(log.challenge_id == kept.id, log.seq > columns.seq, log.seq <= seq)
        .limit(_MOST_CHANGES + 1)
    )
    entries = connection.execute(query).all()
    whole = {event for attempt, event in entries if attempt is None}
    if len(entries) > _MOST_CHANGES or not whole <= _HARMLESS:
        return False
    if frozen_at is None:
        keys = sorted({key for key, _ in entries if key is not None})
        _replace_attempts(connection, kept, columns, keys)
    columns.seq = seq
    return True


def _replace_attempts(
    connection: Connection, kept: StoredChallenge, columns: ScoreColumns, keys: Sequence[int]
) -> None:
    """Put these attempts, and the agents that made them, where they are now."""
    rows = [row for some in _cut(keys) for row in _read_scored(connection, some)]
    if not rows:
        return
    agents = sorted({row.agent for row in rows})
    new = [_make_row(columns, row) for row in rows if row.ranks and row.voided_at is None]
    names = ("agent", "attempt", "submitted_at", *columns.numbers)
    gone = _find_rows(columns.attempts, [(row.submitted_at, row.attempt) for row in rows])
    columns.attempts = _replace_rows(columns.attempts, gone, _make_columns(new, names), _ORDER)
    for some in _cut(keys):
        columns.zeroed |= _find_zeroed(connection, kept, some)
    gone = np.isin(columns.board["agent"], [columns.places.get(each, -1) for each in agents])
    moved = _read_board(connection, kept, columns, agents)
    columns.board = _replace_rows(columns.board, gone, moved, _BOARD_ORDER)


def _find_rows(columns: Columns, keys: Iterable[tuple[float, int]]) -> NDArray[np.bool_]:
    """The rows of these attempts, each by its time and key: most of them have none."""
    times, attempt = columns["submitted_at"], columns["attempt"]
    found = np.zeros(len(times), dtype=np.bool_)
    for submitted_at, key in keys:
        first = np.searchsorted(times, submitted_at)
        last = np.searchsorted(times, submitted_at, "right")
        found[first:last] |= attempt[first:last] == key
    return found


def _replace_rows(
    columns: Columns, gone: NDArray[np.bool_], new: Columns, order: Sequence[str]
) -> Columns:
    """The columns without some rows and with others, in order."""
    left = ~gone if gone.any() else slice(None)
    whole = {name: np.concatenate([column[left], new[name]]) for name, column in columns.items()}
    return _sort_rows(whole, order)


def _sort_rows(columns: Columns, order: Sequence[str]) -> Columns:
    """The columns sorted by some of them, the first counting most."""
    keys = [columns[name] for name in order]
    after = np.zeros(max(0, len(keys[0]) - 1), dtype=np.bool_)
    tied = ~after
    for key in keys:
        after |= tied & (key[1:] < key[:-1])
        tied &= key[1:] == key[:-1]
    if not after.any():  # nearly always: attempts that came since are the last
        return columns
    sorting = np.lexsort(keys[::-1])
    return {name: column[sorting] for name, column in columns.items()}


def _cut(keys: Sequence[int]) -> Iterator[Sequence[int]]:
    return (keys[start : start + _SOME] for start in range(0, len(keys), _SOME))


def _read_scored(connection: Connection, keys: Sequence[int]) -> Sequence[Row[Any]]:
    wanted: ColumnElement[bool] = attempts.c.key.in_(keys)
    query = select(attempt_scores, attempts.c.voided_at).join(attempts, is_own_score)
    return connection.execute(query.where(wanted)).all()


def _make_row(columns: ScoreColumns, row: Row[Any]) -> tuple[Any, ...]:
    found: Mapping[Any, Any] = row._mapping  # noqa: SLF001  so SQLAlchemy calls it
    own = {**read_numbers(row.more), **read_json_mapping(row.dimensions)}
    numbers = [found[each] if each in METRIC_NAMES else own.get(each) for each in columns.numbers]
    return (_number_of(columns, row.agent), row.attempt, row.submitted_at, *numbers)
