"""What can be known of red against blue before anybody plays it: the judge, tried on nonsense."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.challenges.checking.report import CheckFinding
from tallymark.challenges.versus.judge import judge_of
from tallymark.challenges.versus.pairing import require_versus
from tallymark.challenges.versus.verdict import Meeting

if TYPE_CHECKING:
    from tallymark.challenges.definition import Challenge
    from tallymark.sandbox import Policy

_TEXTS = ("", "x", "{}", "[1, 2", "null", "\N{PILE OF POO}" * 50, "lorem ipsum " * 100)
_VALUES: tuple[Any, ...] = (None, True, 7, "x", [], {}, {"x": [None]}, [[1], {"y": ""}])


def check_versus(
    challenge: Challenge, folder: Path, policy: Policy | None, judge_model: str | None
) -> Iterator[CheckFinding]:
    """A judge has to answer whatever is submitted, the same way every time, in any order."""
    versus = require_versus(challenge)
    if versus.judge.type == "judge" and judge_model is None:
        yield CheckFinding(
            "ok", "judge", "not asked, because that may cost money; name one with --judge"
        )
        return
    judge = judge_of(challenge, folder, policy=policy, judge_model=judge_model)
    meetings = [
        Meeting(attack, defence, category)
        for attack, defence in _pair_junk(challenge.submission.format)
        for category in versus.categories
    ]
    first = judge.rule(meetings)
    failed = [each.error for each in first if each.error is not None]
    if failed:
        counted = f"{len(failed)} of {len(meetings)} meetings of nonsense have no verdict"
        yield CheckFinding("problem", "judge", f"{counted}: {failed[0]}")
    else:
        yield CheckFinding("ok", "judge", f"it judges all of {len(meetings)} meetings of nonsense")
    if judge.rule(meetings[::-1])[::-1] == first:
        yield CheckFinding("ok", "determinism", "the same again, in the other order")
    else:
        yield CheckFinding(
            "problem", "determinism", "judged again in another order, verdicts differ"
        )


def _pair_junk(form: str) -> Iterator[tuple[Any, Any]]:
    """Every kind of nonsense, once on each side."""
    kinds: tuple[Any, ...] = _VALUES if form == "json" else _TEXTS
    if form == "files":
        kinds = tuple({"main.py": text} for text in _TEXTS)
    yield from zip(kinds, kinds[1:] + kinds[:1], strict=True)
