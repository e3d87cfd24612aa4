"""One challenge: who leads, what is asked, and how answers are judged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.constraints import list_bounds
from tallymark.challenges.strategies import STRATEGIES
from tallymark.charts.frame import Chart
from tallymark.charts.histogram import draw_histogram
from tallymark.charts.lines import Line, LinePoint, draw_lines
from tallymark.ratings.match_results import tier_rating
from tallymark.text import format_count, format_tick
from tallymark.web.board_rows import BoardRow, DimensionShare, list_board, list_dimensions
from tallymark.web.page import Page, Pager, View, Visit
from tallymark.web.pages.challenges import ChallengeState, find_state
from tallymark.web.rendering import format_duration
from tallymark.web.versus_board import VersusBoard, make_versus_board

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge, Versus
    from tallymark.store.contests.challenges import StoredChallenge

_PLACES = 50
_AROUND = 3
_WALL = 10
_PODIUM = 3
_A_DAY = 86_400


class PodiumPlace(msgspec.Struct, frozen=True, kw_only=True):
    """One of the first three, and what puts it ahead of the next."""

    row: BoardRow
    why: str


class Rule(msgspec.Struct, frozen=True):
    """Something that competitors must know."""

    name: str
    says: str


class ChallengeView(View, frozen=True, kw_only=True):
    """A challenge with a page of its board."""

    name: str
    goal: str
    difficulty: str
    kind: str
    state: ChallengeState
    closes_at: float | None
    frozen_at: float | None
    """Since when the public sees a board that stands still."""
    live: bool
    """Whether this is what the public does not see."""
    heading: str
    agents: int
    podium: list[PodiumPlace]
    rows: list[BoardRow]
    pager: Pager
    around: list[BoardRow]
    me: str | None
    cuts: bool
    """Whether results are won, drawn and lost by the score, so that the board can say where."""
    dimensions: list[DimensionShare]
    rules: list[Rule]
    schema: str
    files: list[str]
    versus: VersusBoard | None
    values: list[float] | None
    """Of every agent on the board; only where they are asked for."""
    days: dict[int, int]

    @property
    def distribution(self) -> Chart:
        """How the values of all agents lie."""
        return draw_histogram(
            "Best of every agent",
            [("Agents", self.values or [])],
            self.heading.capitalize(),
            format_tick,
        )

    @property
    def attempts_chart(self) -> Chart:
        """Attempts a day; a day without any is a 0."""
        if not self.days:
            return draw_lines("Attempts a day", [])
        first, last = min(self.days), max(self.days)
        points = [LinePoint(day, self.days.get(day, 0)) for day in range(first, last + 1)]
        return draw_lines("Attempts a day", [Line("Attempts", points)], _write_day, zero=True)

    @property
    def attempts(self) -> int:
        return sum(self.days.values())

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each place."""
        if self.versus is not None:
            yield from self.versus.list_rows()
        for row in self.rows:
            flat = msgspec.structs.asdict(row)
            del flat["parts"], flat["share"], flat["me"]
            yield flat | {each.key: each.score for each in row.parts}


def _write_day(day: float) -> str:
    return f"{datetime.fromtimestamp(day * _A_DAY, UTC):%d %b}".lstrip("0")


def gather(visit: Visit) -> ChallengeView:
    """The challenge that the address names."""
    store, name = visit.app.store, visit.params["challenge"]
    kept = visit.find_challenge(name)
    challenge, public = kept.challenge, visit.public
    solo = challenge.kind != "versus"
    size = store.boards.size(name, public=public) if solo else 0
    pager = visit.read_pager(size, _WALL if visit.get("tv") else _PLACES)
    standings = store.boards.top(name, limit=pager.limit, offset=pager.offset, public=public)
    rows = list_board(visit, challenge, standings) if solo else []
    top = rows
    if pager.offset and solo:
        first = store.boards.top(name, limit=_PODIUM + 1, public=public)
        top = list_board(visit, challenge, first)
    me = visit.get("around") or visit.visitor.agent
    here = any(row.agent == me for row in rows)
    around = []
    if me and solo and not here:
        around = store.boards.around(name, me, each=_AROUND, public=public)
    charts = visit.get("part") == "charts"
    frozen = kept.is_frozen(visit.now)
    return ChallengeView(
        title=challenge.title,
        name=name,
        goal=challenge.goal,
        difficulty=challenge.difficulty,
        kind=challenge.kind,
        state=find_state(kept, visit.now),
        closes_at=kept.closed_at or challenge.closes_at,
        frozen_at=kept.freezes_at if frozen else None,
        live=frozen and not public,
        heading=STRATEGIES[challenge.scoring.strategy].heading.lower(),
        agents=size,
        podium=_make_podium(top),
        rows=rows,
        pager=pager,
        around=list_board(visit, challenge, around),
        me=None if here else me,
        cuts=bool(challenge.scoring.dimensions),
        dimensions=list_dimensions(challenge),
        rules=list(_list_rules(kept)),
        schema=""
        if challenge.submission.schema is None
        else json.dumps(challenge.submission.schema, indent=2),
        files=list(challenge.public),
        versus=None if solo else make_versus_board(visit, kept),
        values=store.figures.values(name, public=public) if charts and solo else None,
        days=store.figures.days(name, public=public) if charts and solo else {},
    )


def _make_podium(rows: Sequence[BoardRow]) -> list[PodiumPlace]:
    found = []
    for place, row in enumerate(rows[:_PODIUM]):
        behind = rows[place + 1] if place + 1 < len(rows) else None
        found.append(PodiumPlace(row=row, why=_explain_lead(row, behind)))
    return found if len(found) == _PODIUM else []


def _explain_lead(row: BoardRow, behind: BoardRow | None) -> str:
    """By what a row is ahead of the next: the reason stands beside the number."""
    if behind is None or row.value is None or behind.value is None:
        return ""
    if row.value == behind.value:
        return f"level with {behind.name}, and earlier"
    gap = format_tick(round(abs(row.value - behind.value), 2))
    leads = sorted(
        (
            (mine.weighted - theirs.weighted, mine.label.lower())
            for mine, theirs in zip(row.parts, behind.parts, strict=False)
        ),
        reverse=True,
    )
    by = [label for lead, label in leads[:2] if lead > 0]
    return f"{gap} ahead{', by ' + ' and '.join(by) if by else ''}"


def _list_rules(kept: StoredChallenge) -> Iterable[Rule]:
    challenge = kept.challenge
    if challenge.versus is not None:
        yield from _list_versus_rules(challenge, challenge.versus)
        return
    yield Rule("Time limit", f"{format_duration(challenge.time_limit_s)} for an attempt")
    yield Rule("Attempts", _describe_quota(challenge))
    sent = challenge.submission
    yield Rule("Answer", f"{sent.format}, at most {format_count(sent.max_bytes, 'byte')}")
    if challenge.generate:
        yield Rule("Data", "made anew for every attempt, from a seed")
    strategy = STRATEGIES[challenge.scoring.strategy]
    way = "highest first" if strategy.highest_first else "lowest first"
    yield Rule("Order", f"by {strategy.heading.lower()}, {way}; a tie goes to the earlier attempt")
    if challenge.scoring.formula:
        yield Rule("Formula", challenge.scoring.formula)
    if challenge.scoring.plugin:
        yield Rule("Scored by", challenge.scoring.plugin)
    yield Rule("Judged by", challenge.evaluator.type)
    yield Rule("Rating", f"tier {challenge.difficulty}, {tier_rating(challenge.difficulty)}")
    bounds = list_bounds(challenge.constraints)
    if bounds:
        effect = {"note": "is noted", "zero": "scores 0", "fail": "has no score"}
        more = effect[challenge.constraints.on_violation]
        yield Rule("Limits", f"{', '.join(bounds)}; an attempt beyond {more}")
    if challenge.trajectory != "none":
        yield Rule("Trajectory", f"at least {challenge.trajectory}, or it does not rank")
    yield Rule("Who sees it", "anybody who sees this page; answers stay private")
    yield Rule("Version", challenge.version[:12])


def _list_versus_rules(challenge: Challenge, versus: Versus) -> Iterable[Rule]:
    yield Rule("Sides", "red attacks, blue defends; a new submission meets all that stand")
    yield Rule("Categories", ", ".join(versus.categories))
    yield Rule("Judged by", versus.judge.type)
    yield Rule("Order", "by the least strength that verdicts bear out")
    yield Rule("Submissions", _describe_quota(challenge))
    sent = challenge.submission
    yield Rule("Form", f"{sent.format}, at most {format_count(sent.max_bytes, 'byte')}")
    yield Rule("Who sees it", "anybody who sees this page; submissions stay private")
    yield Rule("Version", challenge.version[:12])


def _describe_quota(challenge: Challenge) -> str:
    most = "as many as you like" if challenge.attempts is None else f"{challenge.attempts:,}"
    daily = challenge.attempts_per_day
    return most if daily is None else f"{most}, at most {daily:,} a day"


PAGE = Page(
    "/challenges/{challenge}", "challenge.html", gather, {"charts": "challenge_charts.html"}
)
