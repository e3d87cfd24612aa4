"""One run, three doors: a suite in YAML, a suite in Python and traces of the same answers agree."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.service.test_suite_runs import Silent

from tallymark.errors import InvalidInput
from tallymark.runs.comparison import compare
from tallymark.runs.run import Run
from tallymark.scoring import EvalContext, Score, Scorer, load_scorer, scorer
from tallymark.service.app import App
from tallymark.service.suite_runs import RunOptions
from tallymark.suites import ScoredTraces, Suite, Test, run
from tallymark.suites.suite_file import load_suite
from tallymark.traces import Span, Trace

FORMULA = "success_pct * said + 10 * a - total_latency / 7"
SCORERS = """
from tallymark import Score, scorer

@scorer(blocking=False, threshold=0.5)
def said(ctx):
    return Score(float(ctx.output.split()[0]), "as it said")

@scorer(blocking=False, data_type="categorical")
def tone(ctx):
    return str(ctx.output).split()[1]
"""


@scorer(blocking=False, threshold=0.5)
def said(ctx: EvalContext) -> Score:
    return Score(float(ctx.output.split()[0]), "as it said")


@scorer(blocking=False, data_type="categorical")
def tone(ctx: EvalContext) -> str:
    return str(ctx.output).split()[1]


JUDGES: tuple[Scorer, ...] = (said, tone)

Answer = Mapping[str, Any]
Cases = dict[str, list[Answer]]
"""The answers to each case, one an epoch."""
# Times are eighths of a second, so that milliseconds and seconds are the same to the last digit.
ANSWERS: st.SearchStrategy[Answer] = st.fixed_dictionaries(
    {
        "output": st.sampled_from(["0 calm", "0.25 calm", "0.5 curt", "1 curt", "rubbish calm"]),
        "latency": st.integers(1, 40).map(lambda eighths: eighths / 8),
        "cost": st.sampled_from([0.1, 0.003, None]),
    }
)


@st.composite
def cases(draw: st.DrawFn) -> Cases:
    names = draw(st.lists(st.sampled_from(["b", "c", "d"]), unique=True))
    epochs = draw(st.integers(1, 3))
    asked = st.lists(ANSWERS, min_size=epochs, max_size=epochs)
    return {name: draw(asked) for name in ["a", *names]}


def by_yaml(given: Cases, folder: Path, app: App) -> Run:
    epochs = len(given["a"])
    (folder / "judges.py").write_text(SCORERS)
    lines = [
        json.dumps({"prompt": name, "epoch": epoch, **answer})
        for name, answers in given.items()
        for epoch, answer in enumerate(answers)
    ]
    (folder / "recorded.jsonl").write_text("\n".join(lines))
    scorers = [{"use": "judges.py:said"}, {"use": "judges.py:tone"}]
    document = {
        "metadata": {"name": "law", "model": "replay/recorded.jsonl", "epochs": epochs},
        "evals": [
            {"name": name, "prompt": name, "checks": [{"scorer": each} for each in scorers]}
            for name in given
        ],
        "score": {"formula": FORMULA},
    }
    (folder / "suite.yaml").write_text(json.dumps(document))
    options = RunOptions()
    (found,) = app.runs.run(load_suite(folder / "suite.yaml"), [], options, Silent())
    return found


def by_python(given: Cases, app: App) -> Run:
    asked = {name: iter(answers) for name, answers in given.items()}

    def agent(name: str) -> Trace:
        answer = next(asked[name])
        return Trace(duration_ms=answer["latency"] * 1000, spans=[_span(answer)])

    suite = Suite("law", [Test(name, name) for name in given], scorers={j.name: j for j in JUDGES})
    epochs = len(given["a"])
    return run(suite, agent, epochs=epochs, parallelism=1, formula=FORMULA, store=app.store)


def by_traces(given: Cases, app: App) -> Run:
    scored = ScoredTraces(_traces(given), JUDGES, store=app.store)
    list(scored)
    # Names of traces are not known before they are read, so such a formula comes afterwards.
    return app.runs.rescore_run(scored.run.record.id, formula=FORMULA)[1]


def _traces(given: Cases) -> Iterator[Trace]:
    for name, answers in given.items():
        for epoch, answer in enumerate(answers):
            yield Trace(
                trace_id=f"t{epoch}",
                name=name,
                duration_ms=answer["latency"] * 1000,
                spans=[_span(answer)],
            )


def _span(answer: Answer) -> Span:
    return Span(span_type="generation", output=answer["output"], cost=answer["cost"])


@settings(max_examples=15, deadline=None)
@given(cases())
def test_every_door_gives_the_same_numbers(given: Cases) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        app = App(str(folder / "tally.db"))
        try:
            runs = [by_yaml(given, folder, app), by_python(given, app), by_traces(given, app)]
            first = runs[0]
            for other in runs[1:]:
                assert other.metrics == first.metrics
                assert (other.score, other.record.score_error) == (
                    first.score,
                    first.record.score_error,
                )
                assert other.counts == first.counts
                assert other.record.status == first.record.status
                assert statuses(other) == statuses(first)
                assert other.scorers == first.scorers or repeated(given)
            kept = [app.load_run(each.record.id) for each in runs]
            assert [each.metrics for each in kept] == [first.metrics] * 3
        finally:
            app.close()


ASKING = """
metadata: {name: asking, retries: 0}
evals:
  - prompt: "Who is {{var('who')}}, by {{secret('KEY')}}?"
    checks: [{match: "*"}]
  - turns:
      - user: My name is Ada.
      - {user: And yours?, assistant: Echo.}
      - user: What is my name?
    checks: [{match: "*"}]
  - prompt: "Is it {{var('n')}}?"
    cases_from: rows.csv
    checks: [{regex: "{{var('n')}}"}]
"""


@pytest.mark.parametrize("model", ["echo/x", "python/agents.py:broken"])
def test_a_suite_keeps_what_was_asked_also_where_it_could_not_run(
    tmp_path: Path, model: str
) -> None:
    (tmp_path / "suite.yaml").write_text(ASKING)
    (tmp_path / "rows.csv").write_text("n\n7\n(\n")  # a row that makes its check invalid
    (tmp_path / "agents.py").write_text("def broken(asked):\n    raise OSError('down')\n")
    app = App(str(tmp_path / "tally.db"))
    options = RunOptions(values={"who": "Ada", "KEY": "abcdef-secret"})
    (found,) = app.runs.run(load_suite(tmp_path / "suite.yaml"), [model], options, Silent())
    asked = {
        "#1": "Who is Ada, by ***KEY***?",
        "#2": "My name is Ada.\n\nAnd yours?\n\nWhat is my name?",
        "#3[1]": "Is it 7?",
        "#3[2]": "Is it (?",
    }
    assert {each.case: each.input for each in found.results} == asked
    assert found.results[-1].status == "error"
    kept = app.load_run(found.record.id).results
    assert {each.case: each.input for each in kept} == asked
    app.close()


def test_a_trace_tells_what_was_asked(tmp_path: Path) -> None:
    traces = [
        Trace(trace_id="t1", spans=[Span(input="Why?"), _span({"output": "1 x", "cost": 0.1})]),
        Trace(trace_id="t2", spans=[_span({"output": "0 x", "cost": 0.1})]),
    ]
    scored = ScoredTraces(traces, JUDGES, store=str(tmp_path / "tally.db"))
    assert [(each.case, each.input) for each in scored] == [("#t1", "Why?"), ("#t2", "")]
    app = App(str(tmp_path / "tally.db"))
    assert [each.input for each in app.load_run(scored.run.record.id).results] == ["Why?", ""]
    app.close()


QUESTION = "Refund order 17"
CALLED = {"name": "refund", "arguments": {"order": 17}, "result": "done"}
AGENT_SPANS = [
    {"span_type": "tool", "tool_name": "refund", "input": '{"order":17}'},
    {"span_type": "generation", "input": "USER SAYS: Refund order 17", "output": "Refunded."},
]
RETURNED: dict[str, Any] = {
    "tool calls": {"output": "Refunded.", "tool_calls": [CALLED]},
    "spans": {"output": "Refunded.", "spans": AGENT_SPANS},
    "a trace": Trace.from_dict({"spans": AGENT_SPANS}),
}
SHOWN = """
from tallymark import Score, scorer

@scorer(blocking=False)
def shown(ctx):
    return Score(1.0, f"{ctx.input} | {ctx.input_text} | {ctx.trace.first_input} | {ctx.output}")
"""


@pytest.mark.parametrize("returned", RETURNED.values(), ids=RETURNED)
@pytest.mark.parametrize("door", ["yaml", "python", "traces"])
def test_scorers_see_the_users_question_and_not_what_a_tool_was_given(
    tmp_path: Path, door: str, returned: Any
) -> None:
    (tmp_path / "judges.py").write_text(SHOWN)
    judge = load_scorer(f"{tmp_path / 'judges.py'}:shown")
    app = App(str(tmp_path / "tally.db"))
    if door == "yaml":
        told = repr(returned if isinstance(returned, dict) else returned.to_dict())
        made = "" if isinstance(returned, dict) else "Trace.from_dict"
        (tmp_path / "agent.py").write_text(
            f"from tallymark.traces import Trace\ndef answer(asked):\n    return {made}({told})\n"
        )
        (tmp_path / "suite.yaml").write_text(
            "metadata: {name: desk}\nevals:\n  - prompt: Refund order 17\n"
            "    checks: [{scorer: {use: 'judges.py:shown'}}]\n"
        )
        suite = load_suite(tmp_path / "suite.yaml")
        model = f"python/{tmp_path / 'agent.py'}:answer"
        (found,) = app.runs.run(suite, [model], RunOptions(), Silent())
    elif door == "python":
        tests = Suite("desk", [Test("a", QUESTION)], scorers={"shown": judge})
        found = run(tests, lambda asked: returned, store=app.store)
    else:
        known = returned if isinstance(returned, dict) else returned.to_dict()
        scored = ScoredTraces(
            [Trace.from_dict({"question": QUESTION, **known})], [judge], store=app.store
        )
        list(scored)
        found = scored.run
    for each in (found, app.load_run(found.record.id)):
        (result,) = each.results
        assert (result.input, result.output) == (QUESTION, "Refunded.")
        assert result.checks[0].reason == f"{QUESTION} | {QUESTION} | {QUESTION} | Refunded."
        assert result.trace is not None
        assert (result.trace.first_input, result.trace.tool_names) == (QUESTION, ["refund"])
    app.close()


NAMED = """
from tallymark import scorer
from tallymark.scoring import configurable

@scorer(name="politeness", blocking=False)
def polite(ctx):
    return 1.0

@configurable(name="length", blocking=False)
def long(least):
    return lambda ctx: 0.5

@scorer(name="both", gives=["warmth", "wit"], blocking=False)
def several(ctx):
    return {"warmth": 1.0, "wit": 0.0}
"""
REFERENCES = ["judges.py:polite", "judges.py:long(least=3)", "judges.py:several"]
NAMES = {"politeness": 1.0, "length": 0.5, "warmth": 1.0, "wit": 0.0}


@pytest.mark.parametrize("door", ["yaml", "python", "traces"])
def test_a_scorer_has_the_name_that_its_code_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "judges.py").write_text(NAMED)
    app = App(str(tmp_path / "tally.db"))
    formula = "politeness + length + warmth + wit"
    if door == "yaml":
        # A part of an `or`, and an option that only a run knows, are named all the same.
        uses = [{"or": [{"scorer": REFERENCES[0]}]}, {"scorer": REFERENCES[2]}]
        option = {"least": "{{var('least')}}"}
        uses.append({"scorer": {"use": "judges.py:long", "options": option, "threshold": 0}})
        document = {
            "metadata": {"name": "s"},
            "evals": [{"prompt": "Hi", "checks": uses}],
            "score": {"formula": formula},
        }
        (tmp_path / "s.yaml").write_text(json.dumps(document))
        options = RunOptions(values={"least": "3"})
        (found,) = app.runs.run(load_suite("s.yaml"), ["echo/x"], options, Silent())
        found = app.runs.rescore_run(found.record.id, formula=formula)[1]
    else:
        scorers = [load_scorer(each) for each in REFERENCES]
        if door == "python":
            suite = Suite("s", [Test("a", "Hi")], scorers=scorers)
            found = run(suite, lambda asked: asked, formula=formula, store=app.store)
        else:
            record = {"input": "Hi", "output": "Hi"}
            scored = ScoredTraces([Trace.from_dict(record)], scorers, formula=formula)
            list(scored)
            found = scored.run
    assert {name: each.mean for name, each in found.scorers.items()} == NAMES
    assert found.score == 2.5
    app.close()


def statuses(found: Run) -> dict[str, list[str]]:
    """How each eval ended, epoch by epoch."""
    told: dict[str, list[str]] = {}
    for result in found.results:
        told.setdefault(result.case.partition("[")[0], []).append(result.status)
    return {name: sorted(each) for name, each in told.items()}


def repeated(given: Cases) -> bool:
    """Traces know no epochs: each is a case of its own, and so an interval is narrower."""
    return len(given["a"]) > 1


def test_an_agent_that_cannot_answer_is_an_error_by_both_doors(tmp_path: Path) -> None:
    """The trial that found two engines: one pass after 0.1 s, one error after 0.6 s."""
    app = App(str(tmp_path / "tally.db"))
    good = {"output": "1 calm", "latency": 0.125, "cost": 0.1}
    yaml = by_yaml(
        {"a": [good], "b": [{"error": "no connection", "latency": 0.625}]}, tmp_path, app
    )

    def agent(name: str) -> Trace:
        if name == "b":
            raise ConnectionError("no connection")
        return Trace(duration_ms=125, spans=[_span(good)])

    suite = Suite("law", [Test("a", "a"), Test("b", "b")], scorers={"said": said, "tone": tone})
    python = run(suite, agent, formula=FORMULA)
    assert python.metrics == yaml.metrics
    assert python.metrics["avg_latency"] == 0.125
    assert (python.score, python.counts) == (yaml.score, yaml.counts)
    app.close()


def test_runs_of_different_doors_can_be_compared(tmp_path: Path) -> None:
    app = App(str(tmp_path / "tally.db"))
    good = {"output": "1 calm", "latency": 0.125, "cost": 0.1}
    bad = {"output": "0 curt", "latency": 0.125, "cost": 0.1}
    yaml, python = by_yaml({"a": [good]}, tmp_path, app), by_python({"a": [bad]}, app)
    found = compare(yaml, python)
    assert [(change.case, change.kind) for change in found.changes] == [("a", "broken")]
    assert found.changes[0].reason == "said: 0 (needs 0.5): as it said"
    app.close()


@pytest.mark.parametrize("door", ["python", "traces"])
def test_what_was_not_a_suite_in_yaml_is_not_resumed(tmp_path: Path, door: str) -> None:
    app = App(str(tmp_path / "tally.db"))
    given: Cases = {"a": [{"output": "1 calm", "latency": 0.125, "cost": 0.1}]}
    found = by_python(given, app) if door == "python" else by_traces(given, app)
    with pytest.raises(InvalidInput, match="only runs of YAML suites can continue"):
        app.runs.resume(found.record.id, RunOptions(), Silent())
    app.close()
