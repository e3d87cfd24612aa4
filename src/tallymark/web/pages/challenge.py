"""One challenge: who leads, what is asked, and how answers are judged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.strategies import STRATEGIES
from tallymark.challenges.versus.pairings import SideSubmission
from tallymark.charts.frame import Chart
from tallymark.charts.histogram import draw_histogram
from tallymark.charts.lines import Line, LinePoint, draw_lines
from tallymark.errors import InvalidInput
from tallymark.service.challenges import Challenge
from tallymark.service.side_submissions import list_side_submissions
from tallymark.text import format_tick
from tallymark.web.board_rows import BoardRow, DimensionShare, list_board, list_dimensions
from tallymark.web.challenge_terms import Term, is_reported, list_rules, write_command
from tallymark.web.likely_places import LikelyPlace, find_ends, find_likely_places, find_scale
from tallymark.web.page import Page, Shared
from tallymark.web.versus_board import VersusBoard, make_versus_board
from tallymark.web.view import Pager, View
from tallymark.web.visit import Visit
from tallymark.web.what_if_board import (
    RuleForm,
    WhatIf,
    make_form,
    send_on_plain_form,
    try_rule,
)

if TYPE_CHECKING:
    from tallymark.challenges.strategies import Standing
    from tallymark.store.contests.challenges import StoredChallenge

_PLACES = 50
_AROUND = 3
_WALL = 10
_PODIUM = 3
_A_DAY = 86_400
_SORTABLE = 1_000
"""Agents of a board that is read as a whole, to be ordered by something else than the place."""
_REPEATED = 200
"""Agents of a board of which all attempts are looked at, so many at most:"""
_MOST_TRIES = 5_000
_MOST_SUBMISSIONS = 50
_MATCHING = 200
"""Agents of a larger board whose names are looked through."""
SORTS = ("place", "agent", "submitted")


class PodiumPlace(msgspec.Struct, frozen=True, kw_only=True):
    """One of the first three, and what puts it ahead of the next."""

    row: BoardRow
    why: str


class ChallengeView(View, frozen=True, kw_only=True):
    """A challenge with a page of its board."""

    challenge: Challenge
    reported: bool
    """Whether attempts come by reports alone, so that none is entered."""
    command: str
    """By which an attempt is made."""
    changes_at: float | None
    """When the state changes next, if nobody changes it before."""
    seq: int
    """The last change that this shows; 0 on a frozen board, where it would tell of later ones."""
    live: bool
    """Whether this is what the public does not see."""
    heading: str
    agents: int
    podium: list[PodiumPlace]
    rows: list[BoardRow]
    pager: Pager
    text: str
    sort: str
    descending: bool
    sortable: bool
    around: list[BoardRow]
    me: str | None
    cuts: bool
    """Whether results are won, drawn and lost by the score, so that the board can say where."""
    dimensions: list[DimensionShare]
    rules: list[Term]
    schema: str
    versus: VersusBoard | None
    submissions: list[SideSubmission]
    """To its sides: the newest of one's own, or for organisers of all."""
    form: RuleForm | None
    """What can be tried on this board."""
    what_if: WhatIf | None
    values: list[float] | None
    """Of every agent on the board; only where they are asked for."""
    days: dict[int, int]

    @property
    def likely_ends(self) -> tuple[float, float] | None:
        """Of all intervals that rows show; None where none does."""
        found = [each.likely for each in (*self.rows, *self.around) if each.likely is not None]
        return find_ends(found) if found else None

    @property
    def distribution(self) -> Chart:
        """How the values of all agents lie."""
        return draw_histogram(
            "Best of every agent",
            [("Agents", self.values or [])],
            self.heading.capitalize(),
            lambda value: format_tick(round(value, 2)),
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
        """A row for each place; by another rule, where the page shows that."""
        if self.versus is not None:
            yield from self.versus.list_rows()
        if self.what_if is not None and self.what_if.rows:
            yield from self.what_if.list_rows()
            return
        for row in self.rows:
            flat = msgspec.structs.asdict(row)
            del flat["parts"], flat["share"], flat["me"], flat["likely"], flat["how"]
            yield flat | {each.key: each.score for each in row.parts}


def _write_day(day: float) -> str:
    return f"{datetime.fromtimestamp(day * _A_DAY, UTC):%d %b}".lstrip("0")


def gather(visit: Visit) -> ChallengeView:
    """The challenge that the address names."""
    send_on_plain_form(visit)
    store, name = visit.app.store, visit.params["challenge"]
    me = visit.get("around") or visit.visitor.agent
    what_if = try_rule(visit, name, me)  # outside the snapshot: it may take long
    with _read(visit):
        kept, seq, _ = visit.find_newest_challenge(name)
        record = visit.tally.challenges.get(name)
        solo = kept.challenge.kind != "versus"
        board = _Board(visit, kept) if solo else None
        # As somebody types, nothing is read that is not shown.
        hidden = what_if is not None and what_if.rows and visit.get("part")
        rows = board.read_rows() if board and not hidden else []
        here = any(row.agent == me for row in rows)
        podium = _make_podium(board.read_first(rows)) if board else []
        around = board.read_around(me) if board and me and not here else []
    challenge, public = kept.challenge, visit.public
    charts = visit.get("part") == "charts"
    frozen = record.frozen is not None
    return ChallengeView(
        title=challenge.title,
        challenge=record,
        reported=is_reported(challenge),
        command=write_command(challenge),
        changes_at=_find_next_change(record, visit.now),
        seq=0 if frozen and public else seq,
        live=frozen and not public,
        heading=STRATEGIES[challenge.scoring.strategy].heading.lower(),
        agents=board.size if board else 0,
        podium=podium,
        rows=rows,
        pager=board.pager if board else visit.read_pager(0),
        text=board.text if board else "",
        sort=board.sort if board else SORTS[0],
        descending=board.descending if board else False,
        sortable=board is not None and board.size <= _SORTABLE,
        around=around,
        me=None if here else me,
        cuts=bool(challenge.scoring.dimensions) and (board is None or board.in_order),
        dimensions=list_dimensions(challenge),
        rules=list(list_rules(record)),
        schema=""
        if challenge.submission.schema is None
        else json.dumps(challenge.submission.schema, indent=2),
        versus=None if solo else make_versus_board(visit, kept),
        submissions=[] if solo else _list_submissions(visit, name),
        form=make_form(visit, challenge) if solo else None,
        what_if=what_if,
        values=store.figures.values(name, public=public) if charts and solo else None,
        days=store.figures.days(name, public=public) if charts and solo else {},
    )


def _read(visit: Visit) -> AbstractContextManager[object]:
    """Open a read snapshot, if anything is stored."""
    return visit.app.store.read() if visit.app.store.exists else nullcontext()


def _list_submissions(visit: Visit, name: str) -> list[SideSubmission]:
    """One's own, or for organisers all; none where a part is made for many."""
    if visit.get("part"):
        return []
    return list_side_submissions(visit.services, visit.caller, name, limit=_MOST_SUBMISSIONS)


def share(visit: Visit) -> Shared | None:
    """Parts of the page are the same for all who may see as much, but for who is marked in them."""
    if visit.get("part") not in PAGE.parts:
        return None
    kept, *newest = visit.find_newest_challenge(visit.params["challenge"])
    record = visit.tally.challenges.get(kept.challenge.name)
    made_of = (newest, kept.revision, kept.frozen_at, record.frozen, record.state)
    return Shared(visit=visit.forget_who(), made_of=made_of)


def _find_next_change(challenge: Challenge, now: float) -> float | None:
    moments = (challenge.opens_at, challenge.closes_at, challenge.freezes_at)
    return min((each for each in moments if each is not None and each > now), default=None)


class _Board:
    """The part of a board that the address asks for."""

    def __init__(self, visit: Visit, kept: StoredChallenge) -> None:
        self._visit = visit
        self._kept = kept
        self._name = kept.challenge.name
        self._store = visit.app.store
        self.size = self._store.boards.size(self._name, public=visit.public)
        self.text = visit.get("q").strip()
        self.sort = visit.choose("sort", SORTS)
        self.descending = visit.choose("order", ("desc", "asc")) == "desc"
        self.pager = visit.read_pager(self.size, _WALL if visit.get("tv") else _PLACES)
        if self.sort != "place" and self.size > _SORTABLE:
            raise InvalidInput(
                f"a board of {self.size:,} agents is ordered by place alone",
                hint="filter it by name with q=, or take it as CSV",
            )

    @property
    def in_order(self) -> bool:
        """Whether places follow each other."""
        return not self.text and self.sort == "place"

    def read_rows(self) -> list[BoardRow]:
        """The rows of this page, in the order that the address asks for."""
        if self.in_order:
            # One more at either end tells ties with those who stand on the next page.
            first, end = max(0, self.pager.offset - 1), self.pager.offset + self.pager.limit
            found = (
                self._first[first : end + 1]
                if end < self._reach
                else self._read_top(end + 1 - first, first)
            )
            return self._list(found)[self.pager.offset - first : end - first]
        chosen = self._find_chosen()
        self.pager = msgspec.structs.replace(self.pager, total=len(chosen))
        end = self.pager.offset + self.pager.limit
        return self._list(chosen[self.pager.offset : end])

    def read_first(self, rows: Sequence[BoardRow]) -> Sequence[BoardRow]:
        """Those on the podium, and the one behind them."""
        enough = min(_PODIUM + 1, self.size)
        if self.in_order and not self.pager.offset and len(rows) >= enough:
            return rows
        return list_board(self._visit, self._kept.challenge, self._first[:enough])

    def read_around(self, agent: str) -> list[BoardRow]:
        """An agent with its neighbours."""
        public = self._visit.public
        found = self._store.boards.around(self._name, agent, each=_AROUND, public=public)
        return self._list(found)

    def _read_top(self, limit: int, offset: int = 0) -> list[Standing]:
        public = self._visit.public
        return self._store.boards.top(self._name, limit=limit, offset=offset, public=public)

    def _list(self, standings: Sequence[Standing]) -> list[BoardRow]:
        return list_board(self._visit, self._kept.challenge, standings, self._likely)

    @cached_property
    def _repeated(self) -> bool:
        """True if intervals from repeated attempts can be shown: a small live board by score."""
        visit, strategy = self._visit, self._kept.challenge.scoring.strategy
        hidden = visit.public and self._kept.is_frozen(visit.now)
        return strategy == "custom" and not hidden and self.size <= _REPEATED

    @property
    def _reach(self) -> int:
        """Number of top rows to read at once for podium, page and intervals."""
        page = 0 if self.pager.offset else self.pager.limit
        return max(_PODIUM, page, _REPEATED if self._repeated else 0) + 1

    @cached_property
    def _first(self) -> list[Standing]:
        return self._read_top(self._reach)

    @cached_property
    def _likely(self) -> dict[str, LikelyPlace]:
        """Where all attempts are by the scores that the board is ordered by, and not too many."""
        if not self._repeated or sum(each.tries for each in self._first) > _MOST_TRIES:
            return {}
        scale = find_scale(self._kept.challenge)
        return find_likely_places(self._store.figures.tries(self._name), scale)

    def _find_chosen(self) -> list[Standing]:
        if self.size > _SORTABLE:
            return self._find_matching()
        found = self._read_top(_SORTABLE) if self.size else []
        names = self._store.agents.names(each.agent for each in found)
        text = self.text.casefold()
        found = [
            each
            for each in found
            if text in each.agent.casefold() or text in names.get(each.agent, "").casefold()
        ]
        if self.sort == "agent":
            found.sort(key=lambda each: names.get(each.agent, each.agent).casefold())
        elif self.sort == "submitted":
            found.sort(key=lambda each: -each.submitted_at)
        return found if self.descending else found[::-1]

    def _find_matching(self) -> list[Standing]:
        """Of a large board, the first agents whose names have the text."""
        public, boards = self._visit.public, self._store.boards
        agents = self._store.figures.agents(text=self.text, limit=_MATCHING)
        found = (boards.standing(self._name, each.handle, public=public) for each in agents)
        return sorted((each for each in found if each is not None), key=lambda each: each.rank)


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


PAGE = Page(
    "/challenges/{challenge}",
    "challenge.html",
    gather,
    {
        "board": "challenge_board.html",
        "around": "challenge_around.html",
        "charts": "challenge_charts.html",
    },
    share=share,
)
