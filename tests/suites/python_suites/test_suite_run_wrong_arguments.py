"""Whatever is given where something else is wanted, the SDK says so in a sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tallymark import EvalContext, Score, Span, Suite, Test, Trace, composite, run, scorer
from tallymark.errors import TallymarkError
from tallymark.scoring import load_scorer
from tallymark.suites import ScoredTraces
from tallymark.testing import mock_context

said = scorer(name="said")(lambda ctx: True)
TEST = Test("t", "x", scorer=said)
CTX = mock_context("x")
WRONG: list[Any] = [
    None,
    -1,
    1.5,
    True,
    "x",
    "",
    b"x",
    [],
    [1],
    {},
    {"x": 1},
    object(),
    print,
    said,
]


def agent(given: Any) -> str:
    return "x"


def use(trace: Trace) -> object:
    load_scorer("word_count").score(EvalContext(trace))
    return [said.score(EvalContext(trace)), run(TEST, lambda _: trace)]


def with_one(make: Callable[..., object], *keys: str, **others: Any) -> dict[str, Any]:
    return {
        f"{getattr(make, '__name__', 'x')}({key}=)": lambda wrong, key=key: make(
            **{**others, key: wrong}
        )
        for key in keys
    }


DOORS: dict[str, Callable[[Any], object]] = {
    **with_one(EvalContext, "trace", "expected", "metadata", "config", trace=Trace()),
    **with_one(Score, *Score.__struct_fields__, value=None),
    **with_one(lambda **given: use(Trace(spans=[Span(**given)])), *Span.__struct_fields__),
    **{f"Trace {key}": lambda w, k=key: use(Trace(**{k: w})) for key in Trace.__struct_fields__},
    **with_one(
        lambda **given: run(Suite("s", [Test(**given)]), agent),
        *("name", "input", "expected", "metadata", "scorer", "scorers", "threshold", "timeout"),
        name="t",
        scorer=said,
    ),
    **{
        f"Suite {key}": lambda w, k=key: run(Suite(**{"name": "s", "tests": [TEST], k: w}), agent)
        for key in (
            *("name", "tests", "scorers", "threshold", "timeout", "parallelism", "epochs"),
            *("agent", "formula"),
        )
    },
    **{
        f"run {key}": lambda w, k=key: run(**{"suite": TEST, "agent": agent, k: w})
        for key in ("suite", "agent", "threshold", "parallelism", "epochs", "timeout", "formula")
    },
    "run on_result": lambda w: w is print or run(TEST, agent, on_result=w),
    "run store": lambda w: isinstance(w, str) or run(TEST, agent, store=w),
    "Suite.only": lambda w: Suite("s", [TEST]).only(w),
    "Suite.with_agent": lambda w: run(Suite("s", [TEST]).with_agent(w)),
    "Suite.scorers_of": lambda w: Suite("s", [TEST]).scorers_of(w),
    "EvalContext.from_dict": EvalContext.from_dict,
    "Trace.from_dict": Trace.from_dict,
    "composite of": composite,
    "composite part": lambda w: composite([w]),
    "composite weight": lambda w: composite([(said, w)]),
    **{
        f"composite {key}": lambda w, k=key: composite([said], **{k: w}).score(CTX)
        for key in ("name", "on_error", "formula", "description", "threshold")
    },
    "scorer of": scorer,
    "scorer unknown": lambda w: scorer(wrong=w)(lambda ctx: True),  # type: ignore[call-overload]
    **{
        f"scorer {key}": lambda w, k=key: scorer(**{"name": "q", k: w})(lambda ctx: True).score(CTX)
        for key in (
            *("name", "description", "data_type", "threshold", "labels", "blocking", "version"),
            *("retries", "gives"),
        )
    },
    **{
        f"replace {key}": lambda w, k=key: said.replace(**{k: w})
        for key in ("name", "threshold", "retries", "gives", "config")
    },
    "Scorer.score": said.score,
    "Scorer.score of ours": load_scorer("word_count").score,
    "Scorer.evaluate": lambda w: asyncio.run(said.evaluate(w)),
    "Scorer.evaluate timeout": lambda w: asyncio.run(said.evaluate(CTX, timeout=w)),
    "load_scorer": load_scorer,
    "regex_match name": lambda w: load_scorer("regex_match", pattern="a", name=w),
    "ScoredTraces of": lambda w: list(ScoredTraces(w, [said])),
    "ScoredTraces trace": lambda w: list(ScoredTraces([w], [said])),
    "ScoredTraces scorers": lambda w: list(ScoredTraces([Trace()], w)),
    "ScoredTraces scorer": lambda w: list(ScoredTraces([Trace()], [w])),
    **{
        f"ScoredTraces {key}": lambda w, k=key: list(ScoredTraces([Trace()], [said], **{k: w}))
        for key in ("name", "formula", "threshold", "timeout", "expected")
    },
    **{
        f"mock_context {key}": lambda w, k=key: said.score(mock_context(**{k: w}))
        for key in ("output", "input", "tools", "trace", "expected", "metadata", "config")
    },
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_wrong_argument_gets_a_sentence(door: Callable[[Any], object]) -> None:
    for wrong in WRONG:
        try:
            given = door(wrong)
        except TallymarkError as error:
            assert len(str(error)) > 10
        else:
            assert "AttributeError" not in repr(given)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: run("help desk", agent), "'help desk' is neither a Suite nor Tests"),  # type: ignore[arg-type]
        (lambda: run(TEST, "agent.py"), "the agent must be a function"),  # type: ignore[arg-type]
        (lambda: said.score("Hello"), "said scores an EvalContext, not 'Hello'"),  # type: ignore[arg-type]
        (lambda: composite("word_count"), "the parts are a list of scorers, not 'word_count'"),
        (lambda: EvalContext("x"), "context: trace must be a Trace, not 'x'"),  # type: ignore[arg-type]
        (lambda: Suite("s", TEST, scorers=7), "scorers must be a mapping or a list, not 7"),  # type: ignore[arg-type]
        (
            lambda: scorer(thresold=1)(agent),
            "@scorer takes no 'thresold'; did you mean 'threshold'?",
        ),  # type: ignore[call-overload]
    ],
)
def test_the_sentence_says_what_is_wrong(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(TallymarkError) as error:
        call()
    assert sentence in str(error.value)


def test_values_of_the_wrong_kind_in_a_trace_are_named() -> None:
    done = run(TEST, lambda given: Trace(spans=[Span(cost="much")]))  # type: ignore[arg-type]
    assert "spans[0].cost must be a finite number" in (done.results[0].error or "")
    with pytest.raises(TallymarkError, match=r"spans\[0\].cost must be a finite number"):
        list(ScoredTraces([Trace(spans=[Span(cost="much")])], [said]))  # type: ignore[arg-type]
