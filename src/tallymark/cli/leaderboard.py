"""`tally leaderboard`: who stands where, at a challenge, in red against blue, or over a track."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from tallymark.cli.app_session import Db, Limit, Live, Server, open_desk
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
    from collections.abc import Iterable, Mapping, Sequence

    from tallymark.challenges.challenge import PublicChallenge
    from tallymark.challenges.strategies import Standing, Strategy
    from tallymark.challenges.tracks import TrackStanding
    from tallymark.challenges.versus.pairings import Side
    from tallymark.challenges.versus.standings import VersusStanding
    from tallymark.desk.desk import Desk
    from tallymark.ratings import RatingEstimate


VERSUS_LEGEND = (
    "FLOOR: lower bound of the strength; players are sorted by it. Those who play both sides have a"
    " strength for each. ?: provisional, +-200 or more."
)
Shown: TypeAlias = "tuple[dict[str, Any], list[str | Table]]"
"""A board for `--json`, and for people."""


@dataclass(frozen=True, slots=True)
class _BoardPage:
    """Which part of a board is asked for."""

    agent: str | None
    limit: int
    offset: int
    live: bool

    def cut(self, lines: Sequence[VersusStanding] | Sequence[TrackStanding]) -> list[Any]:
        """The top of a board that is read whole, or the places around the agent."""
        if self.agent is None:
            return list(lines[self.offset : self.offset + self.limit])
        names = [getattr(each, "player", None) or getattr(each, "agent", None) for each in lines]
        if self.agent not in names:
            return []
        place, each = names.index(self.agent), max(1, self.limit // 2)
        return list(lines[max(0, place - each) : place + each + 1])

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
    page = _BoardPage(agent, limit, offset, live)
    with open_desk(db, server) as desk:
        if name.endswith((".yaml", ".yml")):
            document, parts = _show_track(desk, Path(name), page)
        else:
            document, parts = _show_named(desk, name, page)
    if as_json:
        print_json(document)
    elif as_csv:
        who = ("player", "side") if "red" in document else ("agent",)
        print_csv(_list_rows(document), ("rank", *who))
    else:
        say(*parts, wrap=True)


def _show_named(desk: Desk, name: str, page: _BoardPage) -> Shown:
    """A challenge, or where there is none of that name, a track."""
    try:
        challenge = desk.tally.challenges.get(name)
    except NotFound:
        with suppress(NotFound):
            return _show_track(desk, name, page)
        raise
    show = _show_versus if challenge.kind == "versus" else _show_board
    document, parts = show(desk, challenge, page)
    if not page.live and challenge.frozen is not None:
        document["frozen_at"] = challenge.frozen
        parts.append(f"\nFrozen since {format_moment(challenge.frozen)} UTC.")
    return document, parts


def _list_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A board as flat rows: what is a mapping in JSON is a column for each of its keys."""
    if "standings" in document:
        return [_flatten(each) for each in document["standings"]]
    lines = [*document["red"], *document["blue"]]
    return [_flatten(each | {"strength": each["strength"] or {}}) for each in lines]


def _flatten(value: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, each in value.items():
        key = f"{before}{name}"
        flat |= _flatten(each, f"{key}.") if isinstance(each, dict) else {key: each}
    return flat


def _show_board(desk: Desk, challenge: PublicChallenge, page: _BoardPage) -> Shown:
    import msgspec

    from tallymark.challenges.strategies import STRATEGIES

    name, boards = challenge.name, desk.boards
    if page.agent is None:
        found, size = boards.top(name, limit=page.limit, offset=page.offset, live=page.live)
    else:
        each = max(1, page.limit // 2)
        found, size = boards.around(name, page.agent, each=each, live=page.live)
    document = {"challenge": name, "agents": size, "standings": msgspec.to_builtins(found)}
    labels = _read_labels(desk, document, [each.agent for each in found])
    if found:
        table = _make_board_table(found, STRATEGIES[challenge.scoring.strategy], labels)
        return document, [_write_title(challenge.title, size), "", table]
    if page.agent is not None:
        if not desk.attempts.list(name, agent=page.agent, limit=1, live=page.live):
            top = boards.top(name, limit=200, offset=0, live=page.live)
            raise page.refuse_agent(name, [each.agent for each in top.lines])
        why = "no attempt of it has a score that ranks"
        return document, [f"{page.agent} is not on the board of {name}: {why}"]
    why = " yet" if not size else " so far down"
    return document, [f"nobody is on the board of {name}{why}"]


def _read_labels(desk: Desk, document: dict[str, Any], agents: list[str]) -> dict[str, str]:
    """What to show of agents that have another name than their handle; the document names them."""
    from tallymark.challenges.agent_names import label_agent

    names = desk.boards.names(agents)
    if names:
        document["names"] = names
    return {handle: label_agent(handle, name) for handle, name in names.items()}


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
            each.attempt,
        )
        for each in found
    ]
    right, drop = ("RANK", strategy.heading, "TRIES"), ("TRIES", *levels, "SUBMITTED (UTC)")
    return Table(heads, rows, right=right, drop=drop)


def _show_versus(desk: Desk, challenge: PublicChallenge, page: _BoardPage) -> Shown:
    import msgspec

    both: tuple[Side, Side] = ("red", "blue")
    sides = [desk.boards.versus(challenge.name, side, live=page.live) for side in both]
    red, blue = map(page.cut, sides)
    if page.agent is not None and not red and not blue:
        raise page.refuse_agent(challenge.name, {each.player for side in sides for each in side})
    document = {
        "challenge": challenge.name,
        "red": msgspec.to_builtins(red),
        "blue": msgspec.to_builtins(blue),
    }
    labels = _read_labels(desk, document, [each.player for each in (*red, *blue)])
    if not red and not blue:
        return document, [f"nobody has met at {challenge.name} yet"]
    parts: list[str | Table] = [challenge.title]
    for side, found in (("red", red), ("blue", blue)):
        if found:
            parts += ["", _make_versus_table(side, found, labels)]
    return document, [*parts, "", VERSUS_LEGEND]


def _make_versus_table(side: str, found: list[VersusStanding], labels: Mapping[str, str]) -> Table:
    categories = list(dict.fromkeys(name for each in found for name in each.categories))
    numbers = ("POINTS", "RATIO", *(name.upper() for name in categories))
    heads = ("RANK", side.upper(), *numbers, "STRENGTH", "95 %", "FLOOR")
    rows = []
    for each in found:
        points = [each.categories.get(name) for name in categories]
        rows.append(
            (
                str(each.rank),
                labels.get(each.player, each.player),
                f"{each.points}/{each.points + each.against}",
                format_share(each.ratio),
                *("-" if p is None else f"{p.own}/{p.own + p.other}" for p in points),
                *_write_strength(each.strength),
            )
        )
    right = ("RANK", *numbers, "STRENGTH", "FLOOR")
    return Table(heads, rows, right=right, drop=("95 %", "RATIO", *numbers[:1:-1], "FLOOR"))


def _write_strength(strength: RatingEstimate | None) -> tuple[str, str, str]:
    if strength is None:
        return "-", "-", "-"
    return (
        f"{format_rating(strength.value)}{'?' if strength.provisional else ''}",
        f"{format_rating(strength.low)} to {format_rating(strength.high)}",
        f"{format_rating(strength.floor)}",
    )


def _show_track(desk: Desk, named: Path | str, page: _BoardPage) -> Shown:
    import msgspec

    from tallymark.challenges.tracks import load_track

    tracks = desk.tally.tracks
    if isinstance(named, Path):
        given = msgspec.structs.asdict(load_track(named))
        given["challenges"] = [*given["challenges"]]
        board = tracks.suppose_board(**given, live=page.live)
    else:
        board = tracks.board(named, live=page.live)
    track, found, frozen = board.track, list(board), board.frozen
    shown = page.cut(found)
    if page.agent is not None and not shown:
        raise page.refuse_agent(str(named), [each.agent for each in found])
    document: dict[str, Any] = {
        "track": track.name,
        "combine": track.combine,
        "agents": len(found),
        "standings": msgspec.to_builtins(shown),
    }
    labels = _read_labels(desk, document, [each.agent for each in shown])
    note = []
    if frozen:
        document["frozen"] = frozen
        note.append(f"\nFrozen: {list_some(frozen)}.")
    if not shown:
        return document, [f"nobody is on the board of {track.name} yet", *note]
    title = f"{_write_title(track.title, len(found))}, {track.combine}"
    return document, [title, "", _make_track_table(track.challenges, shown, labels), *note]


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
