"""`llm_judge`: a language model chooses one of a rubric's labels, each of which has a number."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Awaitable, Callable, Generator
from string import Template
from typing import Any, TypeAlias

import msgspec

from tallymark.errors import ScorerError, WorkFailed
from tallymark.judging.judge_model import AskJudge, JudgeAnswer, JudgeModel
from tallymark.judging.rubric import Choice, Rubric, load_rubric, read_frame, replace_choices
from tallymark.judging.trace_evidence import collect_material
from tallymark.judging.verdict import read_verdict
from tallymark.scoring import EvalContext, Score, Scorer
from tallymark.scoring.score import show_value
from tallymark.scoring.scorer_options import check_seconds

JudgeDialogue: TypeAlias = Generator[tuple[str, str], JudgeAnswer, Score]
"""Yields instructions and prompt, is sent the answer, and returns the score."""


def llm_judge(  # noqa: PLR0913 (options, all but the first by keyword)
    rubric: str = "correctness",
    *,
    model: Any = None,
    model_name: str | None = None,
    judge: Callable[[str], Any] | None = None,
    choices: dict[str, Any] | None = None,
    api_key_env: str | None = None,
    timeout: float = 60.0,
) -> Scorer:
    """The number of the label that a model chooses by a rubric, its reasoning written first.

    `rubric` is a built-in's name or the path of a .toml file; `choices` replaces its labels and
    numbers. `model` is `provider:name`, a pydantic-ai model, or the base address of an
    OpenAI-compatible API with its `model_name` and the environment variable of its key in
    `api_key_env`. `judge` is a function from prompt to answer to use instead. An answer that
    cannot be read is asked for once more; then the score is a failed one.
    """
    check_seconds(timeout, "llm_judge")
    if (model is None) == (judge is None):
        raise ScorerError("llm_judge needs either `model` or `judge`")
    asked = load_rubric(rubric)
    if choices is not None:
        asked = replace_choices(asked, choices, "llm_judge")
    frame = read_frame()
    judging = _JudgeQuestion(rubric, asked, asked.hash(frame), tomllib.loads(frame))
    return Scorer(
        _make_judge_function(judging, judge)
        if judge is not None
        else _make_async_function(
            judging, JudgeModel(model, model_name, api_key_env, timeout).connect()
        ),
        name="llm_judge",
        description=asked.description,
        config={
            "rubric": rubric,
            "rubric_hash": judging.hash,
            "choices": {label: choice.value for label, choice in asked.verdicts().items()},
            "judge": _name_judge(model if judge is None else judge),
            **({} if model_name is None else {"model_name": model_name}),
        },
        sources=[
            _JudgeQuestion,
            collect_material,
            read_verdict,
            *([] if judge is None else [judge]),
        ],
    )


class _JudgeQuestion(msgspec.Struct, frozen=True):
    name: str
    rubric: Rubric
    hash: str
    frame: dict[str, str]

    def open_dialogue(self, ctx: EvalContext) -> JudgeDialogue:
        """The conversation with a judge, whoever it is and however it is reached.

        A generator, so that the same lines serve judges that are waited for and those that are not.
        """
        choices = self.rubric.verdicts()
        evidence, mark = collect_material(ctx, self.rubric.shows)
        words = {
            "question": self.rubric.question.strip(),
            "choices": "\n".join(_write_choice(label, each) for label, each in choices.items()),
            "labels": ", ".join(choices),
            "mark": mark,
        }
        instructions, retry = (
            Template(self.frame[part]).substitute(words).strip()
            for part in ("instructions", "retry")
        )
        spent: list[JudgeAnswer] = []
        for prompt in (evidence, f"{evidence}\n\n{retry}"):
            answer = yield instructions, prompt
            spent.append(answer)
            verdict = read_verdict(answer.text, choices)
            if verdict is not None:
                value = choices[verdict.label].value
                return Score(value, verdict.reasoning, self._facts(spent), label=verdict.label)
        said = f"{spent[-1].text[:200]!r}" if spent[-1].text else "nothing"
        return Score.failed(
            f"llm_judge: the judge's answer could not be read, twice; it said {said}",
            metadata=self._facts(spent),
        )

    def _facts(self, spent: list[JudgeAnswer]) -> dict[str, Any]:
        return {
            "rubric": self.name,
            "rubric_hash": self.hash,
            "model": spent[-1].model,
            "attempts": len(spent),
            "input_tokens": _add_known([each.input_tokens for each in spent]),
            "output_tokens": _add_known([each.output_tokens for each in spent]),
            "cost": _add_known([each.cost for each in spent]),
        }


def _take_step(asking: JudgeDialogue, answer: JudgeAnswer | None) -> tuple[str, str] | Score:
    """Hand an answer over (None begins), and get the next request or the score."""
    try:
        return next(asking) if answer is None else asking.send(answer)
    except StopIteration as done:
        score: Score = done.value
        return score


def _make_async_function(
    judging: _JudgeQuestion, ask: AskJudge
) -> Callable[[EvalContext], Awaitable[Score]]:
    """The scorer's function for a judge that is waited for."""

    async def evaluate(ctx: EvalContext) -> Score:
        asking = judging.open_dialogue(ctx)
        try:
            step = _take_step(asking, None)
            while not isinstance(step, Score):
                step = _take_step(asking, await ask(*step))
        except WorkFailed as error:
            return Score.failed(f"llm_judge: {error}")
        return step

    return evaluate


def _make_judge_function(
    judging: _JudgeQuestion, judge: Callable[[str], Any]
) -> Callable[[EvalContext], Any]:
    """The scorer's function for a judge that is a function; async if that one is."""
    called = getattr(judge, "__call__", None)  # noqa: B004 (its own kind is what matters)
    if inspect.iscoroutinefunction(judge) or inspect.iscoroutinefunction(called):

        async def ask(instructions: str, prompt: str) -> JudgeAnswer:
            return _make_answer(await judge(f"{instructions}\n\n{prompt}"))

        return _make_async_function(judging, ask)

    def evaluate(ctx: EvalContext) -> Score:
        asking = judging.open_dialogue(ctx)
        try:
            step = _take_step(asking, None)
            while not isinstance(step, Score):
                step = _take_step(asking, _make_answer(judge("\n\n".join(step))))
        except WorkFailed as error:
            return Score.failed(f"llm_judge: {error}")
        return step

    return evaluate


def _make_answer(answer: object) -> JudgeAnswer:
    if not isinstance(answer, str):
        raise WorkFailed(f"the judge returned {show_value(answer)}, not text")
    return JudgeAnswer(answer)


def _write_choice(label: str, choice: Choice) -> str:
    return f"- {label}: {choice.means}" if choice.means else f"- {label}"


def _add_known(parts: list[Any]) -> Any:
    """The sum; None when a part is not known."""
    return None if None in parts else sum(parts)


def _name_judge(judge: Any) -> str:
    """Which judge it was, for the origin."""
    if isinstance(judge, str):
        return judge
    named = judge if hasattr(judge, "__qualname__") else type(judge)
    return str(getattr(judge, "model_id", f"{named.__module__}:{named.__qualname__}"))
