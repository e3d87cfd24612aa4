"""Generate a log with one intruder, two suspicious but innocent addresses, and normal users."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

PEOPLE = ["ada", "ben", "cleo", "dan", "eve", "finn", "gus", "hana", "ivan", "june", "kit", "lou"]
FILES = [
    f"{kind}-{year}.pdf" for kind in ("budget", "payroll", "plans") for year in range(2027, 2031)
]
MIDNIGHT = datetime(2030, 3, 1, tzinfo=UTC)


def generate(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)  # noqa: S311 (the same night for the same seed)
    intruder, forgetful, scanner = rng.sample([f"203.0.113.{i}" for i in range(1, 255)], 3)
    breached = sorted(rng.sample(PEOPLE, rng.randint(2, 3)))
    stolen = sorted(rng.sample(FILES, rng.randint(2, 4)))

    events = _honest(rng)
    events += _guesses(rng, scanner, rng.sample(PEOPLE, 8), [])
    victim = rng.choice([name for name in PEOPLE if name not in breached])
    start = rng.randint(0, 30_000)
    events += [(start + 20 * i, f"{forgetful} login {victim} failed") for i in range(9)]
    events.append((start + 200, f"{forgetful} login {victim} ok"))

    tried = breached + rng.sample([name for name in PEOPLE if name not in breached], 5)
    attack = _guesses(rng, intruder, tried, breached)
    last = max(second for second, _ in attack)
    attack += [
        (last + 30 * (i + 1), f"{intruder} download {name}") for i, name in enumerate(stolen)
    ]

    lines = sorted(events + attack)
    log = [f"{_time(second)} {what}" for second, what in lines]
    evidence = [number for number, line in enumerate(log, 1) if f" {intruder} " in line]
    return {
        "public": {"access.log": "\n".join(log) + "\n"},
        "truth": {
            "attacker": intruder,
            "first_seen": log[evidence[0] - 1].split()[0],
            "accounts": breached,
            "files": stolen,
            "evidence": evidence,
        },
    }


def _honest(rng: random.Random) -> list[tuple[int, str]]:
    events = []
    for index, name in enumerate(PEOPLE):
        home, at = f"192.0.2.{index + 10}", rng.randint(0, 40_000)
        if rng.random() < 0.4:
            events.append((at - 15, f"{home} login {name} failed"))
        events.append((at, f"{home} login {name} ok"))
        for _ in range(rng.randint(1, 6)):
            at += rng.randint(30, 3000)
            events.append((at, f"{home} download {rng.choice(FILES)}"))
    return [(max(0, at), what) for at, what in events]


def _guesses(
    rng: random.Random, address: str, tried: list[str], found: list[str]
) -> list[tuple[int, str]]:
    """Try each account a few times; the accounts that are broken into come last."""
    at = rng.randint(5_000, 30_000)
    events = []
    for name in sorted(tried, key=lambda each: (each in found, rng.random())):
        for _ in range(rng.randint(1, 4)):
            at += rng.randint(3, 90)
            events.append((at, f"{address} login {name} failed"))
        if name in found:
            at += rng.randint(3, 90)
            events.append((at, f"{address} login {name} ok"))
    return events


def _time(second: int) -> str:
    return (MIDNIGHT + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")
