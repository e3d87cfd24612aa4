"""Can a competitor read the truth: in the public data, or from inside the sandbox?"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.challenge import Evaluator
from tallymark.challenges.challenge_check import truth_probe
from tallymark.challenges.challenge_report import CheckFinding
from tallymark.challenges.evaluators import find_evaluator
from tallymark.challenges.evaluators.evaluator_kind import ProbedCopy

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.challenge_check.challenge_trial import Trial
    from tallymark.challenges.challenge_data import ChallengeData

PROBE = Path(truth_probe.__file__)
PROBED_PLACES = ("files", "environment", "processes", "descriptors", "memory")
"""Places that the probe searches; `probe_KIND` lists its findings in each."""
_PROBE_TIME_S = 20.0
_WHAT = "secrecy"
_SQUEEZED = re.compile(r"[\s\"']+")
_SHORT = 4
"""A value of fewer characters stands in any data by chance."""


def check_public(challenge: Challenge, data: ChallengeData) -> Iterator[CheckFinding]:
    """No file of the challenge's own making is handed out, and no part of the truth as it is."""
    own = {"challenge.yaml", "challenge.yml", "challenge.json"}
    reference = challenge.reference or "\0"
    for name in challenge.public:
        if name in own or name.startswith(("samples/", f"{reference}/")):
            said = f"{name} is public, and competitors must not see it"
            yield CheckFinding("problem", _WHAT, said)
    text = _squeeze("\n".join(_write_value(each) for each in data.public.values()))
    leaks = sorted({path for path, words in _list_pairs(data.truth, "") if words in text})
    if leaks:
        shown = ", ".join(leaks[:5])
        yield CheckFinding("warning", _WHAT, f"the public data holds the truth as it is: {shown}")
    elif data.public:
        yield CheckFinding("ok", _WHAT, "the public data does not hold the truth as it is")


def check_sandbox(trial: Trial) -> Iterator[CheckFinding]:
    """A program that looks for the truth is submitted to a copy, in which the truth is marked."""
    with tempfile.TemporaryDirectory(prefix="tally-check-") as made:
        folder = Path(made) / "challenge"
        shutil.copytree(trial.folder, folder)
        found = _probe_copy(trial, folder)
    if found is None:
        yield CheckFinding("ok", _WHAT, "no submitted code is run")
    elif isinstance(found, str):
        yield CheckFinding("problem", _WHAT, f"the sandbox could not be probed: {found}")
    elif found:
        said = ", ".join(found)
        yield CheckFinding("problem", _WHAT, f"submitted code can read what it must not: {said}")
    else:
        *others, last = PROBED_PLACES
        said = f"submitted code found no truth in {', '.join(others)} or {last}"
        yield CheckFinding("ok", _WHAT, said)


def _probe_copy(trial: Trial, folder: Path) -> list[str] | str | None:
    """Places where the truth was found, or why that is unknown; None without submitted code."""
    kind = find_evaluator(trial.challenge.evaluator.type)
    copy = ProbedCopy(
        folder=folder,
        mark=f"tally-mark-{secrets.token_hex(16)}",
        program=PROBE.read_text(encoding="utf-8"),
        places=PROBED_PLACES,
        time_s=_PROBE_TIME_S,
    )
    (folder / "marked.txt").write_text(copy.mark, encoding="utf-8")
    probe = kind.probe(kind.fill(trial.challenge), copy)
    if probe is None:
        return None
    challenge = msgspec.structs.replace(
        trial.challenge,
        evaluator=Evaluator(type=trial.challenge.evaluator.type, options=probe.options),
        submission=msgspec.structs.replace(
            trial.challenge.submission, format="files", schema=None, max_bytes=1_000_000
        ),
        generate=None,
        version=folder.name,
    )
    marked = replace(trial, challenge=challenge, folder=folder, known={})
    evaluation = marked.evaluation(probe.files, 1)
    clean = probe.read_clean(evaluation)
    if clean is None:
        return evaluation.error or "the probe did not run"
    return [place for place in PROBED_PLACES if place not in clean]


def _list_pairs(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every key of the truth with its value, and every list, as data would write it."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            inner = f"{path}.{key}" if path else str(key)
            if not isinstance(each, Mapping) and len(_squeeze(_write_value(each))) >= _SHORT:
                yield inner, _squeeze(f"{key}:{_write_value(each)}")
            yield from _list_pairs(each, inner)
    elif isinstance(value, list):
        if len(value) > 1 and len(_squeeze(_write_value(value))) >= 2 * _SHORT:
            yield path or "the whole truth", _squeeze(_write_value(value))
        for index, each in enumerate(value):
            yield from _list_pairs(each, f"{path}.{index}" if path else str(index))


def _write_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _squeeze(text: str) -> str:
    """Without spaces and quotes, so that JSON, YAML and plain text look alike."""
    return _SQUEEZED.sub("", text)
