"""A program that reports attempts as fast as it can, and is killed: the tests look what is left.

It prints the key of each report as soon as that is answered. Arguments: URL, tenant, and a word
that no other has.
"""

from __future__ import annotations

import asyncio
import itertools
import sys

from tests.store.contests.test_attempt_writer import a_report

from tallymark.challenges.attempt import Attempt
from tallymark.store import Store, open_store

CLIENTS = 32


async def report(store: Store, word: str, client: int) -> None:
    for number in itertools.count():
        key = f"{word}-{client}-{number}"
        item = a_report(store, f"agent-{client % 8}", float(number % 50), key=key)
        answer = await store.attempts.ado(item)
        if isinstance(answer, Attempt) and answer.state == "scored":
            sys.stdout.write(f"{key}\n")
            sys.stdout.flush()


async def main(url: str, tenant: str, word: str) -> None:
    with open_store(url, tenant=tenant) as store:
        store.start_writer()
        await asyncio.gather(*(report(store, word, client) for client in range(CLIENTS)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
