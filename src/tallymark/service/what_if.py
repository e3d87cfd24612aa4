"""What-if boards: a leaderboard by another rule, computed at once from columns in memory.

It reveals nothing that the board does not show: the public gets answers from visible attempts,
which on a frozen board are those known at the freeze.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from tallymark.challenges.attempt_formula import challenge_formula
from tallymark.challenges.board_columns import (
    find_first_of_owners,
    find_shown_scores,
    find_totals,
    rank_by_score,
)
from tallymark.challenges.dimension_scores import weighted_dimensions
from tallymark.challenges.rescore_plan import describe_rule
from tallymark.challenges.strategies import Standing
from tallymark.dimensions.breakdown import SOLO_WIN_THRESHOLD
from tallymark.dimensions.dimension import to_fraction
from tallymark.errors import InvalidInput, NeedsJob, suggest
from tallymark.scoring.score import show_value
from tallymark.service.boards import WhatIfBoard
from tallymark.store.contests.formula_scores import evaluate_formula
from tallymark.store.contests.tables import attempt_id

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tallymark.challenges.challenge import Challenge
    from tallymark.store import Store
    from tallymark.store.contests.score_columns import ScoreColumns

MOST_BYTES = 512 * 2**20
"""Memory limit for the columns of all challenges. The least recently used are dropped, and loaded
again on demand.
"""
MOST_SHOWN = 1000
_NEIGHBOURS = 3


class WhatIfRule(msgspec.Struct, frozen=True, kw_only=True):
    """Another rule: a formula, weights of the dimensions, or a config; one of them."""

    formula: str | None = None
    weights: dict[str, float] | None = None
    config: dict[str, Any] | None = None


class _Line(NamedTuple):
    """A line of the board by another rule."""

    rank: int
    agent: str
    attempt: str
    score: float | None
    before: int | None
    """The rank on the board as it is; None for an agent that is not on it."""


_Describe: TypeAlias = "Callable[[Sequence[_Line]], list[Standing]]"


def _describe_lines(
    store: Store, name: str, public: bool, lines: Sequence[_Line]
) -> list[Standing]:
    """Add what the store knows of the attempts, and of the board as it is."""
    numbers = store.contest_stats.numbers([each.attempt for each in lines], as_frozen=public)
    official = store.contest_stats.lines_of(name, [each.agent for each in lines], as_frozen=public)
    found = []
    for each in lines:
        own, (value, tries) = numbers[each.attempt], official.get(each.agent, (None, 0))
        found.append(
            Standing(
                rank=each.rank,
                agent=each.agent,
                attempt=each.attempt,
                value=each.score,
                score=each.score,
                submitted_at=own.submitted_at,
                tries=tries,
                trajectory_level=own.level,
                result=own.result,
                elapsed_ms=own.elapsed_ms,
                dimensions=own.dimensions,
                by_earlier_rule=own.by_earlier_rule,
                before=each.before,
                moved=None if each.before is None else each.before - each.rank,
                official=value,
            )
        )
    return found


@dataclass(slots=True)
class _Slot:
    """The columns of a challenge and view, and the lock under which they are used."""

    columns: ScoreColumns | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    totals: tuple[Any, NDArray[np.float64]] | None = None
    nbytes: int = 0


class WhatIfs:
    """One for a process and all tenants: it bounds the memory of all columns.

    Safe to use from several threads; calls for the same board wait for each other.
    """

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._slots: OrderedDict[tuple[int, bool], _Slot] = OrderedDict()
        """By challenge, and whether its board is frozen; the last ones used come last."""
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """The memory that all columns take."""
        with self._lock:
            return sum(each.nbytes for each in self._slots.values())

    def ask(
        self,
        store: Store,
        name: str,
        rule: WhatIfRule,
        *,
        public: bool,
        around: str | None = None,
        limit: int = 100,
    ) -> WhatIfBoard:
        """The top of the board by a rule, and the rank of an agent.

        A plugin's config cannot be evaluated on columns: that is `NeedsJob`.
        """
        if not 1 <= limit <= MOST_SHOWN:
            raise InvalidInput(f"a limit is from 1 to {MOST_SHOWN:,}, not {limit}")
        challenge_id, frozen_at, challenge = store.score_columns.view_of(name, as_frozen=public)
        new = change_rule(challenge, rule)  # before anything large is read
        slot = self._find_slot((challenge_id, frozen_at is not None))
        with slot.lock:
            slot.columns = store.score_columns.refresh(name, slot.columns, as_frozen=public)
            slot.nbytes = slot.columns.nbytes
            again = rule.weights is not None
            describe = partial(_describe_lines, store, name, public)
            answer = _WhatIf(slot, new, weighed_again=again).answer(around, limit, describe)
        self._make_room()
        return answer

    def _find_slot(self, key: tuple[int, bool]) -> _Slot:
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            return slot

    def _make_room(self) -> None:
        """Drop the columns that were not used for the longest time, where all take too much."""
        with self._lock:
            held = 0
            for key, slot in reversed(list(self._slots.items())):
                held += slot.nbytes
                if held > self._most_bytes:
                    held -= slot.nbytes
                    del self._slots[key]


def change_rule(challenge: Challenge, rule: WhatIfRule) -> Challenge:
    """The challenge by another rule; InvalidInput where it cannot be, NeedsJob where it takes one.

    A FormulaError has the columns of what is wrong.
    """
    given = [each for each in rule.__struct_fields__ if getattr(rule, each) is not None]
    if len(given) != 1:
        raise InvalidInput("a what-if is by one of formula, weights and config", hint="give one")
    scoring = challenge.scoring
    if rule.formula is not None:
        changes: dict[str, Any] = {"formula": rule.formula, "plugin": None, "strategy": "custom"}
    elif rule.weights is not None:
        changes = {"dimensions": _change_weights(challenge, rule.weights)}
    else:
        changes = {"config": _check_config(challenge, rule.config or {})}
    new = msgspec.structs.replace(challenge, scoring=msgspec.structs.replace(scoring, **changes))
    if new.scoring.formula is not None:
        challenge_formula(new)
    return new


def _change_weights(challenge: Challenge, weights: Mapping[str, float]) -> tuple[Any, ...]:
    scoring = challenge.scoring
    name, known = challenge.name, {each.key: each for each in scoring.dimensions}
    if not known:
        raise InvalidInput(f"{name!r} weighs no dimensions", hint="try a formula instead")
    _refuse_plugin(challenge, "weights")
    for key in weights:
        if key not in known:
            close = suggest(key, known)
            hint = f"did you mean {close!r}?" if close else f"it has {', '.join(known)}"
            raise InvalidInput(f"{name!r} has no dimension {show_value(key)}", hint=hint)
    if scoring.formula is not None and "total" not in challenge_formula(challenge).formula.names:
        raise InvalidInput(
            f"the formula of {name!r} does not use total, so weights would change nothing",
            hint="try a formula instead",
        )
    made = tuple(
        msgspec.structs.replace(each, weight=weights[each.key])
        for each in scoring.dimensions
        if each.key in weights
    )
    weighted_dimensions(made)  # refuses weights that are none
    if scoring.formula is not None and len(made) < len(known):
        missing = next(key for key in known if key not in weights)
        raise InvalidInput(f"the weight of {missing!r} is missing", hint="give one to each")
    return made


def _check_config(challenge: Challenge, config: Mapping[str, Any]) -> dict[str, Any]:
    """Value for undefined scores: the one number of a config that formulas use."""
    _refuse_plugin(challenge, "config")
    if challenge.scoring.formula is None:
        raise InvalidInput(f"the scoring of {challenge.name!r} has no config", hint="try a formula")
    for key in config:
        if key != "undefined":
            raise InvalidInput(f"a formula has no use for the config {show_value(key)}")
    if "undefined" in config and to_fraction(config["undefined"]) is None:
        raise InvalidInput(f"undefined is a number, not {show_value(config['undefined'])}")
    return dict(config)


def _refuse_plugin(challenge: Challenge, what: str) -> None:
    if challenge.scoring.plugin is not None:
        raise NeedsJob(
            f"{challenge.name!r} is scored by a plugin, which must run again for another {what}",
            hint="ask for a preview of rescoring, which is a job",
        )


class _WhatIf:
    """One answer, while the lock of its columns is held."""

    def __init__(self, slot: _Slot, challenge: Challenge, *, weighed_again: bool) -> None:
        assert slot.columns is not None  # noqa: S101 (for the type checker)
        self._slot = slot
        self._weighed_again = weighed_again
        self._columns = slot.columns
        self._challenge = challenge
        self._rows = len(slot.columns.attempts["attempt"])

    def answer(self, around: str | None, limit: int, describe: _Describe) -> WhatIfBoard:
        columns = self._columns
        agent = columns.attempts["agent"]
        numbers = [columns.places[each] for each in columns.absent if each in columns.places]
        absent = np.array(numbers, dtype=np.intp)
        scores, left_out = self._score()
        agents = len(columns.agents)
        ranked = rank_by_score(scores, agent, agents, absent=absent, left_out=left_out)
        board = columns.board["agent"]
        board = board[~np.isin(board, absent)] if len(absent) else board
        if columns.owners is not None:
            owner = self._number_owners(columns.owners)
            ranked = ranked[find_first_of_owners(agent[ranked], owner)]
            board = board[find_first_of_owners(board, owner)]
        after = _count_ranks(agent[ranked], agents)
        before = _count_ranks(board, agents)
        both = (after > 0) & (before > 0)

        def show(first: int, last: int) -> list[Standing]:
            rows = ranked[max(0, first) : last]
            return describe(
                [
                    self._make_line(rank, int(row), scores, before)
                    for rank, row in enumerate(rows, max(0, first) + 1)
                ]
            )

        return WhatIfBoard(
            challenge=self._challenge.name,
            rule=describe_rule(self._challenge.scoring),
            scoring=self._challenge.scoring,
            seq=0 if columns.frozen_at is not None else columns.seq,
            frozen=columns.frozen_at is not None,
            agents=len(ranked),
            attempts=self._rows,
            undefined=int(np.isnan(scores[ranked]).sum()),
            up=int((both & (after < before)).sum()),
            down=int((both & (after > before)).sum()),
            items=show(0, limit),
            around=None if around is None else self._show_around(around, after, show),
            findings=self._lint(),
        )

    def _number_owners(self, owners: Mapping[str, str]) -> NDArray[np.intp]:
        """Owner number of each agent by agent number; -1 without an owner."""
        numbers: dict[str, int] = {}
        found = np.full(len(self._columns.agents), -1, dtype=np.intp)
        for agent, owner in owners.items():
            if (place := self._columns.places.get(agent)) is not None:
                found[place] = numbers.setdefault(owner, len(numbers))
        return found

    def _show_around(self, agent: str, after: NDArray[Any], show: Any) -> Any:
        number = self._columns.places.get(agent)
        rank = 0 if number is None else int(after[number])
        return show(rank - 1 - _NEIGHBOURS, rank + _NEIGHBOURS) if rank else []

    def _make_line(
        self, rank: int, row: int, scores: NDArray[np.float64], before: NDArray[Any]
    ) -> _Line:
        columns = self._columns
        number = int(columns.attempts["agent"][row])
        score, old = float(scores[row]), int(before[number]) or None
        shown = None if math.isnan(score) else score
        attempt = attempt_id(int(columns.attempts["attempt"][row]))
        return _Line(rank, columns.agents[number], attempt, shown, old)

    def _score(self) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
        """Every attempt's score by the rule, and the attempts that would not rank by it."""
        scoring = self._challenge.scoring
        if scoring.formula is None:
            weighted = weighted_dimensions(scoring.dimensions)
            shown = find_shown_scores(weighted, self._get_numbers(), self._rows)
            missing = np.isnan(shown)  # of what was not judged in every dimension
            return shown, missing if missing.any() else None
        names = challenge_formula(self._challenge).formula.names
        given = self._get_numbers()
        if "total" in names:
            given["total"] = self._get_totals(given)
        if self._weighed_again and "succeeded" in names:
            weighted = weighted_dimensions(scoring.dimensions)
            shown = find_shown_scores(weighted, given, self._rows)
            given["succeeded"] = (shown >= SOLO_WIN_THRESHOLD).astype(np.float64)
        scores = evaluate_formula(self._challenge, given, self._rows)
        if (instead := to_fraction(scoring.config.get("undefined"))) is not None:
            np.copyto(scores, float(instead), where=np.isnan(scores))
        zeroed = self._columns.zeroed
        if not zeroed:
            return scores, None
        return scores, np.isin(self._columns.attempts["attempt"], list(zeroed))

    def _get_numbers(self) -> dict[str, Any]:
        return {name: self._columns.attempts[name] for name in self._columns.numbers}

    def _get_totals(self, given: Mapping[str, Any]) -> NDArray[np.float64]:
        """Cached, since scores with many decimals take long."""
        dimensions = self._challenge.scoring.dimensions
        key = (self._columns.seq, self._columns.revision, dimensions, id(self._columns))
        if self._slot.totals is None or self._slot.totals[0] != key:
            totals = find_totals(weighted_dimensions(dimensions), given, self._rows)
            self._slot.totals = (key, totals)
        return self._slot.totals[1]

    def _lint(self) -> list[dict[str, Any]]:
        if self._challenge.scoring.formula is None:
            return []
        found = challenge_formula(self._challenge).formula.lint().findings
        return [each.to_dict() for each in found]


def _count_ranks(agents_in_order: NDArray[Any], agents: int) -> NDArray[np.intp]:
    """The rank of each agent by its number; 0 for one that is not on the board."""
    ranks = np.zeros(agents, dtype=np.intp)
    ranks[agents_in_order] = np.arange(1, len(agents_in_order) + 1)
    return ranks
