from __future__ import annotations

import asyncio
import contextlib
import copy
import gc
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec
import pytest

from tallymark.errors import ScorerError
from tallymark.scoring import EvalContext, Score, Scorer, composite, configurable, scorer
from tallymark.scoring.scorer import code_hash
from tallymark.testing import mock_context
from tallymark.traces import Trace

CTX = EvalContext(Trace())


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def _raises(error: BaseException, *, kind: str) -> Scorer:
    def sync(ctx: EvalContext) -> float:
        raise error

    async def coroutine(ctx: EvalContext) -> float:
        raise error

    function: Any = coroutine if kind == "async" else sync
    return Scorer(function, name="quality", blocking=kind == "thread")


RAISED = re.compile(r"(?s)(.*) \(at test_scorer\.py:\d+ in .*\)")
FAILURES = [
    (ValueError("no digits"), "quality raised ValueError: no digits"),
    (ValueError(), "quality raised ValueError"),
    (SystemExit(3), "quality raised SystemExit: 3"),
    (GeneratorExit(), "quality raised GeneratorExit"),
    (asyncio.CancelledError("mine"), "quality raised CancelledError: mine"),
    (TimeoutError("api"), "quality raised TimeoutError: api"),
    (MemoryError(), "quality raised MemoryError"),
    (_Unprintable(), "quality raised _Unprintable"),
    (ScorerError("bad", hint="mend"), "quality raised ScorerError: bad; mend"),
]


@pytest.mark.parametrize("kind", ["inline", "thread", "async"])
@pytest.mark.parametrize(("error", "message"), FAILURES)
@pytest.mark.parametrize("timeout", [None, 30])
def test_any_exception_of_a_scorer_is_a_failed_score(
    error: BaseException, message: str, kind: str, timeout: float | None
) -> None:
    scorer = _raises(error, kind=kind)
    score = asyncio.run(scorer.evaluate(CTX, timeout=timeout))
    assert (score.value, score.origin) == (None, scorer.origin)
    assert RAISED.sub(r"\1", score.error or "") == message


@pytest.mark.parametrize("kind", ["inline", "async"])
@pytest.mark.parametrize(("error", "message"), FAILURES)
def test_score_contains_failures_too(error: BaseException, message: str, kind: str) -> None:
    said = _raises(error, kind=kind).score(CTX).error or ""
    assert RAISED.sub(r"\1", said) == message


@pytest.mark.parametrize("kind", ["inline", "async"])
def test_ctrl_c_stops_the_program(kind: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        _raises(KeyboardInterrupt(), kind=kind).score(CTX)


def test_a_keyboard_interrupt_outside_the_main_thread_is_the_scorers_own() -> None:
    scorer = _raises(KeyboardInterrupt(), kind="inline")
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(scorer.score, CTX).result().error
    assert (said or "").startswith("quality raised KeyboardInterrupt (at test_scorer.py:")


def test_a_very_long_error_is_cut() -> None:
    error = _raises(ValueError("x" * 100_000), kind="inline").score(CTX).error
    assert error is not None
    assert len(error) < 1100


def test_calling_a_scorer_gives_what_the_function_gives() -> None:
    assert Scorer(lambda ctx: [1], name="odd")(CTX) == [1]
    with pytest.raises(ValueError, match="boom"):
        _raises(ValueError("boom"), kind="inline")(CTX)


@pytest.mark.parametrize("blocking", [True, False])
def test_a_sync_function_that_gives_a_coroutine_is_waited_for(blocking: bool) -> None:
    calls = []

    async def half() -> float:
        return 0.5

    def indirect(ctx: EvalContext) -> Any:
        calls.append(ctx)
        return half()

    scorer = Scorer(indirect, name="indirect", blocking=blocking)
    assert asyncio.run(scorer.evaluate(CTX)).value == 0.5
    assert scorer.score(CTX).value == 0.5
    assert len(calls) == 2


def test_an_object_with_an_async_call_is_an_async_scorer() -> None:
    class Half:
        async def __call__(self, ctx: EvalContext) -> float:
            return 0.5

    scorer = Scorer(Half(), name="half")
    assert (scorer.is_async, scorer.blocking) == (True, False)
    assert scorer.score(CTX).value == 0.5


def test_score_of_an_async_scorer_inside_a_loop_says_what_to_do() -> None:
    async def half(ctx: EvalContext) -> float:
        return 0.5

    async def inside() -> None:
        Scorer(half, name="half").score(CTX)

    with pytest.raises(ScorerError, match=r"half is async .* use `await scorer.evaluate\(ctx\)`"):
        asyncio.run(inside())


@pytest.mark.parametrize(("blocking", "same"), [(None, False), (True, False), (False, True)])
def test_only_a_scorer_declared_non_blocking_runs_in_the_loops_thread(
    blocking: bool | None, same: bool
) -> None:
    seen = []

    def where(ctx: EvalContext) -> bool:
        seen.append(threading.current_thread())
        return True

    asyncio.run(Scorer(where, name="where", blocking=blocking).evaluate(CTX))
    assert (seen == [threading.current_thread()]) is same


def test_the_origin_names_scorer_code_and_config() -> None:
    scorer = Scorer(lambda ctx: 1, name="one", config={"k": 2})
    origin = scorer.score(CTX).origin
    assert origin is not None
    assert (origin.scorer, origin.config, len(origin.version)) == ("one", {"k": 2}, 12)
    assert scorer.origin is origin


def test_a_version_stands_in_for_the_code_hash() -> None:
    assert Scorer(lambda ctx: 1, name="one", version="2.1").origin.version == "2.1"


def test_a_replaced_scorer_keeps_everything_else() -> None:
    first = Scorer(
        lambda ctx: "good",
        name="a",
        description="Says good",
        threshold=0.4,
        labels={"good": 1.0},
        blocking=False,
        config={"k": 1},
    )
    second = first.replace(name="b", threshold=0.9)
    assert (first.name, first.threshold) == ("a", 0.4)
    assert (second.name, second.threshold, second.labels) == ("b", 0.9, {"good": 1.0})
    assert (second.description, second.data_type) == ("Says good", "categorical")
    assert (second.inline, second.config) == (True, {"k": 1})
    assert second.origin.version == first.origin.version
    assert second.score(CTX) == Score(1.0, label="good", origin=second.origin)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"name": ""}, "'' cannot name a scorer; use letters"),
        ({"name": "two words"}, "'two words' cannot name a scorer"),
        ({"name": "<lambda>"}, "'<lambda>' cannot name a scorer"),
        ({"name": "a", "data_type": "number"}, "a: data_type is 'number', which is not one of"),
        ({"name": "a", "threshold": 1.5}, "a: threshold is 1.5; it must be a number from 0 to 1"),
        ({"name": "a", "threshold": "high"}, "a: threshold is 'high'; it must be a number"),
        ({"name": "a", "labels": {"good": 2}}, "a: label 'good' is 2 (int); it must be a number"),
        ({"name": "a", "labels": {}, "data_type": "boolean"}, "labels belong to a categorical"),
    ],
)
def test_wrong_facts_are_refused(facts: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as caught:
        Scorer(lambda ctx: 1, **facts)
    assert message in str(caught.value)


def change_all(ctx: Any) -> bool:
    for change in (
        lambda: ctx.expected.tool_calls.append("x"),
        lambda: ctx.expected.extra.update(x=1),
        lambda: ctx.expected["own"].append("x"),
        lambda: ctx.metadata.update(x=1),
        ctx.trace.metadata.clear,
        ctx.spans.clear,
        lambda: ctx.spans[0].metadata.update(x=1),
        lambda: ctx.config.extra.update(x=1),
    ):
        with contextlib.suppress(ScorerError):
            change()
    return True


def test_changes_of_a_scorer_do_not_reach_other_scorers() -> None:
    ctx = mock_context(
        "Hello",
        expected={"tool_calls": ["a"], "own": ["b"]},
        metadata={"m": 1},
        config={"timeout": 3},
    )
    before = copy.deepcopy(msgspec.structs.asdict(ctx))
    for made in (scorer(change_all), composite([scorer(change_all)])):
        assert made.score(ctx).value == 1.0
        assert msgspec.structs.asdict(ctx) == before


def test_a_scorer_that_changes_what_it_sees_fails_with_a_sentence() -> None:
    sorts = scorer(name="sorts")(lambda ctx: ctx.expected.tool_calls.sort() or 1.0)
    score = sorts.score(mock_context("x", expected={"tool_calls": ["b", "a"]}))
    assert "what a scorer sees cannot be changed" in (score.error or "")


PARIS = mock_context("Paris", input="Capital?", expected={"output": "Paris"}, metadata={"tag": "x"})


def of_answer(output: str) -> bool:
    return output == "Paris"


def of_both(output: str, expected: str) -> bool:
    return output == expected


def of_much(*, input: str, metadata: dict[str, Any], trace: Any, spans: Any) -> bool:  # noqa: A002
    return (input, metadata["tag"], list(trace.spans)) == ("Capital?", "x", list(spans))


def with_default(output: str, most: int = 5) -> bool:
    return len(output) <= most


def of_context_too(expected: str, ctx: EvalContext) -> bool:
    return bool(ctx.output == expected)


def of_context(anything: EvalContext, most: int = 5) -> bool:
    return len(anything.output) <= most


class Judge:
    def evaluate(self, output: str, expected: str) -> bool:
        return output == expected


@pytest.mark.parametrize(
    "function", [of_answer, of_both, of_much, with_default, of_context_too, of_context]
)
def test_a_function_gets_the_arguments_that_it_names(function: Any) -> None:
    made = scorer(function)
    assert made.name == function.__name__
    assert made.score(PARIS).value == 1.0
    assert made(PARIS) is True
    assert made.replace(name="again").score(PARIS).value == 1.0
    assert asyncio.run(made.evaluate(PARIS)).value == 1.0


def test_async_functions_classes_and_builders_get_the_arguments_that_they_name() -> None:
    @scorer
    async def waits(output: str, expected: str) -> bool:
        return output == expected

    @configurable
    def starts(text: str) -> Any:
        return lambda output: output.startswith(text)

    assert waits.is_async
    assert asyncio.run(waits.evaluate(PARIS)).value == 1.0
    judge: Any = scorer(Judge)
    assert judge().score(PARIS).value == 1.0
    assert starts("Pa").score(PARIS).value == 1.0


def test_a_name_that_no_scorer_is_given_is_refused() -> None:
    with pytest.raises(ScorerError, match="asks for 'answer', which no scorer is given"):
        scorer(name="x")(lambda output, answer: True)
    with pytest.raises(ScorerError, match="asks for 'answer', which no scorer is given"):
        scorer(name="x")(lambda answer, output: True)


def test_retries_repeat_a_scorer_that_raises() -> None:
    calls = []

    @scorer(retries=2)
    def flaky(ctx: EvalContext) -> float:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("down")
        return 1.0

    assert flaky.score(PARIS).value == 1.0
    calls.clear()
    said = flaky.replace(retries=1).score(PARIS).error or ""
    assert said.startswith("flaky raised ConnectionError: down (at test_scorer.py:")
    assert len(calls) == 2


def test_retries_repeat_an_async_scorer_that_raises() -> None:
    calls = []

    @scorer(retries=1)
    async def flaky(output: str) -> float:
        calls.append(output)
        if len(calls) < 2:
            raise ConnectionError("down")
        return 1.0

    assert asyncio.run(flaky.evaluate(PARIS)).value == 1.0


@pytest.mark.parametrize("retries", [-1, 1.5, True, "2", None, 1000])
def test_a_number_of_retries_that_makes_no_sense_is_refused(retries: Any) -> None:
    with pytest.raises(ScorerError, match="retries is"):
        scorer(retries=retries)(of_answer)


def one(ctx: object) -> float:
    return 0.5


def two(ctx: object) -> float:
    return 0.6


class Callable:
    def __call__(self, ctx: object) -> float:
        return 0.5


def _without_source(text: str) -> Any:
    names: dict[str, Any] = {}
    exec(text, names)
    return names["f"]


def test_the_same_code_has_the_same_hash_and_other_code_another() -> None:
    assert code_hash([one]) == code_hash([one]) != code_hash([two])


@pytest.mark.parametrize("source", [one, Callable, Callable(), partial(one), len, int])
def test_everything_callable_has_a_hash_of_twelve_digits(source: object) -> None:
    digest = code_hash([source])
    assert len(digest) == 12
    int(digest, 16)


def test_code_without_a_source_file_is_hashed_by_its_bytecode() -> None:
    half = "def f(ctx):\n    return [0.5 for _ in ctx]"
    assert code_hash([_without_source(half)]) == code_hash([_without_source(half)])
    assert code_hash([_without_source(half)]) != code_hash(
        [_without_source(half.replace("0.5", "0.6"))]
    )


def test_a_class_without_a_source_file_is_hashed_by_its_methods() -> None:
    text = "class f:\n    def evaluate(self, ctx):\n        return 0.5"
    assert code_hash([_without_source(text)]) == code_hash([_without_source(text)])
    assert code_hash([_without_source(text)]) != code_hash(
        [_without_source(text.replace("0.5", "0.6"))]
    )


def test_order_and_number_of_sources_count() -> None:
    assert len({code_hash([one, two]), code_hash([two, one]), code_hash([one])}) == 3


def test_threads_may_hash_at_once() -> None:
    """The collector runs Python code in the middle of a syntax tree, so that threads change."""
    expected = code_hash([Scorer])
    threshold = gc.get_threshold()
    yield_to_others = lambda phase, info: time.sleep(0.0001)  # noqa: E731
    gc.callbacks.append(yield_to_others)
    gc.set_threshold(200)
    try:
        with ThreadPoolExecutor(4) as pool:
            hashes = list(pool.map(lambda _: code_hash([Scorer]), range(8)))
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(yield_to_others)
    assert hashes == [expected] * 8
