"""`tally leaderboard`: who stands where, at a challenge, in red against blue, or over a track."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, cast

import typer

from tallymark.cli.app_session import Db, Limit, Live, Server, open_resources
from tallymark.cli.streams import print_csv, print_json
from tallymark.errors import InvalidInput, NotFound, suggest
from tallymark.text import (
    Table,
    format_digits,
    format_moment,
    format_rating,
    format_share,
    list_some,
    say,
    shorten_line,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tallymark.challenges.strategies import Standing, Strategy
    from tallymark.challenges.tracks import TrackStanding
    from tallymark.service.boards import Board
    from tallymark.service.challenges import Challenge
    from tallymark.service.resources import Resources
    from tallymark.service.tracks import TrackBoard


VERSUS_LEGEND = (
    "FLOOR: lower bound of the strength; players are sorted by it. Those who play both sides have a"
    " strength for each. ?: provisional, +-200 or more."
)
Shown: TypeAlias = "tuple[Mapping[str, Board | TrackBoard], list[str | Table]]"
"""Boards for `--json`, by side in red against blue, and for people."""
B = TypeVar("B", "Board", "TrackBoard")
_LARGEST_PAGE = 1000


@dataclass(frozen=True, slots=True)
class _BoardPage:
    """Which part of a board is asked for."""

    agent: str | None
    limit: int
    offset: int
    live: bool
    has_tried: Callable[[], bool]
    """Whether the agent has an attempt."""

    def read(self, get: Callable[..., B], **more: Any) -> B:
        """Read the part of a board, which may be longer than a page."""
        how: dict[str, Any] = {"live": self.live, **more}
        if self.agent is not None:
            return get(around=self.agent, each=max(1, self.limit // 2), **how)
        if self.offset:
            from tallymark.service.cursors import write_cursor

            how["cursor"] = write_cursor(self.offset)
        page: Any = get(limit=min(self.limit, _LARGEST_PAGE), **how)
        board = page
        while len(board.items) < self.limit and page.next is not None:
            most = min(self.limit - len(board.items), _LARGEST_PAGE)
            page = get(limit=most, **how | {"cursor": page.next})
            board.items += page.items
            board.names |= page.names
            board.next = page.next
        return cast("B", board)

    def refuse_agent(self, board: str, known: Iterable[str]) -> InvalidInput:
        """The error for an agent that nobody has seen there."""
        near = suggest(self.agent or "", known)
        hint = f"did you mean {near!r}?" if near else f"see: tally leaderboard {board}"
        return InvalidInput(f"{self.agent!r} is not on the board of {board}", hint=hint)


def leaderboard(  # noqa: PLR0913, PLR0917 (the options of a command)
    name: Annotated[
        str,
        typer.Argument(
            metavar="CHALLENGE", help="A published challenge or track, or a track.yaml."
        ),
    ],
    agent: Annotated[
        str | None, typer.Option(help="Show the places around this agent instead of the top.")
    ] = None,
    limit: Limit = 20,
    offset: Annotated[int, typer.Option(min=0, help="Skip this many places.")] = 0,
    live: Live = False,
    db: Db = None,
    server: Server = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a table for spreadsheets.")] = False,
) -> None:
    """Show a leaderboard: the best attempt of every agent, in order.

    TRIES counts the attempts of an agent that were scored: none that it withdrew, that expired or
    failed, or that is void.
    """
    if as_json and as_csv:
        raise InvalidInput("--json and --csv cannot both be had", hint="leave one of them out")
    with open_resources(db, server) as tally:
        page = _BoardPage(agent, limit, offset, live, partial(_has_tried, tally, name, agent, live))
        if name.endswith((".yaml", ".yml")):
            boards, parts = _show_track(tally, Path(name), page)
        else:
            boards, parts = _show_named(tally, name, page)
    if as_json:
        print_json(boards if len(boards) > 1 else next(iter(boards.values())))
    elif as_csv:
        who = ("agent", "side") if len(boards) > 1 else ("agent",)
        print_csv(_list_rows(boards.values()), ("rank", *who))
    else:
        say(*parts, wrap=True)


def _show_named(tally: Resources, name: str, page: _BoardPage) -> Shown:
    """Show a challenge, or a track if there is no challenge of that name."""
    try:
        challenge = tally.challenges.get(name)
    except NotFound:
        with suppress(NotFound):
            return _show_track(tally, name, page)
        raise
    show = _show_versus if challenge.kind == "versus" else _show_board
    boards, parts = show(tally, challenge, page)
    if not page.live and challenge.frozen is not None:
        parts.append(f"\nFrozen since {format_moment(challenge.frozen)} UTC.")
    return boards, parts


def _list_rows(boards: Iterable[Board | TrackBoard]) -> list[dict[str, Any]]:
    """List lines as flat rows: a mapping in JSON becomes a column for each of its keys."""
    import msgspec

    return [
        _flatten(line | ({"strength": line["strength"] or {}} if "strength" in line else {}))
        for board in boards
        for line in msgspec.to_builtins(board.items)
    ]


def _flatten(value: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, each in value.items():
        key = f"{before}{name}"
        flat |= _flatten(each, f"{key}.") if isinstance(each, dict) else {key: each}
    return flat


def _show_board(tally: Resources, challenge: Challenge, page: _BoardPage) -> Shown:
    from tallymark.challenges.strategies import STRATEGIES

    name = challenge.name
    board = page.read(partial(tally.boards.get, name))
    found, size = board.items, board.agents
    if found:
        strategy = STRATEGIES[challenge.scoring.strategy]
        table = _make_board_table(found, strategy, _make_labels(board))
        return {name: board}, [_write_title(challenge.title, size), "", table]
    if page.agent is not None:
        if not page.has_tried():
            top = tally.boards.get(name, limit=200, live=page.live)
            raise page.refuse_agent(name, [each.agent for each in top.items])
        why = "no attempt of it has a score that ranks"
        return {name: board}, [f"{page.agent} is not on the board of {name}: {why}"]
    why = " yet" if not size else " so far down"
    return {name: board}, [f"nobody is on the board of {name}{why}"]


def _has_tried(tally: Resources, name: str, agent: str | None, live: bool) -> bool:
    return bool(tally.attempts.list(name, agent, live=live, limit=1).items)


def _make_labels(*boards: Board | TrackBoard) -> dict[str, str]:
    """Make labels for agents that have another name than their handle."""
    from tallymark.challenges.agent_names import label_agent

    return {
        handle: label_agent(handle, name)
        for board in boards
        for handle, name in board.names.items()
    }


def _write_title(title: str, size: int) -> str:
    return f"{title} ({size} agent{'' if size == 1 else 's'})"


def _make_board_table(
    found: list[Standing], strategy: Strategy, labels: Mapping[str, str]
) -> Table:
    # Where nobody sent any, nobody asks how far trajectories can be believed.
    sent = any(each.trajectory_level != "none" for each in found)
    levels = ("TRAJECTORY",) if sent else ()
    heads = ("RANK", "AGENT", strategy.heading, "TRIES", *levels, "SUBMITTED (UTC)", "ATTEMPT")
    rows = [
        (
            str(each.rank),
            labels.get(each.agent, each.agent),
            strategy.write(each.value),
            str(each.tries),
            *((each.trajectory_level,) if sent else ()),
            format_moment(each.submitted_at),
            str(each.attempt),
        )
        for each in found
    ]
    right, drop = ("RANK", strategy.heading, "TRIES"), ("TRIES", *levels, "SUBMITTED (UTC)")
    return Table(heads, rows, right=right, drop=drop)


def _show_versus(tally: Resources, challenge: Challenge, page: _BoardPage) -> Shown:
    name = challenge.name
    sides: tuple[Literal["red", "blue"], ...] = ("red", "blue")
    boards: dict[str, Board] = {
        side: page.read(partial(tally.boards.get, name, side=side)) for side in sides
    }
    if page.agent is not None and not any(board.items for board in boards.values()):
        whole = [tally.boards.get(name, side=side, live=page.live) for side in sides]
        raise page.refuse_agent(name, {each.agent for board in whole for each in board.items})
    if not any(board.items for board in boards.values()):
        return boards, [f"nobody has met at {name} yet"]
    parts: list[str | Table] = [challenge.title]
    labels = _make_labels(*boards.values())
    for side, board in boards.items():
        if board.items:
            parts += ["", _make_versus_table(side, board.items, labels)]
    return boards, [*parts, "", VERSUS_LEGEND]


def _make_versus_table(side: str, found: list[Standing], labels: Mapping[str, str]) -> Table:
    import msgspec

    lines: list[dict[str, Any]] = msgspec.to_builtins(found)
    categories = list(dict.fromkeys(name for each in lines for name in each["categories"]))
    numbers = ("POINTS", "RATIO", *(name.upper() for name in categories))
    heads = ("RANK", side.upper(), *numbers, "STRENGTH", "95 %", "FLOOR")
    rows = []
    for each in lines:
        points = [each["categories"].get(name) for name in categories]
        rows.append(
            (
                str(each["rank"]),
                labels.get(each["agent"], each["agent"]),
                f"{each['points']}/{each['points'] + each['against']}",
                format_share(each["ratio"]),
                *("-" if p is None else f"{p['own']}/{p['own'] + p['other']}" for p in points),
                *_write_strength(each["strength"]),
            )
        )
    right = ("RANK", *numbers, "STRENGTH", "FLOOR")
    return Table(heads, rows, right=right, drop=("95 %", "RATIO", *numbers[:1:-1], "FLOOR"))


def _write_strength(strength: Mapping[str, Any] | None) -> tuple[str, str, str]:
    if strength is None:
        return "-", "-", "-"
    return (
        f"{format_rating(strength['value'])}{'?' if strength['provisional'] else ''}",
        f"{format_rating(strength['low'])} to {format_rating(strength['high'])}",
        f"{format_rating(strength['floor'])}",
    )


def _show_track(tally: Resources, named: Path | str, page: _BoardPage) -> Shown:
    if isinstance(named, Path):
        import msgspec

        from tallymark.challenges.tracks import load_track

        given = msgspec.structs.asdict(load_track(named))
        given["challenges"] = [*given["challenges"]]
        get = partial(tally.tracks.suppose_board, **given)
    else:
        get = partial(tally.tracks.board, named)
    board = page.read(get)
    track, found, frozen = board.track, board.items, board.frozen
    if page.agent is not None and not found:
        top = get(live=page.live)
        raise page.refuse_agent(str(named), [each.agent for each in top.items])
    note = [f"\nFrozen: {list_some(frozen)}."] if frozen else []
    if not found:
        return {track.name: board}, [f"nobody is on the board of {track.name} yet", *note]
    title = f"{_write_title(track.title, board.agents)}, {track.combine}"
    table = _make_track_table(track.challenges, found, _make_labels(board))
    return {track.name: board}, [title, "", table, *note]


def _make_track_table(
    challenges: Sequence[str], found: list[TrackStanding], labels: Mapping[str, str]
) -> Table:
    names = [shorten_line(name, 24).upper() for name in challenges]
    heads = ("RANK", "AGENT", "VALUE", *names)
    rows = [
        (
            str(each.rank),
            labels.get(each.agent, each.agent),
            format_digits(each.value),
            *(format_digits(each.scores[name]) for name in challenges),
        )
        for each in found
    ]
    right = ("RANK", "VALUE", *names)
    return Table(heads, rows, right=right, cut=names, drop=names[::-1])
