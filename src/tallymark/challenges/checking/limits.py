"""Are the limits of a challenge sane? Nothing here is refused, only pointed out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tallymark.challenges.checking.report import CheckFinding

if TYPE_CHECKING:
    from tallymark.challenges.definition import Challenge

SHORTEST_S = 10.0
LONGEST_S = 7 * 86_400.0
LARGEST_BYTES = 10_000_000
LONGEST_RUN_S = 60.0
MOST_MEMORY_MB = 4096
LONGEST_SCORING_MS = 30_000
_LIMITS = "limits"


def check_limits(challenge: Challenge, now: float | None = None) -> Iterator[CheckFinding]:
    """A warning for each limit that is probably not meant, or one word that all are fine."""
    odd = [
        *_find_odd_times(challenge, time.time() if now is None else now),
        *_find_odd_sizes(challenge),
    ]
    for said in odd:
        yield CheckFinding("warning", _LIMITS, said)
    if not odd:
        detail = f"{challenge.time_limit_s:g} s for an attempt, {_describe_attempts(challenge)}"
        yield CheckFinding("ok", _LIMITS, detail)


def _find_odd_times(challenge: Challenge, now: float) -> Iterator[str]:
    limit, opens, closes = challenge.time_limit_s, challenge.opens_at, challenge.closes_at
    if limit < SHORTEST_S:
        yield f"an attempt has only {limit:g} s, and requests take their time too"
    if limit > LONGEST_S:
        yield f"an attempt may stay open for {limit / 86_400:.1f} days"
    if closes is not None and closes <= now:
        yield "it is closed already, so nobody can enter"
    if closes is not None and opens is not None and closes - opens < limit:
        yield "it is open for less time than one attempt may take"


def _find_odd_sizes(challenge: Challenge) -> Iterator[str]:
    options = challenge.evaluator.options
    runs = [options, options.get("run") or {}]
    if challenge.submission.max_bytes > LARGEST_BYTES:
        yield f"a submission may have {challenge.submission.max_bytes:,} bytes"
    if challenge.evaluator.type in ("tests", "script"):
        for each in runs:
            if each.get("time", 0) > LONGEST_RUN_S:
                yield f"one run may take {each['time']:g} s, and every attempt can use them up"
            if each.get("memory", 0) > MOST_MEMORY_MB:
                yield f"one run may use {each['memory']:,} MB of memory"
    if challenge.scoring.timeout_ms > LONGEST_SCORING_MS:
        yield f"scoring may take {challenge.scoring.timeout_ms / 1000:g} s"
    unlimited = challenge.attempts is None and challenge.attempts_per_day is None
    if unlimited and challenge.evaluator.type != "reported" and challenge.kind == "solo":
        yield "attempts are not limited, so answers can be guessed; write attempts: NUMBER"


def _describe_attempts(challenge: Challenge) -> str:
    in_all = (
        "any number of attempts"
        if challenge.attempts is None
        else (f"{challenge.attempts} attempts")
    )
    daily = challenge.attempts_per_day
    return in_all if daily is None else f"{in_all}, {daily} a day"
