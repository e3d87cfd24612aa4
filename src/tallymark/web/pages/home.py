"""Home: what changed since I looked? In an empty store: what is this, what do I type?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.strategies import STRATEGIES
from tallymark.text import format_digits, format_score
from tallymark.web.board_rows import BoardRow, list_board
from tallymark.web.page import Page, View, Visit
from tallymark.web.pages.runs import SuiteLine, list_suites
from tallymark.web.run_facts import describe_run

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt

_NEWS = 12
_SUITES = 8
_BOARDS = 4
_PLACES = 5


class News(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened."""

    at: float
    who: str
    what: str
    link: str
    number: str = ""
    tone: str = ""


class BoardGlimpse(msgspec.Struct, frozen=True, kw_only=True):
    """The first places of a challenge."""

    name: str
    title: str
    agents: int
    closes_at: float | None
    frozen: bool
    rows: list[BoardRow]


class HomeView(View, frozen=True, kw_only=True):
    """What is new, suites and boards; or how to begin."""

    empty: bool
    alerts: list[SuiteLine]
    """Suites whose newest run scored lower than the one before."""
    news: list[News]
    suites: list[SuiteLine]
    boards: list[BoardGlimpse]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each piece of news."""
        return (msgspec.structs.asdict(each) for each in self.news)


def gather(visit: Visit) -> HomeView:
    """What the visitor may see of what is new."""
    store = visit.app.store
    if not store.exists:
        return HomeView(title="Welcome", empty=True, alerts=[], news=[], suites=[], boards=[])
    may = visit.visitor.may_read_runs
    suites = list_suites(store, _SUITES) if may else []
    boards = _list_boards(visit)
    news = sorted(
        [*(_list_runs(visit) if may else ()), *_list_attempts(visit)], key=lambda each: -each.at
    )[:_NEWS]
    return HomeView(
        title="What is new" if news else "Welcome",
        empty=not (news or suites or boards),
        alerts=[each for each in suites if each.change is not None and each.change < 0][:3],
        news=news,
        suites=suites,
        boards=boards,
    )


def _list_runs(visit: Visit) -> Iterable[News]:
    for record in visit.app.store.runs(limit=_NEWS):
        run = describe_run(record)
        going = run.status == "running"
        did = "is running" if going else "ran"
        told = f"{run.finished:,} of {run.total:,}" if going else ""
        if not going and run.score is not None:
            told = format_score(run.score)
        yield News(
            at=run.created_at,
            who=run.model,
            what=f"{did} {run.suite}",
            link=f"/runs/{run.id}",
            number=told or run.status.replace("_", " "),
            tone="live" if going else "" if told else "warn",
        )


def _list_attempts(visit: Visit) -> Iterable[News]:
    store = visit.app.store
    titles = {each.challenge.name: each.challenge for each in visit.list_challenges()}
    for attempt in store.figures.newest_attempts(limit=_NEWS, public=visit.public):
        if attempt.challenge not in titles or not _may_see(visit, attempt):
            continue
        challenge, outcome = titles[attempt.challenge], attempt.outcome
        did = {"entered": "entered", "withdrawn": "gave up on", "expired": "ran out of time on"}
        score = None if outcome is None else outcome.score
        strategy = STRATEGIES[challenge.scoring.strategy]
        number: str = "no score" if attempt.state == "failed" else attempt.state
        if score is not None:
            number = strategy.write(score) if strategy.metric is None else format_digits(score)
        yield News(
            at=attempt.submitted_at or attempt.entered_at,
            who=attempt.agent,
            what=f"{did.get(attempt.state, 'tried')} {challenge.title}",
            link=f"/attempts/{attempt.id}",
            number=number,
            tone="" if score is not None else "quiet",
        )


def _may_see(visit: Visit, attempt: Attempt) -> bool:
    """That somebody is at it now is nobody else's business."""
    ours = visit.visitor.may_read_runs or attempt.agent == visit.visitor.agent
    return ours or attempt.state != "entered"


def _list_boards(visit: Visit) -> list[BoardGlimpse]:
    store, found = visit.app.store, []
    for kept in visit.list_challenges():
        challenge = kept.challenge
        if challenge.kind == "versus":
            continue
        size = store.boards.size(challenge.name, public=visit.public)
        if size:
            found.append((size, kept))
    found.sort(key=lambda pair: -pair[0])
    return [
        BoardGlimpse(
            name=kept.challenge.name,
            title=kept.challenge.title,
            agents=size,
            closes_at=kept.closed_at or kept.challenge.closes_at,
            frozen=visit.public and kept.is_frozen(visit.now),
            rows=list_board(
                visit,
                kept.challenge,
                store.boards.top(kept.challenge.name, limit=_PLACES, public=visit.public),
            ),
        )
        for size, kept in found[:_BOARDS]
    ]


PAGE = Page("/", "home.html", gather)
