"""`script`: the organiser's own `evaluate(submission, truth, data)`, in the sandbox.

With `run`, the submitted files run first, in a sandbox of their own; the script gets what they
printed, and never shares a sandbox with them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.challenge_data import load_challenge_data
from tallymark.challenges.evaluators.evaluator_kind import (
    MEASURED_DIMENSIONS,
    EvaluatorKind,
    SandboxProbe,
    fill_options,
    make_warning,
    metrics_of,
)
from tallymark.challenges.evaluators.evaluator_options import TRUTH, FileNameShape, limits
from tallymark.challenges.organiser_script import add_public_data, call_script, run_limited
from tallymark.documents.shapes import Key, ListShape, RecordShape, TextShape
from tallymark.errors import InvalidInput, Problem, suggest
from tallymark.sandbox import Limits
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.evaluators.evaluator_kind import (
        EvaluationSetting,
        ProbedCopy,
        Submitted,
    )

KEYS = ("dimensions", "metrics", "succeeded", "warnings", "details")
METRICS = ("rating", "tokens_total", "cost", "calls")


def check(challenge: Challenge, folder: Path) -> list[Problem]:  # noqa: ARG001 (its files are there)
    """Submitted files can only be run where files are submitted."""
    if "run" in challenge.evaluator.options and challenge.submission.format != "files":
        hint = "write submission: {format: files}"
        return [Problem("`run` needs submitted files", hint=hint)]
    return []


def evaluate(submitted: Submitted, setting: EvaluationSetting) -> Evaluation:
    """What the script finds; what it does wrong is the organiser's to mend."""
    challenge = setting.challenge
    options = EVALUATOR.fill(challenge)
    data = load_challenge_data(challenge, setting.folder, submitted.seed, setting.policy)
    more: dict[str, Any] = {"public": data.public, "seed": submitted.seed}
    if "run" in options:
        files = add_public_data(submitted.answer, data.public)
        more["run"] = _run_submitted(options["run"], files, setting)
    found = call_script(
        setting.folder,
        options["script"],
        "evaluate",
        [submitted.answer, data.truth, more],
        time_s=options["time"],
        memory_mb=options["memory"],
        packages=options["packages"],
        policy=setting.policy,
    )
    problems = list(_find_problems(found))
    if problems:
        raise InvalidInput([Problem(f"evaluate() of {options['script']}: {p}") for p in problems])
    return _read_evaluation(found, submitted)


def _run_submitted(
    given: Mapping[str, Any], files: dict[str, str], setting: EvaluationSetting
) -> dict[str, Any]:
    """How the submitted program ended, and what it printed."""
    options = fill_options(_RUN_LIMITS, given)
    outcome = run_limited(
        options["command"],
        files=files,
        stdin=options.get("stdin", ""),
        limits=Limits(wall_s=options["time"], memory_mb=options["memory"]),
        packages=options["packages"],
        policy=setting.policy,
    )
    return {
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "stopped": outcome.stopped,
        "stdout": outcome.stdout.decode("utf-8", "replace"),
        "stderr": outcome.stderr.decode("utf-8", "replace"),
    }


def _find_problems(found: object) -> Iterator[str]:
    """What is wrong with a script's answer."""
    if not isinstance(found, dict):
        yield f"it gives a mapping with {', '.join(KEYS)}, not {show_value(found)}"
        return
    for key, value in found.items():
        if key not in KEYS:
            near = suggest(key, KEYS)
            yield f"there is no key {key!r}" + (f"; did you mean {near!r}?" if near else "")
        elif value is not None and not _TYPES[key][0](value):
            yield f"{key} must be {_TYPES[key][1]}, not {show_value(value)}"
    for key in MEASURED_DIMENSIONS & _get_mapping(found, "dimensions").keys():
        yield f"the dimension {key!r} is measured by the server, not scored by a script"


def _read_evaluation(found: dict[str, Any], submitted: Submitted) -> Evaluation:
    metrics = _get_mapping(found, "metrics")
    known = {name: metrics[name] for name in METRICS if metrics.get(name) is not None}
    more = {name: value for name, value in metrics.items() if name not in METRICS}
    return Evaluation(
        metrics=metrics_of(submitted, succeeded=bool(found.get("succeeded")), **known, more=more),
        dimensions={key: float(value) for key, value in _get_mapping(found, "dimensions").items()},
        warnings=tuple(_read_warning(each) for each in found.get("warnings") or ()),
        details=_get_mapping(found, "details"),
    )


def _get_mapping(found: dict[str, Any], key: str) -> dict[str, Any]:
    value = found.get(key)
    return value if isinstance(value, dict) else {}


def _read_warning(given: Any) -> dict[str, Any]:
    return make_warning(given) if isinstance(given, str) else make_warning(**given)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_warning(value: object) -> bool:
    if isinstance(value, str):
        return True
    texts = ("message", "severity", "dimension")
    return (
        isinstance(value, dict)
        and isinstance(value.get("message"), str)
        and value.get("severity", "warning") in ("warning", "error")
        and all(key in texts and isinstance(text, str | None) for key, text in value.items())
    )


def _are_numbers(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "dimensions": (_are_numbers, "a mapping of finite numbers"),
    "metrics": (
        lambda value: (
            isinstance(value, dict)
            and all(each is None or _is_number(each) for each in value.values())
        ),
        "a mapping of finite numbers",
    ),
    "succeeded": (lambda value: isinstance(value, bool), "true or false"),
    "warnings": (
        lambda value: isinstance(value, list) and all(map(_is_warning, value)),
        "a list of texts, or of {message, severity, dimension}",
    ),
    "details": (lambda value: isinstance(value, dict), "a mapping"),
}


def _probe(options: Mapping[str, Any], copy: ProbedCopy) -> SandboxProbe | None:
    """A script of ours hands on what the submitted program printed."""
    if "run" not in options:
        return None
    script = (
        f"# {copy.mark}\n"
        "def evaluate(submission, truth, data):\n"
        '    return {"details": {"printed": data["run"]["stdout"]}}\n'
    )
    (copy.folder / "marked.py").write_text(script, encoding="utf-8")
    (copy.folder / "marked.json").write_text(json.dumps({"truth": copy.mark}), encoding="utf-8")
    command = ["python", "probe.py", str(copy.folder)]
    run = {**options["run"], "command": command, "time": copy.time_s}

    def read_clean(evaluation: Evaluation) -> set[str] | None:
        try:
            found = json.loads(evaluation.details.get("printed", ""))
        except ValueError:
            return None
        return {place for place in copy.places if found.get(place) == []}

    return SandboxProbe(
        options={**options, "script": "marked.py", "truth": "marked.json", "run": run},
        files={"probe.py": copy.program},
        read_clean=read_clean,
    )


_RUN_LIMITS = limits(time_s=5.0, memory_mb=512)
_RUN = RecordShape(
    "a mapping with 'command'",
    {
        "command": Key(ListShape(TextShape("a word"), 1), "Such as [python, main.py].", True),
        "stdin": Key(TextShape(may_be_empty=True), "What it reads."),
        **_RUN_LIMITS,
    },
)
EVALUATOR = EvaluatorKind(
    help="calls your own `evaluate(submission, truth, data)`",
    options={
        "script": Key(
            FileNameShape(secret=True), "The file with `evaluate(submission, truth, data)`.", True
        ),
        "truth": TRUTH,
        "run": Key(_RUN, "Runs the submitted files first; what they print goes to the script."),
        **limits(time_s=10.0, memory_mb=512),
    },
    check=check,
    evaluate=evaluate,
    runs_code=True,
    probe=_probe,
)
