"""One agent: how good, and how sure is that?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.charts.frame import Chart
from tallymark.charts.lines import Line, LinePoint, draw_lines
from tallymark.errors import NotFound
from tallymark.ratings import Counts, fit
from tallymark.service.side_places import list_side_places
from tallymark.service.visibility import show_owner
from tallymark.text import format_rating, format_tick
from tallymark.web.board_rows import list_dimensions, write_value
from tallymark.web.head_to_head import Duel, Rival, list_rivals, make_duel
from tallymark.web.page import Page
from tallymark.web.rating_lines import RatingLine, make_rating_table
from tallymark.web.rating_sums import (
    EloStep,
    FitSum,
    FloorSum,
    list_elo_steps,
    sum_up_fit,
    sum_up_floor,
)
from tallymark.web.view import Pager, View
from tallymark.web.visit import Visit

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt
    from tallymark.challenges.strategies import Standing
    from tallymark.ratings import Pair

_MOST_ATTEMPTS = 20
_MOST_RIVALS = 10
_MOST_STEPS = 20
_MOST_MATCHES = 20_000
"""Of everybody, that are fitted again while somebody waits; so often:"""
_MOST_FITS = 12


class ChallengeResult(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent fares at a challenge."""

    name: str
    title: str
    side: str | None = None
    """In red against blue."""
    tries: int
    attempt: str | None
    """The best one; to a side, nothing is attempted."""
    shown: str
    result: str | None
    place: int
    agents: int


class DimensionMean(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of a dimension over the best attempts."""

    label: str
    color: str
    mean: float
    of: int


class AttemptLine(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt in the list."""

    id: str
    challenge: str
    number: int
    state: str
    result: str | None
    score: float | None
    at: float


class FitPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The fitted strength after so many matches of the agent."""

    match: int
    value: float
    low: float
    high: float


class AgentView(View, frozen=True, kw_only=True):
    """A profile."""

    handle: str
    name: str
    owner: str | None
    since: float
    rating: RatingLine | None
    comparable: bool
    """Whether it can be compared with all agents: its place is one among those alone."""
    elo_path: list[int]
    """After every match, the oldest first; empty while a board is frozen."""
    elo_steps: list[EloStep]
    """The newest matches with their arithmetic; empty while a board is frozen."""
    fit_sum: FitSum | None
    floor_sum: FloorSum | None
    fit_path: list[FitPoint]
    """The fit as it was after some of the matches."""
    frozen: list[str]
    results: list[ChallengeResult]
    dimensions: list[DimensionMean]
    rivals: list[Rival]
    duel: Duel | None
    """Against the agent that the address names."""
    attempts: list[AttemptLine]
    pager: Pager
    disqualified: bool

    @property
    def chart(self) -> Chart:
        """The fit with its interval, as it grew, and Elo."""
        fitted = [
            LinePoint(each.match, each.value, (each.low, each.high)) for each in self.fit_path
        ]
        elo = [LinePoint(place, value) for place, value in enumerate(self.elo_path)]
        lines = [Line("Fit", fitted)] if fitted else []
        lines.append(Line("Elo", elo))
        return draw_lines("Rating", lines, format_tick, format_rating)

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each challenge, or for each that two share."""
        rows = self.results if self.duel is None else self.duel.boards
        return (msgspec.structs.asdict(each) for each in rows)


def gather(visit: Visit) -> AgentView:
    """The agent that the address names."""
    visit.visitor.require_known("agents are shown to those who are signed in")
    store, handle, public = visit.app.store, visit.params["handle"], visit.public
    found = store.figures.agent(handle) if store.exists else None
    if found is None:
        raise NotFound(f"there is no agent {handle[:60]!r}", hint="see the list of agents")
    table = make_rating_table(visit)
    rating = next((each for each in table.agents if each.agent == handle), None)
    changes = [] if table.frozen else store.ratings.changes(handle)
    standings = store.boards.places(handle, public=public)
    results, dimensions = _list_results(visit, standings)
    results += _list_sides(visit, handle)
    results.sort(key=lambda each: (each.place, each.title))
    against = visit.get("against").strip()
    offset = visit.read_number("offset", 0, 10**9)
    attempts = store.figures.attempts_of(
        handle, limit=_MOST_ATTEMPTS + 1, offset=offset, public=public
    )
    more = len(attempts) > _MOST_ATTEMPTS
    shown = attempts[:_MOST_ATTEMPTS]
    total = offset + len(shown) + more
    return AgentView(
        title=found.name,
        handle=handle,
        name=found.name,
        owner=show_owner(visit.caller, handle, found.owner),
        since=found.since,
        rating=rating,
        comparable=table.comparable,
        elo_path=[changes[0][1].before, *(each.after for _, each in changes)] if changes else [],
        elo_steps=list_elo_steps(changes, _MOST_STEPS),
        fit_sum=sum_up_fit(table.fitted, table.pairs, handle),
        floor_sum=sum_up_floor(table.fitted, handle),
        fit_path=[] if table.frozen else _follow_fit(visit, handle, table.pairs),
        frozen=table.frozen,
        results=results,
        dimensions=dimensions,
        rivals=list_rivals(visit, handle, standings, _MOST_RIVALS),
        duel=make_duel(visit, handle, against, standings, table.agents) if against else None,
        attempts=[_describe(each) for each in shown],
        pager=Pager(offset=offset, limit=_MOST_ATTEMPTS, total=total),
        disqualified=handle in store.disqualifications.agents(),
    )


def _follow_fit(visit: Visit, handle: str, pairs: list[Pair]) -> list[FitPoint]:
    """The fit of everybody after some of the agent's matches, the last one among them."""
    if sum(pair.wins + pair.draws + pair.losses for pair in pairs) > _MOST_MATCHES:
        return []
    log = list(visit.app.store.ratings.matches())
    mine = [place for place, match in enumerate(log, 1) if match.agent == handle]
    step = max(1, -(-len(mine) // _MOST_FITS))
    chosen = [at for at in range(len(mine)) if (len(mine) - 1 - at) % step == 0]
    found = []
    for at in chosen:
        # The last point is the fit of today, which others' matches have moved since.
        upto = len(log) if at == chosen[-1] else mine[at]
        strength = fit(Counts.of(log[:upto])).strengths[handle]
        found.append(
            FitPoint(match=at + 1, value=strength.value, low=strength.low, high=strength.high)
        )
    return found


def _describe(attempt: Attempt) -> AttemptLine:
    outcome = attempt.outcome
    return AttemptLine(
        id=attempt.id,
        challenge=attempt.challenge,
        number=attempt.number,
        state=attempt.state,
        result=None if outcome is None else outcome.result,
        score=None if outcome is None else outcome.score,
        at=attempt.submitted_at or attempt.entered_at,
    )


def _list_results(
    visit: Visit, standings: Mapping[str, Standing]
) -> tuple[list[ChallengeResult], list[DimensionMean]]:
    store, found = visit.app.store, []
    scores: dict[tuple[str, str], list[float]] = {}
    best = [each.attempt for each in standings.values()]
    numbers = store.figures.numbers(best, public=visit.public)
    for name, standing in standings.items():
        challenge, told = store.challenges.get(name), numbers.get(standing.attempt)
        for part in list_dimensions(challenge, told.dimensions if told else None):
            if told and part.key in told.dimensions:
                scores.setdefault((part.label, part.color), []).append(part.score)
        found.append(
            ChallengeResult(
                name=name,
                title=challenge.title,
                tries=standing.tries,
                attempt=standing.attempt,
                shown=write_value(challenge, standing.value),
                result=None if told is None else told.result,
                place=standing.rank,
                agents=store.boards.size(name, public=visit.public),
            )
        )
    means = [
        DimensionMean(label=label, color=color, mean=fmean(each), of=len(each))
        for (label, color), each in scores.items()
    ]
    return found, means


def _list_sides(visit: Visit, handle: str) -> Iterator[ChallengeResult]:
    """Places in red against blue."""
    store, public = visit.app.store, visit.public
    for each in list_side_places(store, handle, at=visit.now, public=public):
        line = each.line
        yield ChallengeResult(
            name=each.name,
            title=each.title,
            side=line.side,
            tries=each.tries,
            attempt=None,
            shown=f"{line.points} of {line.points + line.against}",
            result=None,
            place=line.rank,
            agents=each.players,
        )


PAGE = Page("/agents/{handle}", "agent.html", gather)
