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
    from collections.abc import Mapping

    from tallymark.ratings import AttemptRates, EloRating, Fit


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
    from dataclasses import asdict

    from tallymark.app.app import App
    from tallymark.ratings import Counts, attempt_rates, fit, suggest_tier

    with closing(App(db)) as app:
        store, public = app.store, not live
        elo = dict(store.ratings.elo(public=public))
        pairs = store.ratings.pairs(public=public)
        names = store.agents.names(elo)
        waiting = store.ratings.provisional(time.time()) & elo.keys()
        frozen = store.challenges.frozen(time.time()) if public else []
        tiers = {each.name: each.difficulty for each in store.challenges.all()}
    fitted = fit(pairs)
    rates = attempt_rates(Counts.of(pairs), k)
    if as_json:
        print_json(
            {
                "agents": {
                    agent: {
                        "elo": asdict(elo[agent]) | {"provisional": agent in waiting},
                        "strength": asdict(fitted.strengths[agent]),
                        "attempts": asdict(rates[agent]),
                    }
                    for agent in fitted.order("strengths")
                },
                "challenges": {
                    name: asdict(value) | {"tier": tiers.get(name), **asdict(suggest_tier(value))}
                    for name, value in fitted.difficulties.items()
                },
                "comparable": fitted.connected,
                "frozen": frozen,
                **({"names": names} if names else {}),
            }
        )
    elif elo:
        agents = _make_agent_table(elo, fitted, rates, k, names)
        say(agents, "", _make_challenge_table(fitted, tiers), "", LEGEND)
        if not fitted.connected:
            say("Some agents share no challenge: their strengths cannot be compared.")
        if waiting:
            who = list_some(sorted(waiting))
            say(f"Provisional, because attempts wait to be scored or to expire: {who}.")
        if frozen:
            say(f"Frozen, so that later attempts do not show: {list_some(frozen)}.")
    else:
        say("no rated attempts yet; enter a challenge with: tally attempt enter")


def _make_agent_table(
    elo: dict[str, EloRating],
    fitted: Fit,
    rates: dict[str, AttemptRates],
    k: int,
    names: Mapping[str, str],
) -> Table:
    from tallymark.challenges.agent_names import label_agent

    shares = ("pass@1", f"pass@{k}", f"pass^{k}")
    heads = ("AGENT", "ELO", "WON/DRAWN/LOST", "STRENGTH", "95 %", "FLOOR", *shares)
    rows = []
    for agent in fitted.order("strengths"):
        rating, strength, rate = elo[agent], fitted.strengths[agent], rates[agent]
        rows.append(
            (
                label_agent(agent, names.get(agent, agent)),
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


def _make_challenge_table(fitted: Fit, tiers: Mapping[str, str]) -> Table:
    from tallymark.ratings import suggest_tier

    heads = ("CHALLENGE", "DIFFICULTY", "95 %", "TIER", "PLAYS LIKE")
    rows = []
    for name, value in fitted.difficulties.items():
        suggested = suggest_tier(value)
        rows.append(
            (
                name,
                f"{format_rating(value.value)}{'?' if value.provisional else ''}",
                f"{format_rating(value.low)} to {format_rating(value.high)}",
                tiers.get(name, "-"),
                suggested.tier + ("" if suggested.sure else " (not sure)"),
            )
        )
    return Table(heads, rows, right=("DIFFICULTY",), wrap=("CHALLENGE",))
