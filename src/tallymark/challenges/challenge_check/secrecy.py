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
from tallymark.challenges.challenge_check.challenge_report import CheckFinding

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.challenge_check.challenge_trial import Trial
    from tallymark.challenges.challenge_data import ChallengeData

PROBE = Path(truth_probe.__file__)
PROBED_PLACES = ("files", "environment", "processes", "descriptors", "memory")
"""Where the probe looks; each is a function `probe_KIND` of it that lists what it found."""
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
    kind = trial.challenge.evaluator.type
    if not (kind == "tests" or "run" in trial.challenge.evaluator.options):
        yield CheckFinding("ok", _WHAT, "no submitted code is run")
        return
    mark = f"tally-mark-{secrets.token_hex(16)}"
    with tempfile.TemporaryDirectory(prefix="tally-check-") as made:
        folder = Path(made) / "challenge"
        shutil.copytree(trial.folder, folder)
        (folder / "marked.txt").write_text(mark, encoding="utf-8")
        probe = _probe_by_tests if kind == "tests" else _probe_by_script
        places = probe(trial, folder, mark)
    if isinstance(places, str):
        yield CheckFinding("problem", _WHAT, f"the sandbox could not be probed: {places}")
    elif places:
        said = ", ".join(places)
        yield CheckFinding("problem", _WHAT, f"submitted code can read what it must not: {said}")
    else:
        *others, last = PROBED_PLACES
        said = f"submitted code found no truth in {', '.join(others)} or {last}"
        yield CheckFinding("ok", _WHAT, said)


def _probe_by_tests(trial: Trial, folder: Path, mark: str) -> list[str] | str:
    """Each kind is a case that passes when nothing was found."""
    cases: list[dict[str, Any]] = [
        {"name": kind, "call": f"probe_{kind}", "args": [str(folder)], "value": []}
        for kind in PROBED_PLACES
    ]
    cases.append({"name": "ran", "call": "has_run", "value": True})
    # It cannot pass: its value is there so that the cases themselves, the truth, hold the mark.
    cases.append({"name": "marked", "call": "has_run", "value": mark})
    (folder / "marked.json").write_text(json.dumps(cases), encoding="utf-8")
    options = {**trial.challenge.evaluator.options, "cases": "marked.json", "time": _PROBE_TIME_S}
    copy = _copy_trial(trial, folder, "tests", options)
    entry = options.setdefault("entry", "solution.py")
    evaluation = copy.evaluation({entry: PROBE.read_text(encoding="utf-8")}, 1)
    passed = {each["name"]: each["passed"] for each in evaluation.details.get("cases", [])}
    if not passed.get("ran"):
        return evaluation.error or "the probe did not run"
    return [kind for kind in PROBED_PLACES if not passed.get(kind)]


def _probe_by_script(trial: Trial, folder: Path, mark: str) -> list[str] | str:
    """A script of ours hands on what the submitted program printed."""
    script = (
        f"# {mark}\n"
        "def evaluate(submission, truth, data):\n"
        '    return {"details": {"printed": data["run"]["stdout"]}}\n'
    )
    (folder / "marked.py").write_text(script, encoding="utf-8")
    (folder / "marked.json").write_text(json.dumps({"truth": mark}), encoding="utf-8")
    given = trial.challenge.evaluator.options
    run = {
        **given["run"],
        "command": ["python", "probe.py", str(folder)],
        "time": _PROBE_TIME_S,
    }
    options = {**given, "script": "marked.py", "truth": "marked.json", "run": run}
    copy = _copy_trial(trial, folder, "script", options)
    evaluation = copy.evaluation({"probe.py": PROBE.read_text(encoding="utf-8")}, 1)
    try:
        found = json.loads(evaluation.details.get("printed", ""))
    except ValueError:
        return evaluation.error or "the probe did not run"
    return [kind for kind in PROBED_PLACES if found.get(kind) != []]


def _copy_trial(trial: Trial, folder: Path, kind: Any, options: dict[str, Any]) -> Trial:
    challenge = msgspec.structs.replace(
        trial.challenge,
        evaluator=Evaluator(type=kind, options=options),
        submission=msgspec.structs.replace(
            trial.challenge.submission, format="files", schema=None, max_bytes=1_000_000
        ),
        generate=None,
        version=folder.name,
    )
    return replace(trial, challenge=challenge, folder=folder, known={})


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
