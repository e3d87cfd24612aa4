"""`judge`: a model rates the submission from 0 to 10 against a rubric of the challenge.

Options: `rubric` (a text file of the folder), `model`, `max_rating` (10), `pass_at` (70 % of it),
`dimension` (methodology, where the challenge weighs it), `temperature` (0; null leaves it out, for
models that take none), `max_chars` of the submission that are shown, `timeout` in seconds. What the
judge spends is told in `details["judge"]`, and is never counted as the competitor's.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tomllib
from functools import cache
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.evaluators.evaluator_kind import (
    check_options,
    find_inner_file,
    make_warning,
    metrics_of,
    own_dimensions,
    read_options,
)
from tallymark.errors import InvalidInput, ModelError, Problem
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.evaluators.evaluator_kind import EvaluationSetting, Submitted
    from tallymark.models import Answer

_WORDS = Path(__file__).with_suffix(".toml")
_MAX_RUBRIC = 50_000
_TRIES = 2
"""How often a judge is asked when its answer cannot be read."""
JudgeTurns: TypeAlias = "tuple[tuple[Literal['system', 'user', 'assistant'], str], ...]"
"""What a judge is told: who speaks, and what is said."""


class JudgeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `evaluator:` may say beside `type: judge`."""

    rubric: str
    model: str | None = None
    max_rating: float = 10.0
    pass_at: float | None = None
    dimension: str | None = None
    temperature: float | None = 0.0
    max_chars: int = 50_000
    timeout: float = 120.0
    metrics: Any = None
    """Of every evaluator: names that formulas may use; a judge has none of its own."""

    @property
    def passing(self) -> float:
        """The rating from which an attempt succeeds."""
        return 0.7 * self.max_rating if self.pass_at is None else self.pass_at


class JudgeRating(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a judge must answer, and nothing else."""

    reason: str
    rating: float


def check(challenge: Challenge, folder: Path) -> list[Problem]:
    """What is wrong with the options, the rubric, and the dimensions."""
    options, problems = check_options(challenge.evaluator, JudgeOptions)
    if options is None:
        return problems
    try:
        _read_rubric(folder, options.rubric)
    except InvalidInput as error:
        problems += error.problems
    for name in ("max_rating", "max_chars", "timeout"):
        if not getattr(options, name) > 0:
            problems.append(Problem(f"evaluator, {name}: it must be above 0"))
    if not 0 <= options.passing <= options.max_rating:
        message = f"evaluator, pass_at: {options.passing:g} is no rating from 0 to "
        problems.append(Problem(f"{message}{options.max_rating:g}"))
    own, rated = own_dimensions(challenge), _choose_dimension(options)
    problems += [
        Problem(
            f"the judge gives no score for the dimension {key!r}",
            hint=f"weigh {rated} alone beside speed and efficiency, or set evaluator.dimension",
        )
        for key in own
        if key != rated
    ]
    if options.dimension is not None and options.dimension not in own:
        message = f"evaluator, dimension: {options.dimension!r} is not weighed by the challenge"
        problems.append(Problem(message, hint="give it a weight in scoring.dimensions"))
    return problems


def evaluate(submitted: Submitted, setting: EvaluationSetting) -> Evaluation:
    """The judge's rating; an answer that cannot be read twice is an error, and no rating."""
    challenge = setting.challenge
    options = read_options(challenge.evaluator, JudgeOptions)
    reference = setting.judge_model or options.model
    if reference is None:
        raise InvalidInput(
            "no model is named to judge", hint="write evaluator.model, or give a judge model"
        )
    text, cut = render_submission(submitted.answer, options.max_chars)
    prompt = JudgePrompt(challenge.goal, _read_rubric(setting.folder, options.rubric), text)
    spent: list[Answer] = []
    rating = _rate(prompt, options, reference, setting.folder, spent)
    facts = {"model": reference, "rubric": prompt.hash, **_sum_spending(spent)}
    notes = (make_warning(cut),) if cut else ()
    if isinstance(rating, str):
        return Evaluation(
            metrics=metrics_of(submitted), warnings=notes, details={"judge": facts}, error=rating
        )
    dimension = _choose_dimension(options)
    weighed = dimension in own_dimensions(challenge)
    return Evaluation(
        metrics=metrics_of(
            submitted, rating=rating.rating, succeeded=rating.rating >= options.passing
        ),
        dimensions={dimension: 1000 * rating.rating / options.max_rating} if weighed else {},
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


class JudgePrompt:
    """What the judge is told. The same submission is always told in the same words."""

    def __init__(self, goal: str, rubric: str, submission: str) -> None:
        self.words = _load_words()
        # The mark is a hash of what it fences, so that no submission can hold its own.
        mark = hashlib.sha256(f"{goal}\0{rubric}\0{submission}".encode()).hexdigest()[:16]
        self.known = {"goal": goal.strip(), "rubric": rubric.strip(), "mark": mark}
        self.submission = f"<<< SUBMISSION {mark}\n{submission}\n>>> SUBMISSION {mark}"
        parts = "\0".join((*self.words.values(), goal, rubric))
        self.hash = hashlib.sha256(parts.encode()).hexdigest()[:12]

    def turns(self, options: JudgeOptions, failed: tuple[str, str] | None) -> JudgeTurns:
        """The instructions and the submission; after a failure also what was wrong."""
        most = {"most": f"{options.max_rating:g}"}
        told = Template(self.words["instructions"]).substitute(self.known, **most).strip()
        first: JudgeTurns = (("system", told), ("user", self.submission))
        if failed is None:
            return first
        answer, why = failed
        retry = Template(self.words["retry"]).substitute(most, why=why).strip()
        return (*first, ("assistant", answer[:2000] or "(nothing)"), ("user", retry))


def _rate(
    prompt: JudgePrompt,
    options: JudgeOptions,
    reference: str,
    folder: Path,
    spent: list[Answer],
) -> JudgeRating | str:
    """The rating, or why there is none; every answer that was paid for is added to `spent`."""
    # Models are heavy, and whoever only checks a challenge asks none.
    from tallymark.models import (  # noqa: PLC0415
        Message,
        Pace,
        Request,
        answer_with_retries,
        open_model,
    )

    model, pace = open_model(reference, folder=folder), Pace(1)
    settings = {} if options.temperature is None else {"temperature": options.temperature}

    async def ask(turns: JudgeTurns) -> str:
        request = Request(messages=tuple(Message(*turn) for turn in turns), settings=settings)
        answer, _ = await answer_with_retries(model, request, pace, timeout=options.timeout)
        spent.append(answer)
        return answer.output

    async def rate() -> JudgeRating | str:
        try:
            return await _ask_twice(prompt, options, ask)
        finally:
            await model.close()

    try:
        return asyncio.run(rate())
    except ModelError as error:
        return f"the judge did not answer: {error}"


async def _ask_twice(
    prompt: JudgePrompt, options: JudgeOptions, ask: Callable[[JudgeTurns], Awaitable[str]]
) -> JudgeRating | str:
    failed, why = None, ""
    for _ in range(_TRIES):
        output = await ask(prompt.turns(options, failed))
        rating = read_rating(output, options.max_rating)
        if isinstance(rating, JudgeRating):
            return rating
        why = rating
        failed = output, why
    return f"the judge's answer could not be used, twice: {why}"


def read_rating(text: str, most: float) -> JudgeRating | str:
    """The rating in an answer that is one JSON object, or what is wrong with the answer."""
    try:
        data = json.loads(text.strip()[:20_000], object_pairs_hook=_refuse_doubles)
        rating = msgspec.convert(data, JudgeRating)
    except msgspec.ValidationError as error:
        return f"it is not the object that was asked for ({error})".replace("`", "")
    except (ValueError, RecursionError):
        return f"it is not one JSON object but {show_value(text[:200])}"
    if not 0 <= rating.rating <= most:
        return f"the rating {rating.rating:g} is not from 0 to {most:g}"
    return rating


def _refuse_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)  # of a key that is there twice, the last counts
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _sum_spending(answers: list[Answer]) -> dict[str, Any]:
    """What the judge used; None where one answer does not tell."""

    def total(of: Callable[[Answer], Any]) -> Any:
        parts = [of(answer) for answer in answers]
        return None if None in parts else sum(parts)

    return {
        "answered_by": answers[-1].model if answers else None,
        "tries": len(answers),
        "input_tokens": total(lambda answer: answer.input_tokens),
        "output_tokens": total(lambda answer: answer.output_tokens),
        "cost": total(lambda answer: answer.cost),
    }


def _choose_dimension(options: JudgeOptions) -> str:
    return options.dimension or "methodology"


def _read_rubric(folder: Path, name: str) -> str:
    path = find_inner_file(folder, name, "evaluator, rubric")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"evaluator, rubric: {name} cannot be read: {error}") from None
    if not text.strip():
        raise InvalidInput(f"evaluator, rubric: {name} is empty")
    if len(text) > _MAX_RUBRIC:
        raise InvalidInput(f"evaluator, rubric: {name} has more than {_MAX_RUBRIC:,} characters")
    return text


@cache
def _load_words() -> dict[str, str]:
    return tomllib.loads(_WORDS.read_text(encoding="utf-8"))
