"""Page of a challenge: its board, its terms, and what-if rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import msgspec

from tallymark.challenges.strategies import STRATEGIES, LikelyPlace, Standing
from tallymark.challenges.versus.pairings import SideSubmission
from tallymark.charts.frame import Chart
from tallymark.charts.histogram import draw_histogram
from tallymark.charts.lines import Line, LinePoint, draw_lines
from tallymark.errors import InvalidInput
from tallymark.service.boards import Board, BoardHistory
from tallymark.service.callers import COMPETITORS
from tallymark.service.challenges import Challenge
from tallymark.service.cursors import write_cursor
from tallymark.service.visibility import view_challenge
from tallymark.text import format_tick
from tallymark.web.board_rows import (
    BoardRow,
    DimensionShare,
    list_board,
    list_dimensions,
    list_flat,
)
from tallymark.web.challenge_terms import Term, is_reported, list_rules, write_command
from tallymark.web.page import Page, Pager, Shared, View
from tallymark.web.page_request import PageRequest
from tallymark.web.versus_board import VersusBoard, make_versus_board
from tallymark.web.what_if_board import (
    RuleForm,
    WhatIf,
    make_form,
    send_on_plain_form,
    try_rule,
)

_PLACES = 50
_WALL = 10
_PODIUM = 3
_A_DAY = 86_400
_SORTABLE = 1_000
"""Largest board that can be sorted by something other than the place."""
_MOST_SUBMISSIONS = 50
SORTS = ("place", "agent", "submitted")


class PodiumPlace(msgspec.Struct, frozen=True, kw_only=True):
    """One of the first three, and why it is ahead of the next."""

    row: BoardRow
    why: str


class ChallengeView(View, frozen=True, kw_only=True, dict=True):
    """A challenge with a page of its board."""

    challenge: Challenge
    reported: bool
    """True if attempts are only reported, never entered."""
    command: str
    """Command that makes an attempt."""
    changes_at: float | None
    """Time of the next scheduled change of state."""
    seq: int
    """Sequence number of the last change shown; 0 on a frozen board, to reveal nothing."""
    live: bool
    """True if this shows what the public does not see."""
    heading: str
    board: Board | None
    """None for a challenge of red against blue."""
    beside: list[Standing]
    """The neighbours of the page."""
    pager: Pager
    text: str
    sort: str
    descending: bool
    around: Board | None
    """Places around `me`, if on another page."""
    me: str | None
    marked: list[str]
    """Agents with marked rows."""
    dimensions: list[DimensionShare]
    rules: list[Term]
    schema: str
    versus: VersusBoard | None
    submissions: list[SideSubmission]
    """Newest submissions to its sides: the visitor's own, or all for organisers."""
    form: RuleForm | None
    """Rules to try on this board."""
    what_if: WhatIf | None
    history: BoardHistory | None
    """Loaded only for charts."""

    @property
    def agents(self) -> int:
        return self.board.agents if self.board else 0

    @property
    def sortable(self) -> bool:
        return self.board is not None and self.board.agents <= _SORTABLE

    @property
    def in_order(self) -> bool:
        """True if rows are in order of place."""
        return not self.text and self.sort == "place"

    @property
    def cuts(self) -> bool:
        """True if the board can show where wins and draws end."""
        return bool(self.challenge.scoring.dimensions) and self.in_order

    @cached_property
    def rows(self) -> list[BoardRow]:
        """Rows of this page."""
        return [] if self.board is None else self._make_rows(self.board, self.beside)

    @cached_property
    def around_rows(self) -> list[BoardRow]:
        """Rows around `me`."""
        return [] if self.around is None else self._make_rows(self.around)

    @cached_property
    def what_if_rows(self) -> list[BoardRow]:
        """First rows under the tried rule."""
        return self._suppose(self.what_if.items) if self.what_if else []

    @cached_property
    def what_if_around(self) -> list[BoardRow]:
        """Rows around `me` under the tried rule, if not among the first."""
        return self._suppose(self.what_if.around) if self.what_if else []

    def _suppose(self, standings: Sequence[Standing]) -> list[BoardRow]:
        assert self.what_if is not None  # noqa: S101 (for the type checker)
        return self.what_if.make_rows(self.challenge, standings, self.marked)

    def _make_rows(self, board: Board, beside: Sequence[Standing] = ()) -> list[BoardRow]:
        return list_board(self.challenge, board.items, board.names, self.marked, beside)

    @property
    def podium(self) -> list[PodiumPlace]:
        """The first three, on the first page."""
        if not self.in_order or self.pager.offset or len(self.rows) < _PODIUM:
            return []
        first = self.rows[: _PODIUM + 1]
        behind = [*first[1:], None]
        return [
            PodiumPlace(row=row, why=_explain_lead(row, after))
            for row, after in zip(first[:_PODIUM], behind, strict=False)
        ]

    @property
    def likely_ends(self) -> tuple[float, float] | None:
        """Lowest and highest end of all intervals shown; None without intervals."""
        rows = (*self.rows, *self.around_rows)
        found: list[LikelyPlace] = [each.likely for each in rows if each.likely is not None]
        if not found:
            return None
        return min(each.low for each in found), max(each.high for each in found)

    @property
    def values(self) -> list[float]:
        """Values of all agents on the board."""
        return [] if self.history is None else self.history.values

    @property
    def distribution(self) -> Chart:
        """Distribution of the best values of all agents."""
        return draw_histogram(
            "Best of every agent",
            [("Agents", self.values)],
            self.heading.capitalize(),
            lambda value: format_tick(round(value, 2)),
        )

    @property
    def attempts_chart(self) -> Chart:
        """Attempts per day; days without attempts are 0."""
        days = {} if self.history is None else self.history.days
        if not days:
            return draw_lines("Attempts a day", [])
        first, last = min(days), max(days)
        points = [LinePoint(day, days.get(day, 0)) for day in range(first, last + 1)]
        return draw_lines("Attempts a day", [Line("Attempts", points)], _write_day, zero=True)

    @property
    def attempts(self) -> int:
        return 0 if self.history is None else sum(self.history.days.values())

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each place; by another rule, where the page shows that."""
        if self.versus is not None:
            yield from self.versus.list_rows()
        elif self.what_if is not None and self.what_if.items:
            yield from list_flat(self.challenge, self.what_if_rows)
        else:
            yield from list_flat(self.challenge, self.rows)


def _write_day(day: float) -> str:
    return f"{datetime.fromtimestamp(day * _A_DAY, UTC):%d %b}".lstrip("0")


def gather(request: PageRequest) -> ChallengeView:
    send_on_plain_form(request)
    challenge = request.tally.challenges.get(request.params["challenge"])
    name, live = challenge.name, not request.public
    me = request.get("around") or request.visitor.agent
    solo = challenge.kind != "versus"
    what_if = try_rule(request, challenge, me) if solo else None
    pager = request.read_pager(0, _WALL if request.get("tv") else _PLACES)
    asked = _Asked(request, name, pager)
    # While the visitor types, only what is shown is read.
    hidden = what_if is not None and bool(what_if.items) and bool(request.get("part"))
    board, beside, around = None, list[Standing](), None
    if solo:
        board, pager, beside = asked.read_size() if hidden else asked.read()
        here = any(each.agent == me for each in board.items)
        if me and not here and not hidden:
            around = request.tally.boards.get(name, around=me, details=True, live=live)
    here = board is not None and any(each.agent == me for each in board.items)
    charts = solo and request.get("part") == "charts"
    frozen = challenge.frozen is not None
    changes = (challenge.opens_at, challenge.closes_at, challenge.freezes_at)
    versus = None if solo else make_versus_board(request, challenge)
    return ChallengeView(
        title=challenge.title,
        challenge=challenge,
        reported=is_reported(challenge),
        command=write_command(challenge),
        changes_at=min(
            (each for each in changes if each is not None and each > request.now), default=None
        ),
        seq=board.seq if board is not None else versus.seq if versus is not None else 0,
        live=frozen and live,
        heading=STRATEGIES[challenge.scoring.strategy].heading.lower(),
        board=board,
        beside=beside,
        pager=pager,
        text=asked.text,
        sort=asked.sort,
        descending=asked.descending,
        around=around,
        me=None if here else me,
        marked=[each for each in (request.visitor.agent, request.get("around")) if each],
        dimensions=list_dimensions(challenge),
        rules=list(list_rules(challenge)),
        schema=""
        if challenge.submission.schema is None
        else json.dumps(challenge.submission.schema, indent=2),
        versus=versus,
        submissions=[] if solo else _list_submissions(request, name),
        form=make_form(request, challenge) if solo else None,
        what_if=what_if,
        history=request.tally.boards.history(name, live=live) if charts else None,
    )


def _list_submissions(request: PageRequest, name: str) -> list[SideSubmission]:
    """List the visitor's own submissions, or all for organisers; none in a shared part."""
    if request.get("part") or request.caller.role not in COMPETITORS:
        return []
    return request.tally.versus.list(name, limit=_MOST_SUBMISSIONS).items


def share(request: PageRequest) -> Shared | None:
    """Return the parts that all visitors with the same permissions share."""
    if request.get("part") not in PAGE.parts:
        return None
    name, live = request.params["challenge"], not request.public
    view = view_challenge(request.services, request.caller, name, live)
    record = request.tally.challenges.get(name)
    made_of = (view.state, record.frozen, record.state)
    return Shared(request=request.without_visitor(), made_of=made_of)


class _Asked:
    """The part of a board that the query asks for."""

    def __init__(self, request: PageRequest, name: str, pager: Pager) -> None:
        self._visit = request
        self._name = name
        self._pager = pager
        self.text = request.get("q").strip()
        self.sort = request.choose("sort", SORTS)
        self.descending = request.choose("order", ("desc", "asc")) == "desc"

    def read_size(self) -> tuple[Board, Pager, list[Standing]]:
        """Read how many agents there are, and none of them."""
        board = self._get(limit=1)
        board.items = []
        return board, msgspec.structs.replace(self._pager, total=board.agents), []

    def read(self) -> tuple[Board, Pager, list[Standing]]:
        """Read the page in the order that the address asks for, and the places beside it."""
        pager = self._pager
        if self.text or self.sort != "place":
            board = self._get(text=self.text or None, limit=_SORTABLE, details=True)
            if self.sort != "place" and board.agents > _SORTABLE:
                raise InvalidInput(
                    f"a board of {board.agents:,} agents can only be ordered by place",
                    hint="filter it by name with q=, or take it as CSV",
                )
            found = self._sort(board)
            pager = msgspec.structs.replace(pager, total=len(found))
            board.items = found[pager.offset : pager.offset + pager.limit]
            return board, pager, []
        # One more at either end detects ties across pages.
        before = min(1, pager.offset)
        first = write_cursor(pager.offset - before)
        board = self._get(cursor=first, limit=before + pager.limit + 1, details=True)
        found, end = board.items, before + pager.limit
        board.items = found[before:end]
        beside = [*found[:before], *found[end:]]
        return board, msgspec.structs.replace(pager, total=board.agents), beside

    def _get(self, **how: Any) -> Board:
        return self._visit.tally.boards.get(self._name, live=not self._visit.public, **how)

    def _sort(self, board: Board) -> list[Standing]:
        found = list(board.items)
        if self.sort == "agent":
            found.sort(key=lambda each: board.names.get(each.agent, each.agent).casefold())
        elif self.sort == "submitted":
            found.sort(key=lambda each: -each.submitted_at)
        return found if self.descending else found[::-1]


def _explain_lead(row: BoardRow, behind: BoardRow | None) -> str:
    """Explain the lead of a row over the next."""
    if behind is None or row.value is None or behind.value is None:
        return ""
    if row.value == behind.value:
        return f"level with {behind.name}, but earlier"
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
