"""Play the example challenges with the sample submissions in their folders.

The samples were written for these examples; no model made them. Each says how long its agent took
and which seed it had, so this plays on a clock and with seeds of its own. Everything else is what
`tally challenge publish`, `tally attempt` and `tally versus` do.

    python examples/challenges/play.py        keeps them where TALLY_DB says
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from tallymark.challenges.attempt import Attempt, Metrics
from tallymark.documents.reader import read_plain
from tallymark.service import Competition
from tallymark.store import open_store

HERE = Path(__file__).parent
AN_HOUR = 3600.0


class Table:
    """A clock and a seed that are set explicitly."""

    def __init__(self) -> None:
        self.now = time.time() - 24 * AN_HOUR
        self.seed = 0


def main() -> None:
    table = Table()
    with open_store(os.environ.get("TALLY_DB")) as store:
        competition = Competition(store, clock=lambda: table.now, draw=lambda: table.seed)
        try:
            for folder in sorted(each.parent for each in HERE.glob("*/challenge.*")):
                play(competition, table, folder)
        finally:
            competition.close()


def play(competition: Competition, table: Table, folder: Path) -> None:
    """Play one challenge: its samples in alphabetical order, an hour apart."""
    challenge = competition.publish(folder)
    print(f"{challenge.title} ({challenge.name})")
    if challenge.kind == "versus":
        for path in sorted(folder.glob("samples/*.txt")):
            side, _, player = path.stem.partition("-")
            arena = competition.arena(challenge.name)
            arena.submit(f"sample-{player}", "red" if side == "red" else "blue", path.read_text())
            print(f"  sample-{player} for {side}")
        return
    for path in sorted(folder.glob("samples/*.yaml")):
        table.now += AN_HOUR
        done = play_sample(competition, table, challenge.name, read_plain(path, "sample"))
        outcome = done.outcome
        if outcome is not None and outcome.score is not None:
            print(f"  {done.agent}: {outcome.score:g} ({outcome.result})")


def play_sample(
    competition: Competition, table: Table, name: str, sample: dict[str, Any]
) -> Attempt:
    """Enter, let the time of the sample pass, submit."""
    if competition.store.challenges.get(name).evaluator.type == "reported":
        return competition.report(name, sample["agent"], Metrics(**sample["submission"]))
    table.seed = sample.get("seed", 0)
    entry = competition.enter(name, sample["agent"])
    table.now += sample["elapsed_s"]
    return competition.submit(entry.attempt.id, sample["agent"], sample["submission"])


if __name__ == "__main__":
    main()
