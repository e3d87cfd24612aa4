"""`tally ratings`: how strong agents are, and how hard challenges."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tallymark.cli.app_session import Db, Live, Server, open_desk
from tallymark.cli.streams import print_json
from tallymark.text import Table, format_rating, format_share, list_some, say

LEGEND = (
    "FLOOR: lower bound of the strength; agents are sorted by it. ?: provisional, +-200 or more."
)


def ratings(
    k: Annotated[int, typer.Option("-k", min=1, help="For pass@k and pass^k.")] = 3,
    live: Live = False,
    db: Db = None,
    server: Server = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show the ratings of agents and the difficulty of challenges.

    Elo moves with every attempt. Strength and difficulty are fitted to all attempts together, with
    95 % intervals. Agents are sorted by the floor, the lower bound of their strength.
    pass@1 is the share of attempts that were won, as the mean over an agent's challenges; pass@k
    and pass^k are means over those challenges alone that it tried k times or more.
    """
    with open_desk(db, server) as desk:
        found = desk.boards.ratings(k=k, live=live)
    if as_json:
        print_json(found)
    elif found["agents"]:
        say(_make_agent_table(found, k), "", _make_challenge_table(found), "", LEGEND, wrap=True)
        if any(_is_partial(each["attempts"]) for each in found["agents"].values()):
            say(
                f"(1/2): over 1 of 2 challenges, as only that was tried {k} times or more.",
                wrap=True,
            )
        if not found["comparable"]:
            say(
                "Some agents share no challenge: their strengths cannot be compared,"
                " and places (#) are those in a group that can.",
                wrap=True,
            )
        agents = found["agents"].items()
        waiting = sorted(name for name, each in agents if each["elo"]["provisional"])
        if waiting:
            who = list_some(waiting)
            say(f"Provisional, because attempts wait to be scored or to expire: {who}.", wrap=True)
        if found["frozen"]:
            frozen = list_some(found["frozen"])
            say(f"Frozen, so that later attempts do not show: {frozen}.", wrap=True)
    else:
        make = "tally attempt enter CHALLENGE --agent NAME"
        say(f"no rated attempts; make one with: {make}", wrap=True)


def _make_agent_table(found: dict[str, Any], k: int) -> Table:
    from tallymark.challenges.agent_names import label_agent

    shares = ("pass@1", f"pass@{k}", f"pass^{k}")
    grouped = () if found["comparable"] else ("GROUP", "#")
    heads = (*grouped, "AGENT", "ELO", "WON/DRAWN/LOST", "STRENGTH", "95 %", "FLOOR", *shares)
    names = found.get("names", {})
    rows = []
    for agent, each in found["agents"].items():
        elo, strength, rates = each["elo"], each["strength"], each["attempts"]
        place = f"{'=' if each['tied'] else ''}{each['place']}"
        rows.append(
            (
                *(() if found["comparable"] else (str(each["group"]), place)),
                label_agent(agent, names.get(agent, agent)),
                str(elo["rating"]),
                f"{elo['wins']}/{elo['draws']}/{elo['losses']}",
                *_write_estimate(strength),
                format_rating(strength["floor"]),
                format_share(rates["pass_at_1"]),
                *(_write_rate(rates, name) for name in ("pass_at_k", "pass_hat_k")),
            )
        )
    right = (*grouped, "ELO", "STRENGTH", "FLOOR", *shares)
    drop = ("95 %", *shares[::-1], "FLOOR", "WON/DRAWN/LOST")
    return Table(heads, rows, right=right, drop=drop)


def _write_rate(rates: dict[str, Any], name: str) -> str:
    """With over how many challenges it is a mean, where that is not all that pass@1 goes over."""
    over = f" ({rates['enough']}/{rates['challenges']})" if _is_partial(rates) else ""
    return f"{format_share(rates[name])}{over}"


def _is_partial(rates: dict[str, Any]) -> bool:
    return bool(0 < rates["enough"] < rates["challenges"])


def _make_challenge_table(found: dict[str, Any]) -> Table:
    heads = ("CHALLENGE", "DIFFICULTY", "95 %", "TIER", "PLAYS LIKE")
    rows = [
        (
            name,
            *_write_estimate(each),
            each["declared_tier"] or "-",
            each["tier"] + ("" if each["sure"] else " (not sure)"),
        )
        for name, each in found["challenges"].items()
    ]
    return Table(heads, rows, right=("DIFFICULTY",), drop=("95 %", "TIER"))


def _write_estimate(found: dict[str, Any]) -> tuple[str, str]:
    value = f"{format_rating(found['value'])}{'?' if found['provisional'] else ''}"
    return value, f"{format_rating(found['low'])} to {format_rating(found['high'])}"
