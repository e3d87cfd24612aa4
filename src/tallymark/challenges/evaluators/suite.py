"""`suite`: runs a suite against the agent at the submitted address.

A case without an answer from the agent failed. Tokens and cost reported by the address are not
trusted: tokens are counted here, and the cost follows from the suite's pricing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.evaluators.evaluator_kind import (
    EVALUATION_FAILED,
    NAMES,
    EvaluatorKind,
    FileNameShape,
    blame_organiser,
    dimension,
    evaluate_unusable,
    find_inner_file,
    metrics_of,
    own_dimensions,
)
from tallymark.challenges.submitted_agents import (
    AGENT_KINDS,
    ALWAYS_REFUSED,
    check_agent,
    open_agent,
)
from tallymark.documents.shapes import AnyShape, DurationShape, Key, NumberShape
from tallymark.documents.yaml_parser import MappingNode
from tallymark.errors import InvalidInput, OrganiserFault, Problem, ScorerError
from tallymark.judging.judge_dialogue import IT_SAID, NOT_ANSWERED
from tallymark.judging.judge_model import JudgeModel, open_judge, open_memory
from tallymark.models.egress_policy import find_egress
from tallymark.models.model_kinds import ModelReference
from tallymark.runs.tally import Tally
from tallymark.scoring import Scorer, load_scorer
from tallymark.scoring.scorer_registry import ScorerReference

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.evaluators.evaluator_kind import EvaluationSetting, Submitted
    from tallymark.judging.judge_dialogue import JudgeMemory
    from tallymark.models import Model
    from tallymark.runs.record import CaseResult
    from tallymark.suites.resolved_suite import FilledSuite

_SHOWN_CASES = 200


def check(challenge: Challenge, folder: Path) -> list[Problem]:
    """Problems of the options, the suite, and the allowed agents."""
    options = EVALUATOR.fill(challenge)
    problems = list(_find_wrong_values(options))
    if challenge.submission.format != "agent":
        hint = "write submission.format: agent"
        problems.append(Problem("a suite is run against an agent", hint=hint))
    hint = f"weigh {options['dimension']}"
    problems += [
        Problem(f"the suite gives no score for the dimension {key!r}", hint=hint)
        for key in own_dimensions(challenge)
        if key != options["dimension"]
    ]
    try:
        _resolve_suite(options, folder, None)
    except InvalidInput as error:
        problems += error.problems
    return problems


def _find_wrong_values(options: Mapping[str, Any]) -> Iterator[Problem]:
    for kind in options["allow"]:
        if kind in ALWAYS_REFUSED:
            message = f"evaluator, allow: {kind}/ would run a competitor's code on this machine"
            yield Problem(message, hint="let agents be reached by http")
        elif kind not in AGENT_KINDS and not kind.replace("-", "_").isidentifier():
            yield Problem(f"evaluator, allow: {kind!r} is no kind of model")
    if options["pass_at"] == 0:
        yield Problem("evaluator, pass_at: it must be above 0 and at most 100")


def refuse(answer: Any, challenge: Challenge, folder: Path) -> None:
    """A name that is no agent, or not one that may be submitted here."""
    check_agent(answer, allow=EVALUATOR.fill(challenge)["allow"], folder=folder)


def evaluate(submitted: Submitted, setting: EvaluationSetting) -> Evaluation:
    """Asks the agent every case; the share that passed is what counts."""
    challenge = setting.challenge
    options = EVALUATOR.fill(challenge)
    remember = partial(open_memory, setting.answers, version=challenge.version)
    with blame_organiser(challenge):
        suite = _resolve_suite(options, setting.folder, setting.judge_model, remember)
    try:
        agent = open_agent(
            submitted.answer,
            allow=options["allow"],
            folder=setting.folder,
            pricing=suite.definition.pricing,
        )
    except InvalidInput as error:
        return evaluate_unusable(submitted, challenge, str(error))
    results = asyncio.run(_ask_agent(suite, agent, options))
    return _make_evaluation(submitted, challenge, options, suite, results)


def _resolve_suite(
    options: Mapping[str, Any],
    folder: Path,
    judge: str | None,
    remember: Callable[[str], JudgeMemory | None] = lambda _: None,
) -> FilledSuite:
    # Suites are heavy to import, and entering a challenge runs none.
    from tallymark.suites.resolved_suite import resolve  # noqa: PLC0415
    from tallymark.suites.suite_file import load_suite  # noqa: PLC0415

    path = find_inner_file(folder, options["suite"], "evaluator, suite")
    definition = load_suite(path, load=_load_registered)
    if any("command" in server for server in definition.mcp_servers):
        raise InvalidInput(
            f"{options['suite']}: an MCP server that is a command would run outside of the sandbox",
            hint="name it by its url",
        )

    def open_allowed(reference: str, **reached: Any) -> JudgeModel:
        if ModelReference.parse(reference).kind in ALWAYS_REFUSED and reference != judge:
            raise InvalidInput(
                f"{options['suite']}: the judge {reference} would run outside of the sandbox",
                hint="name a provider's model or an address, or give a judge from outside",
            )
        opened = open_judge(reference, **reached)
        opened.memory = remember(reference)
        return opened

    return resolve(
        definition,
        vars=options.get("vars"),
        judge=judge,
        open_judge=open_allowed,
        load=_load_registered,
    )


def _load_registered(reference: str, /, **options: Any) -> Scorer:
    """Scorers by their registered names: a challenge's own code runs in the sandbox alone."""
    if ":" in reference.partition("(")[0]:
        raise ScorerError(
            f"{reference!r}: a challenge's suite uses scorers by their registered names",
            hint="use a built-in or installed scorer, or evaluate with a script",
        )
    egress = find_egress()
    if egress is not None and "file" in {**ScorerReference.parse(reference).options, **options}:
        egress.demand("files", f"{reference!r}: no file of this server is read for others")
    return load_scorer(reference, **options)


async def _ask_agent(
    suite: FilledSuite, agent: Model, options: Mapping[str, Any]
) -> list[CaseResult]:
    """Every result that came in time."""
    from tallymark.suites.suite_evaluation import RunLimits, SuiteEvaluation  # noqa: PLC0415

    results: list[CaseResult] = []

    async def keep(result: CaseResult) -> None:
        results.append(result)

    evaluation = SuiteEvaluation(suite, agent, RunLimits(tries=2, timeout=options["timeout"]))
    try:
        async with asyncio.timeout(options["time_limit"]):
            await evaluation.run(keep)
    except TimeoutError:
        pass  # what is missing has failed
    return results


def _make_evaluation(
    submitted: Submitted,
    challenge: Challenge,
    options: Mapping[str, Any],
    suite: FilledSuite,
    results: list[CaseResult],
) -> Evaluation:
    broken = next((each for each in results if each.status == "error" and each.checks), None)
    if broken is not None:
        reason = f"the case {broken.case} could not be checked: {broken.error}"
        # Before judges' texts, which an agent can influence.
        if NOT_ANSWERED in str(broken.error).partition(IT_SAID)[0]:
            raise OrganiserFault("the judge of a case did not answer", reason)
        return Evaluation(metrics=metrics_of(submitted), error=EVALUATION_FAILED, reason=reason)
    total = sum(case.eval.epochs or suite.definition.epochs for case in suite.definition.cases)
    passed = sum(each.status == "passed" for each in results)
    success = 100.0 * passed / total if total else 0.0
    weighed = options["dimension"] in own_dimensions(challenge)
    return Evaluation(
        metrics=metrics_of(
            submitted,
            succeeded=success >= options["pass_at"],
            tokens_total=_sum_known(results, total, "input_tokens", "output_tokens"),
            cost=_sum_known(results, total, "cost"),
            more=_gather_metrics(suite, results, total, success),
        ),
        dimensions={options["dimension"]: success * 10} if weighed else {},
        details={
            "suite": suite.definition.name,
            "passed": passed,
            "total": total,
            "cases": {
                each.case: each.status
                for each in sorted(results, key=lambda each: each.key)[:_SHOWN_CASES]
            },
        },
    )


def _gather_metrics(
    suite: FilledSuite, results: list[CaseResult], total: int, success: float
) -> dict[str, float | None]:
    """Values for formulas: the suite's score counts only if every case ran."""
    latency = _sum_known(results, total, "latency")
    complete = len(results) == total and not any(each.status == "error" for each in results)
    scored = Tally(results).score(suite.formula).score if complete else None
    return {
        "success_pct": success,
        "avg_latency": None if latency is None else latency / total,
        "suite_score": suite.definition.undefined if scored is None else scored,
    }


def _sum_known(results: list[CaseResult], total: int, *names: str) -> Any:
    """The sum over all cases; None if one is missing or unknown."""
    values = [getattr(each, name) for each in results for name in names]
    known = total > 0 and len(results) == total and None not in values
    return sum(values) if known else None


EVALUATOR = EvaluatorKind(
    help="a suite of evals, run against the submitted agent",
    options={
        "suite": Key(
            FileNameShape(secret=True), "A suite of evals, run against the submitted agent.", True
        ),
        "allow": Key(NAMES, "Kinds of models that may be submitted.", default=["http"]),
        "pass_at": Key(
            NumberShape(low=0, high=100), "The success_pct that it succeeds with.", default=100.0
        ),
        "dimension": dimension("correctness"),
        "vars": Key(AnyShape(MappingNode, "a mapping"), "Values for the suite's variables."),
        "timeout": Key(DurationShape(), "How long one request may take.", default=60.0),
        "time_limit": Key(DurationShape(), "How long all of them may take.", default=600.0),
    },
    refuse=refuse,
    check=check,
    evaluate=evaluate,
    varies=True,
)
