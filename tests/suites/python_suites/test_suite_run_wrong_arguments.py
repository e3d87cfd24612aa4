"""Whatever is given where something else is wanted, the SDK says so in a sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
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


def untyped(value: Any) -> Any:
    """For what the type checker would refuse."""
    return value


def agent(given: Any) -> str:
    return "x"


def use(trace: Trace) -> object:
    load_scorer("word_count").score(EvalContext(trace))
    return [said.score(EvalContext(trace)), run(TEST, lambda _: trace)]


def fill(make: Callable[..., object], key: str, others: dict[str, Any], wrong: Any) -> object:
    return make(**{**others, key: wrong})


def each(door: str, make: Callable[..., object], keys: str, /, **others: Any) -> dict[str, Any]:
    """A door for every key, with the other arguments as they should be."""
    return {f"{door} {key}": partial(fill, make, key, others) for key in keys.split()}


def make_scorer(**facts: Any) -> Score:
    make: Any = scorer(**facts)
    made: Score = make(lambda ctx: True).score(CTX)
    return made


DOORS: dict[str, Callable[[Any], object]] = {
    **each("EvalContext", EvalContext, "trace expected metadata config", trace=Trace()),
    **each("Score", Score, " ".join(Score.__struct_fields__), value=None),
    **each("Span", lambda **it: use(Trace(spans=[Span(**it)])), " ".join(Span.__struct_fields__)),
    **each("Trace", lambda **it: use(Trace(**it)), " ".join(Trace.__struct_fields__)),
    **each(
        "Test",
        lambda **it: run(Suite("s", [Test(**it)]), agent),
        "name input expected metadata scorer scorers threshold timeout",
        name="t",
        scorer=said,
    ),
    **each(
        "Suite",
        lambda **it: run(Suite(**it), agent),
        "name tests scorers threshold timeout parallelism epochs agent formula",
        name="s",
        tests=[TEST],
    ),
    **each(
        "run",
        run,
        "suite agent threshold parallelism epochs timeout formula",
        suite=TEST,
        agent=agent,
    ),
    "run on_result": lambda wrong: wrong is print or run(TEST, agent, on_result=wrong),
    "run store": lambda wrong: isinstance(wrong, str) or run(TEST, agent, store=wrong),
    "Suite.only": lambda wrong: Suite("s", [TEST]).only(wrong),
    "Suite.with_agent": lambda wrong: run(Suite("s", [TEST]).with_agent(wrong)),
    "Suite.scorers_of": lambda wrong: Suite("s", [TEST]).scorers_of(wrong),
    "EvalContext.from_dict": EvalContext.from_dict,
    "Trace.from_dict": Trace.from_dict,
    "composite of": composite,
    "composite part": lambda wrong: composite([wrong]),
    "composite weight": lambda wrong: composite([(said, wrong)]),
    **each(
        "composite",
        lambda **it: composite([said], **it).score(CTX),
        "name on_error formula description threshold",
    ),
    "scorer of": scorer,
    **each(
        "scorer",
        make_scorer,
        "name description data_type threshold labels blocking version retries gives unknown",
        name="q",
    ),
    **each("replace", said.replace, "name threshold retries gives config"),
    "Scorer.score": said.score,
    "Scorer.score of ours": load_scorer("word_count").score,
    "Scorer.evaluate": lambda wrong: asyncio.run(said.evaluate(wrong)),
    "Scorer.evaluate timeout": lambda wrong: asyncio.run(said.evaluate(CTX, timeout=wrong)),
    "load_scorer": load_scorer,
    "regex_match name": lambda wrong: load_scorer("regex_match", pattern="a", name=wrong),
    **each(
        "ScoredTraces",
        lambda **it: list(ScoredTraces(**it)),
        "traces scorers name formula threshold timeout expected",
        traces=[Trace()],
        scorers=[said],
    ),
    "ScoredTraces trace": lambda wrong: list(ScoredTraces([wrong], [said])),
    "ScoredTraces scorer": lambda wrong: list(ScoredTraces([Trace()], [wrong])),
    **each(
        "mock_context",
        lambda **it: said.score(mock_context(**it)),
        "output input tools trace expected metadata config",
    ),
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
        (lambda: run(untyped("help desk"), agent), "'help desk' is neither a Suite nor Tests"),
        (lambda: run(TEST, untyped("agent.py")), "the agent must be a function"),
        (lambda: said.score(untyped("Hello")), "said scores an EvalContext, not 'Hello'"),
        (lambda: composite("word_count"), "the parts are a list of scorers, not 'word_count'"),
        (lambda: EvalContext(untyped("x")), "context: trace must be a Trace, not 'x'"),
        (
            lambda: Suite("s", untyped(TEST), scorers=untyped(7)),
            "scorers must be a mapping or a list, not 7",
        ),
        (
            lambda: make_scorer(thresold=1),
            "@scorer takes no 'thresold'; did you mean 'threshold'?",
        ),
    ],
)
def test_the_sentence_says_what_is_wrong(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(TallymarkError) as error:
        call()
    assert sentence in str(error.value)


def test_values_of_the_wrong_kind_in_a_trace_are_named() -> None:
    done = run(TEST, lambda given: Trace(spans=[Span(cost=untyped("much"))]))
    assert "spans[0].cost must be a finite number" in (done.results[0].error or "")
    with pytest.raises(TallymarkError, match=r"spans\[0\].cost must be a finite number"):
        list(ScoredTraces([Trace(spans=[Span(cost=untyped("much"))])], [said]))
