"""Which cases of two versions of a suite are the same: by name or, without one, by what they ask.

So evals may be moved about between two versions of a suite.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallymark.runs.run import Run


def list_prompts(run: Run) -> dict[str, str]:
    """What the unnamed cases of a suite in YAML ask; traces have their ids for names."""
    if "door" in run.record.tags:
        return {}
    return {r.case: r.input for r in run.results if r.input and r.case.startswith("#")}


def pair_unnamed(known: Mapping[str, str], asked: Mapping[str, str]) -> dict[str, str | None]:
    """For cases that were asked, the keys of those among the `known` that ask the same.

    None is a case whose own key another has; one that is not there keeps its key. Both are given
    with their prompts.
    """
    # Where a prompt stands several times, a case that has not moved keeps its place.
    keys = {case: case for case, prompt in asked.items() if known.get(case) == prompt}
    free: dict[str, list[str]] = {}
    for case, prompt in reversed([*known.items()]):
        if case not in keys:
            free.setdefault(prompt, []).append(case)
    for case, prompt in asked.items():
        if case not in keys and (places := free.get(prompt)):
            keys[case] = places.pop()
    taken = set(keys.values())
    return keys | {case: None for case in asked if case not in keys and case in taken}
