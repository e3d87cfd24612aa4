"""Clients, commands and tools over a failing network: nothing duplicated, nothing lost.

    python -m scripts.prove_network_faults [--seconds 60] [--seed 1] [--share 0.3]

A server runs in a process of its own; between it and those who ask is `faulty_proxy.py`. Each of
many agents competes, keeps runs, reports and shows spans, by one door after the other; what cannot
be had is asked for again as a person would, with the same key. In the end one who sees past the
proxy counts, and the database is checked as `tally admin check` does.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from scripts.faulty_proxy import FaultyProxy
from scripts.load_clients import (
    DOORS,
    Crowd,
    keep_and_report,
    publish,
    run_by_command,
    write_files,
)
from scripts.server_process import ADMIN_KEY, require_as_logged, serve

from tallymark.client import Client
from tallymark.store import open_store


def count(crowd: Crowd, admin: Client) -> list[str]:
    """What is there, by one who sees past the proxy; what should not be so."""
    wrong = list(crowd.wrong)
    for handle in crowd.agents:
        states = [each.state for each in admin.attempts.list("sums", agent=handle)]
        if states != ["scored"]:
            wrong.append(f"{handle} has attempts {states}")
    runs = [each.model for each in admin.runs.list(suite="storm")]
    if len(runs) != crowd.runs or len(set(runs)) != crowd.runs:
        wrong.append(f"{crowd.runs} runs were kept, and there are {len(runs)}")
    by_command = Counter(each.model for each in admin.runs.list(suite="here"))
    if lost := [model for model in crowd.kept_runs if by_command[model] != 1]:
        wrong.append(f"runs that were kept are not there once: {lost}")
    if twice := [model for model, times in by_command.items() if times > 1]:
        wrong.append(f"runs are there twice: {twice}")
    reports = len(list(admin.attempts.list("speed", agent="ray")))
    if reports != crowd.reports:
        wrong.append(f"{crowd.reports} were reported, and there are {reports}")
    return wrong


def rage(seconds: float, seed: int, share: float) -> tuple[list[str], Crowd]:
    """A storm of so many seconds, and what was wrong after it."""
    rng = random.Random(seed)
    with (
        tempfile.TemporaryDirectory(prefix="tally-storm-") as made,
        serve(f"{made}/tally.db", workers=1) as server,
        FaultyProxy(server.url) as proxy,
        Client(server.url, ADMIN_KEY) as admin,
    ):
        folder = Path(made)
        write_files(folder)
        publish(admin, folder)
        crowd = Crowd(server.url, proxy, folder)
        ends = time.monotonic() + seconds
        proxy.rage(rng, share)
        while time.monotonic() < ends:
            run_by_command(crowd, crowd.runs)
            keep_and_report(crowd, crowd.runs)
            for door, compete in DOORS.items():
                compete(crowd, crowd.add_agent(admin, door))
        proxy.calm()
        wrong = count(crowd, admin)
        try:
            with open_store(f"{made}/tally.db") as store:
                require_as_logged(store, "scores", "boards", "runs")
        except AssertionError as error:
            wrong.append(str(error))
        return wrong, crowd


def judge_faults(seconds: float = 120.0, seed: int = 1, share: float = 0.3) -> tuple[bool, str]:
    """Whether it holds, and what happened."""
    wrong, crowd = rage(seconds, seed, share)
    faults = crowd.proxy.faults
    told = ", ".join(f"{fault} {count}" for fault, count in sorted(faults.items()))
    doors = ", ".join(f"{count} by {door}" for door, count in sorted(crowd.doors.items()))
    runs = crowd.runs + len(crowd.kept_runs)
    body = (
        f"{len(crowd.proxy.asked):,} requests through a network that fails {share:.0%} of them "
        f"(seed {seed}; {told}): {len(crowd.agents)} attempts ({doors}), "
        f"{runs} runs and {crowd.reports} reports, each there once, and the check finds nothing. "
        f"{sum(crowd.refusals.values())} times somebody "
        "was told that it failed, in one sentence, and did the same again.\n"
    )
    body += "".join(f"\n- {each}" for each in wrong) + ("\n" if wrong else "")
    return not wrong, body


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.3)
    given = parser.parse_args()
    holds, body = judge_faults(given.seconds, given.seed, given.share)
    sys.stdout.write(body)
    sys.exit(not holds)


if __name__ == "__main__":
    main()
