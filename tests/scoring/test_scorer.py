from __future__ import annotations

import asyncio
import contextlib
import copy
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from tallymark.errors import ScorerError
from tallymark.scoring import EvalContext, Score, Scorer, composite, scorer
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
def test_whatever_a_scorer_raises_is_its_own_failed_score(
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
def test_only_a_scorer_said_not_to_block_runs_in_the_loops_thread(
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


def test_what_a_scorer_changes_reaches_nobody_else() -> None:
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
