"""A process whose threads all do the same at once; the tests start several.

A race is a line of JSON: URL, tenant, action, attempt, how many threads. It says `ready`, waits for
a line, then lets all threads go, and prints what each got as JSON. Then it waits for the next race.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.store.contest_samples import PAYLOAD, an_outcome, quick_store

from tallymark.challenges.attempt import Evaluation, Metrics
from tallymark.errors import InvalidInput
from tallymark.store import Store


def enter(store: Store, _: str) -> str:
    return store.attempts.enter("sums", "alice", at=10.0, seed=1).id


def submit(store: Store, attempt: str) -> str:
    return store.attempts.submit(attempt, "alice", PAYLOAD, at=11.0).state


def submit_and_finish(store: Store, attempt: str) -> str:
    submit(store, attempt)
    return finish(store, attempt)


def finish(store: Store, attempt: str) -> str:
    done = store.attempts.finish(attempt, Evaluation(), an_outcome(5.0), at=12.0, verified=False)
    return "scored" if done else "too late"


def report(store: Store, _: str) -> str:
    try:
        return store.attempts.report("sums", "alice", PAYLOAD, Metrics(), at=10.0).id
    except InvalidInput:
        return "refused"


def play(store: Store, _: str) -> str:
    """As an agent of its own, at the same challenge as all others."""
    agent = f"agent-{os.getpid()}-{threading.get_ident()}"
    attempt = store.attempts.report("sums", agent, PAYLOAD, Metrics(), at=10.0)
    return finish(store, attempt.id)


def expire(store: Store, _: str) -> str:
    return str(store.attempts.expire(1e6))


def void(store: Store, attempt: str) -> str:
    return str(store.attempts.void(attempt, at=13.0, reason="a race").voided_at)


def unvoid(store: Store, attempt: str) -> str:
    return str(store.attempts.unvoid(attempt, at=14.0, reason="a race").voided_at)


def disqualify(store: Store, _: str) -> str:
    store.disqualifications.disqualify("alice", at=13.0, reason="a race")
    return "out"


def reinstate(store: Store, _: str) -> str:
    store.disqualifications.reinstate("alice", at=14.0, reason="a race")
    return "in"


def submit_and_die(store: Store, attempt: str) -> str:
    submit(store, attempt)
    os.kill(os.getpid(), signal.SIGKILL)
    return "still alive"


ACTIONS: dict[str, Callable[[Store, str], str]] = {
    each.__name__: each
    for each in (
        enter,
        submit,
        submit_and_finish,
        finish,
        report,
        play,
        expire,
        void,
        unvoid,
        disqualify,
        reinstate,
        submit_and_die,
    )
}


def race(url: str, tenant: str, action: str, attempt: str, count: int) -> None:
    together = threading.Barrier(count)
    with quick_store(url, tenant) as store, ThreadPoolExecutor(count) as pool:
        store.challenges.all()

        def run(_: int) -> str:
            together.wait(600)
            return ACTIONS[action](store, attempt)

        print("ready", flush=True)  # noqa: T201
        sys.stdin.readline()
        print(json.dumps(list(pool.map(run, range(count)))), flush=True)  # noqa: T201


if __name__ == "__main__":
    while line := sys.stdin.readline():
        race(*json.loads(line))
