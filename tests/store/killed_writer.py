"""A program whose children the tests kill: each stores what is missing of a run.

For every line `COUNT` on stdin it forks a child, which prints its process id, stores the cases
below COUNT that are missing, and prints each as soon as it is durable. When the child is gone, the
program prints `gone`. Forking spares the tests twenty starts of Python.
"""

from __future__ import annotations

import os
import sys

from tests.store.run_samples import a_result, a_run

from tallymark.runs.record import CaseResult
from tallymark.store import ResultWriter, open_store


def say(*words: str) -> None:
    sys.stdout.write("".join(f"{each}\n" for each in words))
    sys.stdout.flush()


def acknowledge(results: list[CaseResult]) -> None:
    say(*(each.case for each in results))


def store_missing(path: str, count: int) -> None:
    with open_store(path) as store:
        store.create_run(a_run())
        done = store.result_keys("run")
        with ResultWriter(store, "run", stored=acknowledge) as writer:
            for number in range(count):
                case = f"case-{number}"
                if (case, 0) not in done:
                    writer.put(a_result(case, output=f"answer to {case}"))


def main(path: str) -> None:
    for line in sys.stdin:
        if child := os.fork():
            os.waitpid(child, 0)
            say("\ngone")
        else:
            say(str(os.getpid()))
            store_missing(path, int(line))
            os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
