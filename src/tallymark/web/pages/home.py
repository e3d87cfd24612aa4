"""Home page: news, suites and boards; in an empty store, the first commands.

Competitors see their open attempts first, organisers what needs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.strategies import STRATEGIES
from tallymark.challenges.tracks import Track
from tallymark.errors import NotFound
from tallymark.runs.problems import name_model
from tallymark.service.callers import REPORTERS
from tallymark.service.runs import SuiteHistory
from tallymark.text import format_count, format_digits, format_score
from tallymark.web.board_rows import BoardRow, list_board, write_value
from tallymark.web.page import Page, View
from tallymark.web.page_request import PageRequest
from tallymark.web.pages.tracks import list_titles
from tallymark.web.run_facts import find_unrun, judge_suite

if TYPE_CHECKING:
    from tallymark.service.attempts import AttemptRecord
    from tallymark.service.boards import ChallengeTop
    from tallymark.service.challenges import Challenge

_NEWS = 12
_SUITES = 8
_BOARDS = 4
_TRACKS = 4
_PLACES = 5
_MINE = 5
_REVIEWS = 200
"""Number of newest cases among which disputed ones are counted."""


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


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A suite whose newest run is lower than the one before it."""

    suite: str
    model: str
    run: str
    fell: float
    score: float
    may_be_chance: bool
    """The previous score lies within the current interval."""


class OpenAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An open attempt of the visitor."""

    id: str
    title: str
    expires_at: float


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Something that needs attention."""

    words: str
    link: str


class HomeView(View, frozen=True, kw_only=True):
    """News, suites and boards, or how to begin."""

    empty: bool
    """True if the store is empty."""
    alerts: list[Alert]
    open: list[OpenAttempt]
    mine: list[News]
    waiting: list[Waiting]
    news: list[News]
    suites: list[SuiteHistory]
    tracks: list[Track]
    titles: dict[str, str]
    """Titles of challenges by name, for the tracks."""
    boards: list[BoardGlimpse]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each piece of news."""
        return (msgspec.structs.asdict(each) for each in self.news)


def gather(request: PageRequest) -> HomeView:
    """Gather the news that the visitor may see."""
    visitor = request.visitor
    there = request.services.exists
    may = there and visitor.may_read_runs
    suites = request.tally.runs.suites(limit=_SUITES).items if may else []
    boards = request.tally.boards.find_active(_BOARDS, _PLACES, live=not request.public)
    runs = list(_list_runs(request)) if may else []
    attempts = list(_list_attempts(request)) if there else []
    tracks = request.tally.tracks.list(limit=_TRACKS).items
    news = sorted([*runs, *attempts], key=lambda each: -each.at)[:_NEWS]
    return HomeView(
        title="What is new" if news else "Welcome",
        empty=not (news or suites or boards or request.tally.challenges.list(limit=1).items),
        alerts=[_describe_fall(each) for each in suites if judge_suite(each) == "bad"][:3],
        open=_list_open(request) if there and visitor.agent else [],
        mine=_list_mine(request) if there and visitor.agent else [],
        waiting=[*_list_waiting(request), *_list_reviews(request)] if there else [],
        news=news,
        suites=suites,
        tracks=tracks,
        titles=list_titles(request, tracks),
        boards=[_glimpse(each) for each in boards],
    )


def _describe_fall(line: SuiteHistory) -> Alert:
    run, fell = line.newest, -(line.change or 0)
    score = run.score or 0.0
    return Alert(
        suite=line.suite,
        model=name_model(run),
        run=run.id,
        fell=fell,
        score=score,
        may_be_chance=run.score_high is None or score + fell <= run.score_high,
    )


def _list_runs(request: PageRequest) -> Iterable[News]:
    for run in request.tally.runs.list(limit=_NEWS).items:
        unrun = find_unrun(run)
        going = run.status == "running"
        did = "is running" if going else "ran"
        told = f"{run.finished:,} of {run.total:,}" if going else ""
        if not going and run.score is not None:
            told = format_score(run.score)
            if unrun:
                told += f" over {run.ran:,} of {run.total:,}"
        yield News(
            at=run.created_at,
            who=name_model(run),
            what=f"{did} {run.suite}",
            link=f"/runs/{run.id}",
            number=told or run.status.replace("_", " "),
            tone="live" if going else "" if told and not unrun else "warn",
        )


def _list_attempts(request: PageRequest) -> Iterable[News]:
    """List the newest attempts; those that set their agent's current place say so."""
    boards = request.tally.boards
    attempts = request.tally.attempts.list_newest(boards.name_active(), _NEWS, not request.public)
    known = _find_challenges(request, attempts)
    ranks = boards.find_ranks(attempts, live=not request.public)
    for attempt in attempts:
        rank = ranks.get(attempt.id)
        did = None if rank is None else f"reached place {rank:,} on"
        yield _describe_attempt(attempt, known[attempt.challenge], did)


def _find_challenges(
    request: PageRequest, attempts: Iterable[AttemptRecord]
) -> dict[str, Challenge]:
    """Find the visible challenges of attempts, by name."""
    found = {}
    for name in {each.challenge for each in attempts}:
        with suppress(NotFound):
            found[name] = request.tally.challenges.get(name)
    return found


def _describe_attempt(attempt: AttemptRecord, challenge: Challenge, did: str | None = None) -> News:
    words = {"entered": "entered", "withdrawn": "withdrew from", "expired": "ran out of time on"}
    score = attempt.score
    strategy = STRATEGIES[challenge.scoring.strategy]
    number: str = "no score" if attempt.state == "failed" else attempt.state
    if score is not None:
        number = write_value(challenge, score) if strategy.metric is None else format_digits(score)
    return News(
        at=attempt.submitted_at or attempt.entered_at,
        who=attempt.agent,
        what=f"{did or words.get(attempt.state, 'tried')} {challenge.title}",
        link=f"/attempts/{attempt.id}",
        number=number,
        tone="" if score is not None else "quiet",
    )


def _list_open(request: PageRequest) -> list[OpenAttempt]:
    found = request.tally.attempts.list_open(request.visitor.agent or "")
    known = _find_challenges(request, found)
    return [
        OpenAttempt(id=each.id, title=known[each.challenge].title, expires_at=each.expires_at)
        for each in found
        if each.challenge in known and each.expires_at > request.now
    ]


def _list_mine(request: PageRequest) -> list[News]:
    agent = request.visitor.agent or ""
    found = request.tally.attempts.list_own(agent, _MINE)
    known = _find_challenges(request, found)
    return [
        _describe_attempt(each, known[each.challenge])
        for each in found
        if each.challenge in known and each.state != "entered"
    ]


def _list_waiting(request: PageRequest) -> Iterable[Waiting]:
    """List what needs an organiser."""
    if not request.visitor.may_organise:
        return
    challenges = request.tally.challenges
    if count := sum(each.count for each in challenges.waiting(limit=1).counts):
        yield Waiting(words=f"{format_count(count, 'attempt')} not scored yet", link="/organiser")
    if paused := len(list(challenges.pauses())):
        words = f"{format_count(paused, 'agent')} paused: their input makes a plugin fail"
        yield Waiting(words=words, link="/organiser")


def _list_reviews(request: PageRequest) -> Iterable[Waiting]:
    """List disputed cases, for reviewers."""
    if request.caller.role not in REPORTERS:
        return
    if disputed := request.tally.scores.queue("disputed", newest=_REVIEWS).counts.disputed:
        words = f"{format_count(disputed, 'case')} with disputed verdicts"
        yield Waiting(words=words, link="/review?show=disputed")


def _glimpse(found: ChallengeTop) -> BoardGlimpse:
    challenge = found.challenge
    return BoardGlimpse(
        name=challenge.name,
        title=challenge.title,
        agents=found.agents,
        closes_at=challenge.closed or challenge.closes_at,
        frozen=found.frozen,
        rows=list_board(challenge, found.items, found.names),
    )


PAGE = Page("/", "home.html", gather, parts={"news": "home_news.html"})
