"""`script`: the organiser's own `evaluate(submission, truth, data)`, in the sandbox.

With `run`, the submitted files run first, in a sandbox of their own; the script gets what they
printed, and never shares a sandbox with them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.challenge_data import load_challenge_data
from tallymark.challenges.evaluators.evaluator_kind import (
    MEASURED_DIMENSIONS,
    TRUTH,
    EvaluatorKind,
    FileNameShape,
    SandboxProbe,
    fill_options,
    limits,
    make_warning,
    metrics_of,
    read_metric,
)
from tallymark.challenges.organiser_script import add_public_data, call_script, run_limited
from tallymark.documents.shapes import (
    AnyShape,
    ChoiceShape,
    FlagShape,
    Key,
    KindShape,
    ListShape,
    MapShape,
    NumberShape,
    OrNullShape,
    RecordShape,
    TextShape,
    read_value,
)
from tallymark.documents.yaml_parser import MappingNode
from tallymark.errors import InvalidInput, Place, Problem
from tallymark.sandbox import Limits

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.evaluators.evaluator_kind import (
        EvaluationSetting,
        ProbedCopy,
        Submitted,
    )

METRICS = ("rating", "tokens_total", "cost", "calls")


def check(challenge: Challenge, folder: Path) -> list[Problem]:  # noqa: ARG001 (its files are there)
    """Submitted files can only be run where files are submitted."""
    if "run" in challenge.evaluator.options and challenge.submission.format != "files":
        hint = "write submission: {format: files}"
        return [Problem("`run` needs submitted files", hint=hint)]
    return []


def evaluate(submitted: Submitted, setting: EvaluationSetting) -> Evaluation:
    """Run the script; its mistakes are the organiser's to fix."""
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
    return _read_evaluation(found, f"evaluate() of {options['script']}", submitted)


def _run_submitted(
    given: Mapping[str, Any], files: dict[str, str], setting: EvaluationSetting
) -> dict[str, Any]:
    """Exit and output of the submitted program."""
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


def _read_evaluation(found: Any, where: str, submitted: Submitted) -> Evaluation:
    """A script's answer; null for missing parts."""
    details = found.get("details") if isinstance(found, dict) else None
    if isinstance(details, dict):  # of any content and size
        found = {**found, "details": {}}
    if isinstance(found, dict):
        found = {key: value for key, value in found.items() if value is not None}
    given = read_value(_ANSWER, found, where)
    metrics, dimensions = given.get("metrics", {}), given.get("dimensions", {})
    if measured := sorted(MEASURED_DIMENSIONS & dimensions.keys()):
        message = f"the dimension {measured[0]!r} is measured by the server, not scored by a script"
        raise InvalidInput(f"{where}: {message}")
    problems: list[Problem] = []
    read = {name: read_metric(name, value, problems) for name, value in metrics.items()}
    if problems:
        raise InvalidInput([replace(each, place=Place(source=where)) for each in problems])
    known = {name: value for name, value in read.items() if name in METRICS and value is not None}
    more = {name: value for name, value in read.items() if name not in METRICS}
    return Evaluation(
        metrics=metrics_of(submitted, succeeded=given.get("succeeded", False), **known, more=more),
        dimensions={key: float(value) for key, value in dimensions.items()},
        warnings=tuple(
            make_warning(each) if isinstance(each, str) else make_warning(**each)
            for each in given.get("warnings", ())
        ),
        details=details or {},
    )


_WARNING = KindShape(
    scalar=TextShape(may_be_empty=True),
    mapping=RecordShape(
        "a mapping with 'message'",
        {
            "message": Key(TextShape(may_be_empty=True), "What is wrong.", required=True),
            "severity": Key(ChoiceShape(("warning", "error")), "An error scores 0."),
            "dimension": Key(OrNullShape(TextShape()), "The dimension that it is about."),
        },
    ),
)
_ANSWER = RecordShape(
    "a mapping with dimensions, metrics, succeeded, warnings and details",
    {
        "dimensions": Key(MapShape(NumberShape()), "Scores from 0 to 1000."),
        "metrics": Key(MapShape(OrNullShape(NumberShape())), "Numbers for formulas."),
        "succeeded": Key(FlagShape(), "Whether the attempt did."),
        "warnings": Key(ListShape(_WARNING), "Warnings shown to the competitor."),
        "details": Key(AnyShape(MappingNode, "a mapping"), "Details stored with the attempt."),
    },
)


def _probe(options: Mapping[str, Any], copy: ProbedCopy) -> SandboxProbe | None:
    """The built-in script, which passes on the output of the submitted program."""
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
