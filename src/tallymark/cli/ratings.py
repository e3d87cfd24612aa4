"""`tally ratings`: how strong agents are, and how hard challenges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.cli.app_session import Db, Live, Server, open_resources
from tallymark.cli.streams import print_json
from tallymark.text import Table, format_rating, format_share, list_some, say

if TYPE_CHECKING:
    from tallymark.ratings import AttemptRates, RatingEstimate
    from tallymark.service.ratings import Difficulty, Rating

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
    with open_resources(db, server) as tally:
        first = tally.ratings.list(k=k, live=live)
        found = list(first)
        challenges = list(tally.ratings.challenges(live=live))
    if as_json:
        import msgspec

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
    from tallymark.challenges.agent_names import label_agent

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
