"""Rows of boards: places, weighted dimensions and ties."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from tallymark.challenges.challenge import PublicChallenge
from tallymark.challenges.dimension_scores import weighted_dimensions
from tallymark.challenges.strategies import STRATEGIES, LikelyPlace, Standing, Strategy
from tallymark.text import format_number, format_score

EARLIER_RULE = "under the rule from before the freeze"


class DimensionShare(msgspec.Struct, frozen=True, kw_only=True):
    """Weighted score of one dimension."""

    key: str
    label: str
    color: str
    again: bool
    """True for the second of two dimensions of the same colour."""
    weight: float
    score: float
    """0 to 1000, before the weight."""
    description: str = ""

    @property
    def weighted(self) -> float:
        return self.score * self.weight


class BoardRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a board."""

    standing: Standing
    name: str
    shown: str
    """The value, formatted."""
    how: str
    """One line that says how the value was computed."""
    tied: bool
    """True if a neighbour has the same value."""
    parts: list[DimensionShare]
    share: float
    """Share of the best value on the page, for a bar; 0 if values are not amounts."""
    me: bool
    official: str = ""
    """On a what-if board, the value under the official rule."""

    @property
    def rank(self) -> int:
        return self.standing.rank

    @property
    def agent(self) -> str:
        return self.standing.agent

    @property
    def attempt(self) -> str:
        return self.standing.attempt or ""

    @property
    def value(self) -> float | None:
        return self.standing.value

    @property
    def result(self) -> str | None:
        return self.standing.result or None

    @property
    def seconds(self) -> float | None:
        elapsed = self.standing.elapsed_ms
        return elapsed / 1000 if isinstance(elapsed, int) else None

    @property
    def likely(self) -> LikelyPlace | None:
        return self.standing.likely or None


def list_dimensions(
    challenge: PublicChallenge, scores: Mapping[str, float] | None = None
) -> list[DimensionShare]:
    """List the dimensions of a challenge, with an attempt's scores if given."""
    seen: set[str] = set()
    found = []
    dimensions = challenge.scoring.dimensions
    for each in weighted_dimensions(dimensions) if dimensions else ():
        colour = each.dimension.color.lower()
        found.append(
            DimensionShare(
                key=each.key,
                label=each.dimension.label,
                color=each.dimension.color,
                again=colour in seen,
                weight=float(each.weight),
                score=0.0,
                description=each.dimension.description,
            )
        )
        seen.add(colour)
    return _fill_in(found, scores) if scores else found


def _fill_in(
    dimensions: Sequence[DimensionShare], scores: Mapping[str, float]
) -> list[DimensionShare]:
    return [
        msgspec.structs.replace(each, score=float(scores.get(each.key, 0.0))) for each in dimensions
    ]


def _explain(
    challenge: PublicChallenge, value: float | None, parts: Sequence[DimensionShare]
) -> str:
    strategy = STRATEGIES[challenge.scoring.strategy]
    if strategy.metric is not None:
        return f"{strategy.heading.lower()}, as measured"
    how = explain_value(challenge, parts)
    if challenge.scoring.formula and not challenge.scoring.plugin:
        return f"{how}; open it for its values"
    if (
        how.endswith("rounded down")
        and abs(sum(each.weighted for each in parts) - (value or 0)) > 1
    ):
        return "not the sum of its dimensions; open it for the reason"
    return how


def explain_value(challenge: PublicChallenge, parts: Sequence[DimensionShare]) -> str:
    """Explain how a score is computed: the plugin, the formula or the weighted sum."""
    scoring = challenge.scoring
    if scoring.plugin:
        return f"from the plugin {scoring.plugin}"
    if scoring.formula:
        return f"the formula {scoring.formula}"
    if parts:
        points = " + ".join(f"{format_number(each.weighted)} {each.label}" for each in parts)
        whole = format_number(sum(each.weighted for each in parts))
        return f"{points} = {whole}, rounded down"
    return f"{STRATEGIES[scoring.strategy].heading.lower()}, as measured"


def write_values(strategy: Strategy, values: Sequence[float | None]) -> list[str]:
    """Format a column of a board: whole numbers as they are, others with two decimals.

    If two decimals would make different values look equal, all digits are shown.
    """
    known = {value for value in values if value is not None}
    short = [strategy.write(each) if each is None else format_score(each) for each in values]
    if strategy.metric is not None or all(float(each).is_integer() for each in known):
        return [strategy.write(each) for each in values]
    alike = len({format_score(each) for each in known}) < len(known)
    return [strategy.write(each) for each in values] if alike else short


def write_value(challenge: PublicChallenge, value: float | None) -> str:
    """Format one value of a board."""
    return write_values(STRATEGIES[challenge.scoring.strategy], [value])[0]


def list_board(
    challenge: PublicChallenge,
    standings: Sequence[Standing],
    names: Mapping[str, str],
    marked: Collection[str | None] = (),
    beside: Sequence[Standing] = (),
) -> list[BoardRow]:
    """Make rows of standings; `beside` holds their neighbours, to detect ties."""
    strategy = STRATEGIES[challenge.scoring.strategy]
    dimensions = list_dimensions(challenge)
    ordered = sorted((*standings, *beside), key=lambda each: each.rank)
    tied = {
        each.agent
        for one, two in pairwise(ordered)
        if one.value == two.value and two.rank == one.rank + 1
        for each in (one, two)
    }
    amounts = [each.value for each in standings if each.value is not None and each.value > 0]
    most = max(amounts, default=0.0) if strategy.metric != "succeeded" else 0.0
    rows = []
    written = write_values(strategy, [each.value for each in standings])
    for each, shown in zip(standings, written, strict=True):
        earlier = each.by_earlier_rule is True
        parts = [] if earlier else _fill_in(dimensions, each.dimensions or {})
        rows.append(
            BoardRow(
                standing=each,
                name=names.get(each.agent, each.agent),
                shown=shown,
                how=EARLIER_RULE if earlier else _explain(challenge, each.value, parts),
                tied=each.agent in tied,
                parts=parts,
                share=(each.value or 0.0) / most if most else 0.0,
                me=each.agent in marked,
            )
        )
    return rows


def list_flat(challenge: PublicChallenge, rows: Iterable[BoardRow]) -> Iterator[dict[str, Any]]:
    """List rows for CSV, with a column for each dimension."""
    keys = [each.key for each in challenge.scoring.dimensions]
    for row in rows:
        flat: dict[str, Any] = msgspec.to_builtins(row.standing)
        scores = flat.pop("dimensions", {})
        for name in ("likely", "by_earlier_rule"):
            flat.pop(name, None)
        yield flat | {"name": row.name, "shown": row.shown} | {key: scores.get(key) for key in keys}
