"""`tally leaderboard` and `tally ratings`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, cast

import msgspec
import typer

from tallymark.challenges.agent_names import label_agent
from tallymark.challenges.strategies import STRATEGIES
from tallymark.cli.options import Db, Json, Limit, Live, Server
from tallymark.cli.session import open_resources
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
    from tallymark.ratings import AttemptRates, RatingEstimate
    from tallymark.service.boards import Board
    from tallymark.service.challenges import Challenge
    from tallymark.service.ratings import Difficulty, Rating
    from tallymark.service.resources import Resources
    from tallymark.service.tracks import TrackBoard

VERSUS_LEGEND = (
    "FLOOR: lower bound of the strength (95 %); the table is sorted by it. An agent that plays both"
    " sides has a strength for each. ?: provisional, +-200 or more."
)
Shown: TypeAlias = "tuple[Mapping[str, Board | TrackBoard], list[str | Table]]"
"""Boards for `--json`, by side in red against blue, and for people."""
B = TypeVar("B", "Board", "TrackBoard")
_LARGEST_PAGE = 1000


@dataclass(frozen=True, slots=True)
class _BoardPage:
    """The requested part of a board."""

    agent: str | None
    limit: int
    offset: int
    live: bool
    has_tried: Callable[[], bool]
    """Tests if the agent has an attempt."""

    def read(self, get: Callable[..., B], **more: Any) -> B:
        """Read the part of a board, which may be longer than a page."""
        how: dict[str, Any] = {"live": self.live, **more}
        if self.agent is not None:
            return get(around=self.agent, each=max(1, self.limit // 2), **how)
        if self.offset:
            from tallymark.service.cursors import write_cursor  # noqa: PLC0415 (loads SQLAlchemy)

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
        """The error for an agent without a review there."""
        near = suggest(self.agent or "", known)
        hint = f"did you mean {near!r}?" if near else f"see: tally leaderboard {board}"
        return InvalidInput(f"{self.agent!r} is not on the board of {board}", hint=hint)


def leaderboard(  # noqa: PLR0913, PLR0917 (the options of a command)
    name: Annotated[
        str,
        typer.Argument(metavar="CHALLENGE", help="Published challenge or track, or a track.yaml."),
    ],
    agent: Annotated[
        str | None, typer.Option(help="Show the ranks around this agent instead of the top.")
    ] = None,
    limit: Limit = 20,
    offset: Annotated[int, typer.Option(min=0, help="Skip the first N ranks.")] = 0,
    live: Live = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Show a leaderboard: the best attempt of every agent, in order.

    TRIES counts the scored attempts of an agent, without withdrawn, expired, failed and void ones.
    """
    if as_json and as_csv:
        raise InvalidInput("--json and --csv exclude each other", hint="leave one of them out")
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
    return {name: board}, [f"no agent is on the board of {name}{why}"]


def _has_tried(tally: Resources, name: str, agent: str | None, live: bool) -> bool:
    return bool(tally.attempts.list(name, agent, live=live, limit=1).items)


def _make_labels(*boards: Board | TrackBoard) -> dict[str, str]:
    """Make labels for agents that have another name than their handle."""
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
    # The column is shown only if an agent sent a trajectory.
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
        return boards, [f"no agents have met at {name} yet"]
    parts: list[str | Table] = [challenge.title]
    labels = _make_labels(*boards.values())
    for side, board in boards.items():
        if board.items:
            parts += ["", _make_versus_table(side, board.items, labels)]
    return boards, [*parts, "", VERSUS_LEGEND]


def _make_versus_table(side: str, found: list[Standing], labels: Mapping[str, str]) -> Table:

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
        from tallymark.challenges.tracks import load_track  # noqa: PLC0415 (only for tracks)

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
        return {track.name: board}, [f"no agent is on the board of {track.name} yet", *note]
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


LEGEND = (
    "FLOOR: lower bound of the strength (95 %); the table is sorted by it. ?: provisional, +-200 or"
    " more."
)


def ratings(
    k: Annotated[int, typer.Option("-k", min=1, help="The k of pass@k and pass^k.")] = 3,
    live: Live = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Show the ratings of agents and the difficulty of challenges.

    Elo changes with every attempt. Strength and difficulty are fitted to all attempts together,
    with 95 % intervals. Agents are sorted by FLOOR, the lower bound of their strength.
    pass@1 is the share of attempts won, averaged over the challenges of an agent; pass@k and pass^k
    are averaged over the challenges that it tried at least k times.
    """
    with open_resources(db, server) as tally:
        first = tally.ratings.list(k=k, live=live)
        found = list(first)
        challenges = list(tally.ratings.challenges(live=live))
    if as_json:
        facts = {"comparable": first.comparable, "frozen": first.frozen}
        shown = {"agents": found, "challenges": challenges, **facts}
        print_json(msgspec.to_builtins(shown))
    elif found:
        agents = _make_agent_table(found, k, grouped=not first.comparable)
        say(agents, "", _make_challenge_table(challenges), "", LEGEND, wrap=True)
        if any(_is_partial(each.pass_rates) for each in found):
            say(
                f"(1/2): over 1 of 2 challenges, as only that was tried {k} times or more.",
                wrap=True,
            )
        if not first.comparable:
            say(
                "Some agents share no challenge: their strengths cannot be compared,"
                " and places (#) are those in a group that can.",
                wrap=True,
            )
        waiting = sorted(each.agent for each in found if each.elo.provisional)
        if waiting:
            who = list_some(waiting)
            say(f"Provisional, because attempts wait to be scored or to expire: {who}.", wrap=True)
        if first.frozen:
            frozen = list_some(first.frozen)
            say(f"Frozen, so that later attempts do not show: {frozen}.", wrap=True)
    else:
        make = "tally attempt enter CHALLENGE --agent NAME"
        say(f"no rated attempts; make one with: {make}", wrap=True)


def _make_agent_table(found: Sequence[Rating], k: int, *, grouped: bool) -> Table:

    shares = ("pass@1", f"pass@{k}", f"pass^{k}")
    places = ("GROUP", "#") if grouped else ()
    heads = (*places, "AGENT", "ELO", "WON/DRAWN/LOST", "STRENGTH", "95 %", "FLOOR", *shares)
    rows = [
        (
            *((str(each.group), f"{'=' if each.tied else ''}{each.rank}") if grouped else ()),
            label_agent(each.agent, each.name),
            str(each.elo.rating),
            f"{each.elo.wins}/{each.elo.draws}/{each.elo.losses}",
            *_write_estimate(each.strength),
            format_rating(each.strength.floor),
            format_share(each.pass_rates.pass_at_1),
            *(
                _write_rate(each.pass_rates, rate)
                for rate in (each.pass_rates.pass_at_k, each.pass_rates.pass_hat_k)
            ),
        )
        for each in found
    ]
    right = (*places, "ELO", "STRENGTH", "FLOOR", *shares)
    drop = ("95 %", *shares[::-1], "FLOOR", "WON/DRAWN/LOST")
    return Table(heads, rows, right=right, drop=drop)


def _write_rate(rates: AttemptRates, rate: float | None) -> str:
    """Add the number of challenges where the mean is not over all that pass@1 goes over."""
    over = f" ({rates.enough}/{rates.challenges})" if _is_partial(rates) else ""
    return f"{format_share(rate)}{over}"


def _is_partial(rates: AttemptRates) -> bool:
    return 0 < rates.enough < rates.challenges


def _make_challenge_table(found: Sequence[Difficulty]) -> Table:
    heads = ("CHALLENGE", "DIFFICULTY", "95 %", "TIER", "PLAYS LIKE")
    rows = [
        (
            each.challenge,
            *_write_estimate(each.difficulty),
            each.declared_tier or "-",
            each.plays_like + ("" if each.sure else " (not sure)"),
        )
        for each in found
    ]
    return Table(heads, rows, right=("DIFFICULTY",), drop=("95 %", "TIER"))


def _write_estimate(found: RatingEstimate) -> tuple[str, str]:
    value = f"{format_rating(found.value)}{'?' if found.provisional else ''}"
    return value, f"{format_rating(found.low)} to {format_rating(found.high)}"
