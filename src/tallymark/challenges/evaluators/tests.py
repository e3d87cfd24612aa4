"""`tests`: submitted code run against test cases, in a new sandbox that the answers never enter."""

from __future__ import annotations

import builtins
import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.challenge_data import ChallengeData, load_challenge_data
from tallymark.challenges.evaluators.evaluator_kind import (
    PASS_AT,
    EvaluatorKind,
    FileNameShape,
    SandboxProbe,
    blame_organiser,
    dimension,
    evaluate_unusable,
    limits,
    make_warning,
    metrics_of,
    own_dimensions,
    raw_score,
)
from tallymark.challenges.evaluators.function_calls import (
    TOTAL_S,
    SubmittedProgram,
    TimeLeft,
    call_functions,
)
from tallymark.challenges.evaluators.program_cases import ProgramCase, parse_cases, read_cases
from tallymark.challenges.organiser_script import add_public_data
from tallymark.documents.shapes import DurationShape, Key, TextShape
from tallymark.errors import InvalidInput, Problem
from tallymark.sandbox import Limits
from tallymark.text import format_seconds

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.evaluators.evaluator_kind import (
        EvaluationSetting,
        ProbedCopy,
        Submitted,
    )


def check(challenge: Challenge, folder: Path) -> list[Problem]:
    """Are there cases, and is code submitted?"""
    options = EVALUATOR.fill(challenge)
    problems = []
    if challenge.submission.format not in ("files", "text"):
        hint = "write submission: {format: files}"
        problems.append(Problem("tests need code, and none is submitted", hint=hint))
    scored = options["dimension"]
    problems += [
        Problem(f"tests score {scored!r} alone, and {key!r} has a weight too")
        for key in own_dimensions(challenge)
        if key != scored
    ]
    if "cases" in options:
        read_cases(folder / options["cases"])
    elif challenge.generate is None:
        hint = "name a file under `cases`, or make them with `data: {generate: generate.py}`"
        problems.append(Problem("there are no test cases", hint=hint))
    return problems


def refuse(answer: Any, challenge: Challenge, _: Path) -> None:
    """Files without the one that is run or called."""
    entry = EVALUATOR.fill(challenge)["entry"]
    if isinstance(answer, Mapping) and entry not in answer:
        raise InvalidInput(
            f"the submission has no file {entry}",
            hint=f"name the file {entry}, or submit a folder that has it",
        )


def evaluate(submitted: Submitted, setting: EvaluationSetting) -> Evaluation:
    """1000 for all cases passed, in proportion for fewer."""
    challenge = setting.challenge
    options = EVALUATOR.fill(challenge)
    entry = options["entry"]
    code = submitted.answer
    files = {entry: code} if isinstance(code, str) else code
    if not isinstance(files, Mapping):
        raise InvalidInput("tests need code: write submission: {format: files}")
    if entry not in files:
        return evaluate_unusable(submitted, challenge, f"the submission has no file {entry}")
    data = load_challenge_data(challenge, setting.folder, submitted.seed, setting.policy)
    with blame_organiser(challenge):
        cases = _load_cases(challenge, setting.folder, data)
    program = SubmittedProgram(
        files=add_public_data(files, data.public),
        entry=entry,
        time_s=options["time"],
        left=TimeLeft(options["total"]),
        memory_mb=options["memory"],
        packages=options["packages"],
        policy=setting.policy,
    )
    warnings: list[dict[str, Any]] = []
    passed = _find_passed(program, cases, warnings)
    if program.left.is_used_up:
        spent = f"the {format_seconds(options['total'])} for all cases together were used up"
        warnings.append(make_warning(f"{spent}: cases that were not run by then have failed"))
    result = raw_score(Fraction(1000 * len(passed), len(cases)))
    return Evaluation(
        metrics=metrics_of(
            submitted,
            succeeded=result >= options["pass_at"],
            more={"tests_passed": float(len(passed)), "tests_total": float(len(cases))},
        ),
        dimensions={options["dimension"]: result},
        warnings=tuple(warnings),
        details={
            "cases": [
                {"name": case.name, "passed": index in passed} for index, case in enumerate(cases)
            ]
        },
    )


def _load_cases(challenge: Challenge, folder: Path, data: ChallengeData) -> list[ProgramCase]:
    named = challenge.evaluator.options.get("cases")
    if named is not None:
        return read_cases(folder / named)
    return parse_cases(data.truth, challenge.generate or "generate.py")


def _find_passed(
    program: SubmittedProgram, cases: list[ProgramCase], told: list[dict[str, Any]]
) -> set[int]:
    """The indices of the cases that passed."""
    calls = {index: case for index, case in enumerate(cases) if case.call is not None}
    passed = {
        index
        for index, case in enumerate(cases)
        if case.call is None and not program.left.is_used_up and _run_case(program, case)
    }
    if not calls:
        return passed
    called = call_functions(program, calls)
    if called.not_loaded is not None:
        # Its own words could carry the cases' inputs out; the kind of a known exception cannot.
        known = hasattr(builtins, called.not_loaded)
        why = f" ({called.not_loaded})" if known else ""
        told.append(make_warning(f"{program.entry} could not be imported{why}"))
    return passed | {index for index, value in called.values.items() if cases[index].accepts(value)}


def _run_case(program: SubmittedProgram, case: ProgramCase) -> bool:
    """One program run, in a sandbox of its own."""
    command = ["python", program.entry, *(str(argument) for argument in case.args)]
    outcome = program.run(command, case.stdin, Limits(wall_s=program.time_s))
    ended_well = outcome.stopped is None and outcome.exit_code == case.exit
    return ended_well and case.prints(outcome.stdout.decode("utf-8", "replace"))


def _probe(options: Mapping[str, Any], copy: ProbedCopy) -> SandboxProbe:
    """Each place is a case that passes when nothing was found."""
    cases: list[dict[str, Any]] = [
        {"name": place, "call": f"probe_{place}", "args": [str(copy.folder)], "value": []}
        for place in copy.places
    ]
    cases.append({"name": "ran", "call": "has_run", "value": True})
    # It cannot pass: its value is there so that the cases themselves, the truth, hold the mark.
    cases.append({"name": "marked", "call": "has_run", "value": copy.mark})
    (copy.folder / "marked.json").write_text(json.dumps(cases), encoding="utf-8")

    def read_clean(evaluation: Evaluation) -> set[str] | None:
        told = evaluation.details.get("cases", [])
        passed = {each["name"] for each in told if each["passed"]}
        return passed if "ran" in passed else None

    return SandboxProbe(
        options={**options, "cases": "marked.json", "time": copy.time_s, "total": TOTAL_S},
        files={options["entry"]: copy.program},
        read_clean=read_clean,
    )


EVALUATOR = EvaluatorKind(
    help="runs submitted code against test cases",
    options={
        "cases": Key(FileNameShape(secret=True), "A YAML or JSON file with the test cases."),
        "entry": Key(
            TextShape(), "The submitted file that is run or called.", default="solution.py"
        ),
        "dimension": dimension("correctness"),
        "pass_at": PASS_AT,
        "total": Key(DurationShape(), "How long all cases together may take.", default=TOTAL_S),
        **limits(time_s=2.0, memory_mb=256),
    },
    refuse=refuse,
    check=check,
    evaluate=evaluate,
    runs_code=True,
    probe=_probe,
)
