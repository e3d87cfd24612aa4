"""`judge`: a model rates the submission from 0 to 10 by a rubric of the challenge.

The judge's spending is in `details["judge"]` and never counts as the competitor's.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.evaluators.evaluator_kind import (
    EVALUATION_FAILED,
    EvaluatorKind,
    FileNameShape,
    blame_organiser,
    dimension,
    find_inner_file,
    make_warning,
    metrics_of,
    own_dimensions,
)
from tallymark.documents.shapes import DurationShape, Key, NumberShape, OrNullShape, TextShape
from tallymark.errors import InvalidInput, ModelError, OrganiserFault, Problem
from tallymark.judging.judge_dialogue import (
    NOT_ANSWERED,
    JudgeFinding,
    JudgeTask,
    UnreadableAnswer,
    ask_judge,
    fence,
    load_words,
    read_object,
)
from tallymark.judging.judge_model import open_judge, open_memory
from tallymark.models.model_kinds import ModelReference, open_model
from tallymark.text import format_number

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.evaluators.evaluator_kind import EvaluationSetting, Submitted
    from tallymark.judging.judge_dialogue import OpenAnswers

T = TypeVar("T")
_WORDS = Path(__file__).with_suffix(".toml")
_MAX_RUBRIC = 50_000
_AT_ONCE = 8
_TRIES = 5


class JudgeRating(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The schema of a judge's answer."""

    reason: str
    rating: float


def check(challenge: Challenge, folder: Path) -> list[Problem]:
    """Problems of the options, the rubric, and the dimensions."""
    options = EVALUATOR.fill(challenge)
    problems: list[Problem] = []
    for look in (
        lambda: read_rubric(folder, options["rubric"]),
        lambda: try_judge(options.get("model"), folder),
    ):
        try:
            look()
        except InvalidInput as error:
            problems += error.problems
    most, passing = options["max_rating"], _find_passing(options)
    if passing > most:
        wrong, highest = format_number(passing), format_number(most)
        message = f"evaluator, pass_at: {wrong} is no rating from 0 to {highest}"
        problems.append(Problem(message))
    own, rated = own_dimensions(challenge), options["dimension"]
    problems += [
        Problem(
            f"the judge gives no score for the dimension {key!r}",
            hint=f"weigh {rated} alone beside speed and efficiency, or set evaluator.dimension",
        )
        for key in own
        if key != rated
    ]
    if "dimension" in challenge.evaluator.options and rated not in own:
        message = f"evaluator, dimension: {rated!r} is not weighed by the challenge"
        problems.append(Problem(message, hint="give it a weight in scoring.dimensions"))
    return problems


def _find_passing(options: Mapping[str, Any]) -> float:
    """The rating from which an attempt succeeds."""
    passing: float = options.get("pass_at", 0.7 * options["max_rating"])
    return passing


def try_judge(model: str | None, folder: Path) -> None:
    """Refuse an unusable model before an attempt waits for it.

    A `python/` model is not opened: that would run the challenge's code outside the sandbox.
    """
    if model is not None and ModelReference.parse(model).kind != "python":
        with suppress(ModelError):  # its key may be there where attempts are judged
            open_model(model, folder=folder)


def evaluate(submitted: Submitted, setting: EvaluationSetting) -> Evaluation:
    """The judge's rating; an answer that cannot be read twice is an error, and no rating."""
    challenge = setting.challenge
    options = EVALUATOR.fill(challenge)
    with blame_organiser(challenge):
        reference = setting.judge_model or options.get("model")
        if reference is None:
            raise InvalidInput(
                "no model is named to judge", hint="write evaluator.model, or give a judge model"
            )
        rubric = read_rubric(setting.folder, options["rubric"])
        rate = open_judging(reference, challenge.version, setting.folder, options, setting.answers)
    text, cut = render_submission(submitted.answer, options["max_chars"])
    task = make_rating_task(challenge.goal, rubric, text, options["max_rating"])
    found = asyncio.run(rate(task))
    spent = found.spending
    facts: dict[str, Any] = {
        "model": reference,
        "rubric": hash_rubric(_WORDS, challenge.goal, rubric),
        "answered_by": spent.model,
        "tries": spent.asked,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "cost": spent.cost,
    }
    if found.kept:
        facts["kept"] = True
    notes = (make_warning(cut),) if cut else ()
    rating = found.verdict
    if found.unavailable:
        # Its words may quote the submission, the rubric or recorded answers.
        raise OrganiserFault(NOT_ANSWERED, found.error or NOT_ANSWERED)
    if rating is None:
        return Evaluation(
            metrics=metrics_of(submitted),
            warnings=notes,
            details={"judge": facts},
            error=EVALUATION_FAILED,
            reason=found.error,
        )
    scored = options["dimension"]
    weighed = scored in own_dimensions(challenge)
    return Evaluation(
        metrics=metrics_of(
            submitted, rating=rating.rating, succeeded=rating.rating >= _find_passing(options)
        ),
        dimensions={scored: 1000 * rating.rating / options["max_rating"]} if weighed else {},
        warnings=notes,
        details={"judge": {**facts, "rating": rating.rating, "reason": rating.reason[:2000]}},
    )


def render_submission(answer: Any, most: int) -> tuple[str, str | None]:
    """The submission as a judge reads it, and a note if it is cut."""
    if isinstance(answer, str):
        text = answer
    elif isinstance(answer, dict) and all(isinstance(each, str) for each in answer.values()):
        text = "\n\n".join(f"--- {name}\n{content}" for name, content in sorted(answer.items()))
    else:
        text = json.dumps(answer, indent=1, ensure_ascii=False, sort_keys=True)
    text = text.encode("utf-8", "replace").decode()
    if len(text) <= most:
        return text or "(empty)", None
    return text[:most], f"the judge was shown the first {most:,} of {len(text):,} characters"


def make_rating_task(
    goal: str, rubric: str, submission: str, most: float
) -> JudgeTask[JudgeRating]:
    """The prompt of the judge: always the same for the same submission."""
    return JudgeTask(
        load_words(_WORDS),
        {"goal": goal.strip(), "rubric": rubric.strip(), "most": f"{most:g}"},
        fence({"SUBMISSION": submission}, goal, rubric),
        partial(read_rating, most=most),
    )


def read_rating(text: str, most: float) -> JudgeRating:
    """The rating in an answer that is one JSON object, or what is wrong with the answer."""
    try:
        rating = msgspec.convert(read_object(text), JudgeRating)
    except msgspec.ValidationError:
        raise UnreadableAnswer("it is not the requested object") from None
    if not 0 <= rating.rating <= most:
        raise UnreadableAnswer(f"its rating is not from 0 to {format_number(most)}")
    return rating


def open_judging(
    model: str,
    version: str,
    folder: Path,
    options: Mapping[str, Any],
    answers: OpenAnswers | None,
) -> Callable[[JudgeTask[T]], Coroutine[Any, Any, JudgeFinding[T]]]:
    """Calls a challenge's model, each question once; some models take no temperature."""
    temperature = options["temperature"]
    settings = {} if temperature is None else {"temperature": temperature}
    judge = open_judge(model, folder=folder, at_once=_AT_ONCE)
    memory = open_memory(answers, model, version=version, settings=settings)
    # A run can be resumed, but what has become of an attempt stays: it is worth more tries.
    ask = partial(judge.ask, seconds=options["timeout"], tries=_TRIES, settings=settings)
    return partial(ask_judge, ask=ask, memory=memory)


def hash_rubric(words: Path, goal: str, rubric: str) -> str:
    """Twelve hex digits that change with any word of the judge's prompt."""
    told = "\0".join((*load_words(words).values(), goal, rubric))
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def read_rubric(folder: Path, name: str, where: str = "evaluator, rubric") -> str:
    """The text of a challenge's rubric; InvalidInput for an unusable one."""
    path = find_inner_file(folder, name, where)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{where}: {name} cannot be read: {error}") from None
    if not text.strip():
        raise InvalidInput(f"{where}: {name} is empty")
    if len(text) > _MAX_RUBRIC:
        raise InvalidInput(f"{where}: {name} has more than {_MAX_RUBRIC:,} characters")
    return text


EVALUATOR = EvaluatorKind(
    help="a model rates by a rubric",
    options={
        "rubric": Key(
            FileNameShape(secret=True), "A text file: what the judge goes by.", required=True
        ),
        "model": Key(TextShape(), "The model that judges."),
        "max_rating": Key(NumberShape(above=0), "The best rating.", default=10.0),
        "pass_at": Key(
            NumberShape(low=0), "The rating that an attempt succeeds with; 70 % of the best."
        ),
        "dimension": dimension("methodology"),
        "temperature": Key(
            OrNullShape(NumberShape()), "null for models that take none.", default=0.0
        ),
        "max_chars": Key(
            NumberShape(above=0, whole=True),
            "How much of a submission it is shown.",
            default=50_000,
        ),
        "timeout": Key(DurationShape(), "How long it may take to answer.", default=120.0),
    },
    check=check,
    evaluate=evaluate,
    varies=True,
    needs_judge=True,
)
