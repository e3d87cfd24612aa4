from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tallymark.scorers.adapters import from_deepeval  # isort: skip (tells deepeval to be quiet)

from deepeval.metrics import BaseMetric, ExactMatchMetric, PatternMatchMetric, ToolCorrectnessMetric
from deepeval.models import DeepEvalBaseLLM
from deepeval.test_case import LLMTestCase, ToolCallParams
from tests.scorers.contexts import NOTHING, called, model, ran, said, tool

from tallymark.errors import ScorerError
from tallymark.scoring import EvalContext, Expected, load_scorer
from tallymark.traces import Span, Trace


class NoModel(DeepEvalBaseLLM):  # type: ignore[misc]
    """Stands where a metric wants a model that it does not call."""

    def load_model(self) -> Any:
        return None

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("no model is needed")

    async def a_generate(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("no model is needed")

    def get_model_name(self) -> str:
        return "none"


class Looks(BaseMetric):  # type: ignore[misc]
    """Keeps the test case it saw, and gives what it was told to."""

    def __init__(self, gives: Any = 1.0, threshold: float = 0.5, error: str | None = None) -> None:
        self.gives = gives
        self.threshold = threshold
        self.error = error
        self.seen: list[LLMTestCase] = []

    def measure(self, test_case: LLMTestCase, *args: Any, **kwargs: Any) -> float:
        self.seen.append(test_case)
        self.score = self.gives
        self.reason = "as told"
        self.success = self.is_successful()
        return self.gives  # type: ignore[no-any-return]

    async def a_measure(self, test_case: LLMTestCase, *args: Any, **kwargs: Any) -> float:
        await asyncio.sleep(0)
        return self.measure(test_case)

    @property
    def __name__(self) -> str:
        return "Looks At It"


class SyncOnly(BaseMetric):  # type: ignore[misc]
    def __init__(self) -> None:
        self.threshold = 0.5

    def measure(self, test_case: LLMTestCase) -> float:
        self.score = 0.75
        return self.score


@pytest.mark.parametrize(
    ("metric", "ctx", "value", "success"),
    [
        (ExactMatchMetric(), said("yes", output="yes"), 1.0, True),
        (ExactMatchMetric(), said("yes", output="no"), 0.0, False),
        (ExactMatchMetric(), said("42", output=42), 1.0, True),
        (PatternMatchMetric(r"\d+"), said("42"), 1.0, True),
        (PatternMatchMetric(r"\d+"), said("none"), 0.0, False),
        (ToolCorrectnessMetric(model=NoModel()), called("a", "b", tool_calls=["a"]), 1.0, True),
        (ToolCorrectnessMetric(model=NoModel()), called("b", tool_calls=["a"]), 0.0, False),
        (ToolCorrectnessMetric(model=NoModel()), called("a", tool_calls=["a", "b"]), 0.5, True),
    ],
)
def test_it_gives_what_deepeval_gives(
    metric: Any, ctx: EvalContext, value: float, success: bool
) -> None:
    score = from_deepeval(metric).score(ctx)
    assert score.error is None
    assert score.value == value
    assert score.metadata["success"] is success
    assert score.metadata["threshold"] == metric.threshold
    assert score.reason


def test_expected_arguments_are_compared() -> None:
    params = [ToolCallParams.INPUT_PARAMETERS]
    scorer = from_deepeval(ToolCorrectnessMetric(model=NoModel(), evaluation_params=params))
    expected = [{"name": "pay", "arguments": {"to": "bob"}}]
    assert scorer.score(ran(tool("pay", '{"to": "bob"}'), tool_calls=expected)).value == 1.0
    assert scorer.score(ran(tool("pay", '{"to": "eve"}'), tool_calls=expected)).value == 0.0


@pytest.mark.parametrize(
    ("metric", "ctx", "words"),
    [
        (ExactMatchMetric(), said("x"), "'expected_output' cannot be None"),
        (ExactMatchMetric(), NOTHING, "'actual_output' cannot be empty"),
        (ToolCorrectnessMetric(model=NoModel()), said("x"), "'expected_tools' cannot be None"),
        (Looks(None), said("x"), "Looks At It gave no score: it does not say why"),
        (Looks(None, error="broke"), said("x"), "Looks At It gave no score: broke"),
        (Looks(7.5), said("x"), "returned 7.5 instead of a number from 0 to 1"),
        (Looks(float("nan")), said("x"), "finite number, not nan"),
    ],
)
def test_what_is_no_score_is_a_failed_one(metric: Any, ctx: EvalContext, words: str) -> None:
    score = from_deepeval(metric).score(ctx)
    assert score.value is None
    assert words in str(score.error)


def test_the_test_case_has_all_parts_of_the_trace() -> None:
    trace = Trace(
        name="case 1",
        duration_ms=500,
        spans=[
            Span(span_type="retrieval", input="in", output="found"),
            tool("search", '{"q": 1}', tool_output="hit"),
            model("out", cost=0.25, input_tokens=3, output_tokens=4),
        ],
    )
    expected = Expected(output={"a": 1}, tool_calls=["search"])
    metric = Looks()
    from_deepeval(metric).score(EvalContext(trace, expected, {"context": "truth", "level": 2}))
    (case,) = metric.seen
    assert (case.name, case.input, case.actual_output) == ("case 1", "in", "out")
    assert (case.expected_output, case.context) == ('{"a": 1}', ["truth"])
    assert case.retrieval_context == ["found"]
    assert (case.token_cost, case.input_token_count, case.output_token_count) == (0.25, 3, 4)
    assert (case.completion_time, (case.metadata or {})["level"]) == (0.5, 2)
    (call,) = case.tools_called or []
    assert (call.name, call.input_parameters, call.output) == ("search", {"q": 1}, "hit")
    assert [each.name for each in case.expected_tools or []] == ["search"]


def test_parts_that_the_trace_does_not_record_are_none() -> None:
    metric = Looks()
    from_deepeval(metric).score(NOTHING)
    (case,) = metric.seen
    assert (case.input, case.actual_output, case.tools_called) == ("", "", None)
    assert (case.expected_output, case.expected_tools, case.retrieval_context) == (None,) * 3


def test_a_metric_is_not_changed_and_scores_do_not_mix() -> None:
    metric = ExactMatchMetric()
    scorer = from_deepeval(metric)

    async def all_of_them() -> list[float | None]:
        contexts = [said(str(n % 2), output="1") for n in range(20)]
        return [each.value for each in await asyncio.gather(*map(scorer.evaluate, contexts))]

    assert asyncio.run(all_of_them()) == [float(n % 2) for n in range(20)]
    assert metric.score is None


def test_a_metric_without_an_async_side_runs_in_a_thread() -> None:
    scorer = from_deepeval(SyncOnly)
    assert scorer.blocking
    assert scorer.name == "sync_only"
    assert asyncio.run(scorer.evaluate(said("x"))).value == 0.75


@pytest.mark.parametrize(
    ("metric", "threshold", "expected"),
    [
        (ExactMatchMetric(threshold=0.9), None, 0.9),
        (ExactMatchMetric(threshold=0.9), 0.3, 0.3),
        ("ExactMatchMetric", None, 1.0),
        ("ExactMatchMetric", 0.3, 0.3),
    ],
)
def test_its_threshold_is_the_scorers(
    metric: Any, threshold: float | None, expected: float
) -> None:
    assert from_deepeval(metric, threshold=threshold).threshold == expected


def test_a_threshold_with_a_name_is_the_metrics_too() -> None:
    score = from_deepeval("ExactMatchMetric", threshold=0.3).score(said("a", output="a"))
    assert score.metadata["threshold"] == 0.3


@pytest.mark.parametrize(
    "given", [PatternMatchMetric("a+"), PatternMatchMetric, "PatternMatchMetric"]
)
def test_an_instance_a_class_and_a_name_are_the_same(given: Any) -> None:
    options: dict[str, Any] = {} if isinstance(given, BaseMetric) else {"pattern": "a+"}
    scorer = from_deepeval(given, **options)
    assert scorer.name == "pattern_match"
    assert scorer.origin.config["pattern"] == "a+"
    assert scorer.origin.config["library"].startswith("deepeval ")
    assert scorer.score(said("aaa")).value == 1.0


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ('deepeval(name="ExactMatchMetric")', "exact_match"),
        ('deepeval(metric="PatternMatchMetric", pattern="b", threshold=0.5, name="b")', "b"),
    ],
)
def test_the_registry_reaches_it(reference: str, name: str) -> None:
    scorer = load_scorer(reference)
    assert scorer.name == name
    assert scorer.score(said("b", output="b")).value == 1.0


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ("ExactMatchMetrc", {}, "did you mean 'ExactMatchMetric'"),
        ("ConversationalGEval", {}, "has no 'ConversationalGEval' of this kind"),
        ("PatternMatchMetric", {}, "PatternMatchMetric cannot be made: TypeError"),
        (ExactMatchMetric(), {"flaky": True}, "which has its own"),
        (42, {}, "is not a DeepEval metric of single turns"),
    ],
)
def test_what_cannot_be_wrapped_is_refused(given: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ScorerError, match=words):
        from_deepeval(given, **options)


@pytest.mark.proof
def test_it_is_silent_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """No network, no folder, no warning, no word on the screen."""
    code = """
import socket

def refused(*address):
    raise AssertionError(f"the network was used: {address}")

socket.socket.connect = socket.getaddrinfo = refused
from tallymark.scorers.adapters import from_deepeval
from tallymark.scoring import EvalContext, Expected
from tallymark.traces import Span, Trace
ctx = EvalContext(Trace(spans=[Span(span_type="generation", output="a")]), Expected(output="a"))
scorer = from_deepeval("ExactMatchMetric")
assert [scorer.score(ctx).value for _ in range(3)] == [1.0] * 3
from deepeval.telemetry import flush_standalone_metrics, get_backend
flush_standalone_metrics()
assert type(get_backend()).__name__ == "NoopBackend"
"""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DEEPEVAL")}
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={**environment, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_the_users_own_telemetry_setting_is_respected() -> None:
    code = "import os, tallymark.scorers.adapters; print(os.environ['DEEPEVAL_TELEMETRY_OPT_OUT'])"
    finished = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "DEEPEVAL_TELEMETRY_OPT_OUT": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout.strip() == "0"
