"""Pairs the cases of two versions of a suite by name or, without one, by prompt.

So cases may be moved between versions of a suite.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallymark.runs.run import Run


def list_prompts(run: Run) -> dict[str, str]:
    """Prompts of the unnamed cases of a YAML suite; traces are named by their ids."""
    if "door" in run.record.tags:
        return {}
    return {r.case: r.input for r in run.results if r.input and r.case.startswith("#")}


def pair_unnamed(known: Mapping[str, str], asked: Mapping[str, str]) -> dict[str, str | None]:
    """Keys of the `known` cases with the same prompt, for each case that ran.

    None is a case whose key belongs to another; a missing one keeps its key. Both are given with
    their prompts.
    """
    # If a prompt occurs several times, a case that has not moved keeps its place.
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
