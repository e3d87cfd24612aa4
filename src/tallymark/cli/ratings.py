"""`tally ratings`: how strong agents are, and how hard challenges."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.cli.app_session import Db, Live
from tallymark.cli.streams import print_json
from tallymark.text import Table, format_rating, format_share, list_some, say

if TYPE_CHECKING:
    from tallymark.app.ratings import RatingTable


LEGEND = (
    "FLOOR, the order: the least strength that results bear out. ?: provisional, +-200 or more."
)


def ratings(
    k: Annotated[int, typer.Option("-k", min=1, help="For pass@k and pass^k.")] = 3,
    live: Live = False,
    db: Db = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show the ratings of agents and the difficulties of challenges, from the log of attempts.

    Elo moves with every attempt. Strength and difficulty are fitted to all attempts together, with
    95 % intervals. Agents are listed by floor: the least strength that their results bear out.
    """
    from tallymark.app.app import App
    from tallymark.app.ratings import read_ratings

    with closing(App(db)) as app:
        table = read_ratings(app.store, at=time.time(), k=k, public=not live)
    if as_json:
        print_json(table.to_dict())
    elif table.elo:
        say(_make_agent_table(table, k), "", _make_challenge_table(table), "", LEGEND)
        if not table.fitted.connected:
            say("Some agents share no challenge: their strengths cannot be compared.")
        if table.waiting:
            who = list_some(sorted(table.waiting))
            say(f"Provisional, because attempts wait to be scored or to expire: {who}.")
        if table.frozen:
            say(f"Frozen, so that later attempts do not show: {list_some(table.frozen)}.")
    else:
        say("no rated attempts yet; enter a challenge with: tally attempt enter")


def _make_agent_table(table: RatingTable, k: int) -> Table:
    from tallymark.challenges.agent_names import label_agent

    shares = ("pass@1", f"pass@{k}", f"pass^{k}")
    heads = ("AGENT", "ELO", "WON/DRAWN/LOST", "STRENGTH", "95 %", "FLOOR", *shares)
    rows = []
    for agent in table.fitted.order("strengths"):
        rating, strength = table.elo[agent], table.fitted.strengths[agent]
        rate = table.rates[agent]
        rows.append(
            (
                label_agent(agent, table.names.get(agent, agent)),
                str(rating.rating),
                f"{rating.wins}/{rating.draws}/{rating.losses}",
                f"{format_rating(strength.value)}{'?' if strength.provisional else ''}",
                f"{format_rating(strength.low)} to {format_rating(strength.high)}",
                f"{format_rating(strength.floor)}",
                format_share(rate.pass_at_1),
                format_share(rate.pass_at_k),
                format_share(rate.pass_hat_k),
            )
        )
    return Table(heads, rows, right=("ELO", "STRENGTH", "FLOOR", *shares), wrap=("AGENT",))


def _make_challenge_table(table: RatingTable) -> Table:
    from tallymark.ratings import suggest_tier

    heads = ("CHALLENGE", "DIFFICULTY", "95 %", "TIER", "PLAYS LIKE")
    rows = []
    for name, value in table.fitted.difficulties.items():
        suggested = suggest_tier(value)
        rows.append(
            (
                name,
                f"{format_rating(value.value)}{'?' if value.provisional else ''}",
                f"{format_rating(value.low)} to {format_rating(value.high)}",
                table.tiers.get(name, "-"),
                suggested.tier + ("" if suggested.sure else " (not sure)"),
            )
        )
    return Table(heads, rows, right=("DIFFICULTY",), wrap=("CHALLENGE",))
