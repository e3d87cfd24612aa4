"""Challenges in folders, and attempts at them, for tests."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import msgspec

from tallymark.challenges.attempt import Attempt, Evaluation
from tallymark.challenges.challenge import Challenge
from tallymark.challenges.challenge_file import load_challenge
from tallymark.challenges.evaluators import EvaluationSetting, Submitted, evaluate

ENTERED = 1_700_000_000.0


def folder_with(folder: Path, text: str, files: dict[str, str] | None = None) -> Path:
    """A challenge's folder with `challenge.yaml` and other files, by name."""
    for name, content in {"challenge.yaml": text, **(files or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(content), encoding="utf-8")
    return folder


def challenge_in(folder: Path, text: str, files: dict[str, str] | None = None) -> Challenge:
    return load_challenge(folder_with(folder, text, files))


def judged(challenge: Challenge, folder: Path, answer: Any, **known: Any) -> Evaluation:
    """The evaluation of an answer."""
    submitted = Submitted(**{"answer": answer, "seed": 7, "elapsed_ms": 1000, **known})
    return evaluate(submitted, EvaluationSetting(challenge=challenge, folder=folder))


def attempt_at(challenge: Challenge, **changes: Any) -> Attempt:
    """A submitted attempt by alice, made in 100 seconds."""
    attempt = Attempt(
        id="a1",
        challenge=challenge.name,
        version=challenge.version,
        agent="alice",
        number=1,
        state="submitted",
        seed=7,
        entered_at=ENTERED,
        expires_at=ENTERED + challenge.time_limit_s,
        submitted_at=ENTERED + 100,
    )
    return msgspec.structs.replace(attempt, **changes)
