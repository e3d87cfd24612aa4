"""`llm_judge`: a language model chooses one of a rubric's labels, each of which has a number."""

from __future__ import annotations

import tomllib
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from tallymark.errors import ModelError, ScorerError, WorkFailed
from tallymark.importing import is_async
from tallymark.judging.judge_dialogue import (
    AskJudge,
    JudgeMemory,
    JudgeTask,
    UnreadableAnswer,
    ask_judge,
)
from tallymark.judging.judge_model import JudgeModel, accept_judge, open_judge
from tallymark.judging.rubric import (
    Choice,
    Rubric,
    Verdict,
    load_rubric,
    read_frame,
    read_verdict,
    replace_choices,
)
from tallymark.judging.trace_evidence import collect_material
from tallymark.models import Answer, Message
from tallymark.scoring import EvalContext, Expected, Score, Scorer
from tallymark.scoring.score import show_value
from tallymark.scoring.scorer_options import check_seconds


def llm_judge(  # noqa: PLR0913 (options, all but the first by keyword)
    rubric: str | Rubric = "correctness",
    *,
    model: Any = None,
    model_name: str | None = None,
    judge: Callable[[str], Any] | None = None,
    choices: dict[str, Any] | None = None,
    api_key_env: str | None = None,
    timeout: float = 60.0,
) -> Scorer:
    """The number of the label that a model chooses by a rubric, its reasoning written first.

    `rubric` is a built-in's name, the path of a .toml file, or a question such as "Is it polite?";
    `choices` replaces its labels and numbers. `model` is any model that `tally run -m` takes, a
    pydantic-ai model, or the base address of an OpenAI-compatible API with its `model_name` and the
    environment variable of its key in `api_key_env`. `judge` is a function from prompt to answer to
    use instead. An answer that cannot be read is requested once more; then the score fails.
    """
    check_seconds(timeout, "llm_judge")
    if (model is None) == (judge is None):
        raise ScorerError("llm_judge needs either `model` or `judge`")
    asked = load_rubric(rubric) if isinstance(rubric, str) else rubric
    if choices is not None:
        asked = replace_choices(asked, choices, "llm_judge")
    name = rubric if isinstance(rubric, str) else asked.criteria or asked.description
    judging = _RubricJudging(name, asked, read_frame())
    if judge is not None:
        function = judging.by_function(judge)
    else:
        reached = (
            open_judge(model, model_name=model_name, api_key_env=api_key_env)
            if isinstance(model, str)
            else accept_judge(model)
        )
        function = judging.by_asking(partial(reached.ask, seconds=timeout), reached.memory)
    return Scorer(
        function,
        name="llm_judge",
        description=asked.description,
        config={
            "rubric": name,
            "rubric_hash": judging.hash,
            "choices": {label: choice.value for label, choice in asked.choices.items()},
            "judge": _name_judge(model if judge is None else judge),
            **({} if model_name is None else {"model_name": model_name}),
        },
        sources=[_RubricJudging, collect_material, read_verdict, *([judge] if judge else [])],
    )


class _RubricJudging:
    def __init__(self, name: str, rubric: Rubric, frame: str) -> None:
        self.hash = rubric.hash(frame)
        self._name = name
        self._rubric = rubric
        self._choices = rubric.choices
        self._words = tomllib.loads(frame)

    def by_asking(
        self, ask: AskJudge, memory: JudgeMemory | None = None
    ) -> Callable[[EvalContext], Awaitable[Score]]:
        """The scorer's function for a judge that is waited for."""

        async def evaluate(ctx: EvalContext) -> Score:
            return await self._evaluate(ctx, ask, memory)

        return evaluate

    def by_function(self, judge: Callable[[str], Any]) -> Callable[[EvalContext], Any]:
        """The scorer's function for a judge that is a function; async if that one is."""
        waits = is_async(judge)

        async def ask(messages: tuple[Message, ...]) -> Answer:
            said = judge("\n\n".join(each.content for each in messages))
            if waits:
                said = await said
            if not isinstance(said, str):
                raise ModelError(f"it returned {show_value(said)}, not text")
            return Answer(output=said, latency=0.0)

        if waits:
            return self.by_asking(ask)
        return lambda ctx: _finish_at_once(self._evaluate(ctx, ask))

    async def _evaluate(
        self, ctx: EvalContext, ask: AskJudge, memory: JudgeMemory | None = None
    ) -> Score:
        try:
            task = self._make_task(ctx)
        except WorkFailed as error:
            return Score.failed(f"llm_judge: {error}")
        found = await ask_judge(task, ask, memory)
        facts = {"rubric": self._name, "rubric_hash": self.hash, **found.spending.to_metadata()}
        if found.kept:
            facts["kept"] = True
        if found.unavailable:
            facts["unavailable"] = True
        if found.retry_after is not None:
            facts["retry_after"] = found.retry_after
        if found.verdict is None:
            return Score.failed(f"llm_judge: {found.error}", metadata=facts)
        value = self._choices[found.verdict.label].value
        return Score(value, found.verdict.reasoning, facts, label=found.verdict.label)

    def _make_task(self, ctx: EvalContext) -> JudgeTask[Verdict]:
        if self._rubric.criteria:
            ctx = msgspec.structs.replace(ctx, expected=Expected(output=self._rubric.criteria))
        labels = self._choices
        return JudgeTask(
            self._words,
            {
                "question": self._rubric.question.strip(),
                "choices": "\n".join(_write_choice(label, each) for label, each in labels.items()),
                "labels": ", ".join(labels),
            },
            collect_material(ctx, self._rubric.shows),
            self._read,
        )

    def _read(self, said: str) -> Verdict:
        verdict = read_verdict(said, self._choices)
        if verdict is None:
            raise UnreadableAnswer
        return verdict


def _finish_at_once(work: Coroutine[Any, Any, Score]) -> Score:
    """Return the result of a coroutine that waits for nothing, without an event loop."""
    try:
        work.send(None)
    except StopIteration as done:
        score: Score = done.value
        return score
    raise RuntimeError("a judge that is not async has waited")


def _write_choice(label: str, choice: Choice) -> str:
    return f"- {label}: {choice.means}" if choice.means else f"- {label}"


def _name_judge(judge: Any) -> str:
    """Which judge it was, for the origin."""
    if isinstance(judge, str):
        return judge
    if isinstance(judge, JudgeModel):
        return judge.name
    named = judge if hasattr(judge, "__qualname__") else type(judge)
    return str(getattr(judge, "model_id", f"{named.__module__}:{named.__qualname__}"))
