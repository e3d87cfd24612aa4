"""Scorers and judges that rules of tests name."""

from __future__ import annotations

import json
from typing import Any

from tallymark import EvalContext, Score, scorer
from tallymark.errors import ModelError

_asked: list[str] = []


@scorer
def raising(ctx: EvalContext) -> float:
    """Never scores."""
    raise ValueError("not today")


@scorer(gives=["kind", "short"])
def several(ctx: EvalContext) -> list[Score]:
    """Two scores of one call."""
    return [Score(0.25, name="kind"), Score(0.75, name="short")]


def judge_well(prompt: str) -> dict[str, Any]:
    """A verdict for a cent."""
    return _answer("met")


def judge_by_number(prompt: str) -> dict[str, Any]:
    """By what the answer says."""
    labels = ("not met", "partly met", "met")
    return _answer(next(label for n, label in enumerate(labels) if f"answer {n}" in prompt))


def refuse_once(prompt: str) -> dict[str, Any]:
    """Does not answer the first time."""
    if prompt not in _asked:
        _asked.append(prompt)
        raise ModelError("the provider is down", hint="wait for it")
    return _answer("met")


def _answer(label: str) -> dict[str, Any]:
    said = json.dumps({"reasoning": "because", "choice": label})
    return {"output": said, "input_tokens": 100, "output_tokens": 10, "cost": 0.01}
