"""The evaluator `suite`: a suite of ours against an agent that a competitor names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.models.provider_server import Fail, Hang, ProviderServer, Reply

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.challenge import (
    Challenge,
    DimensionWeight,
    Evaluator,
    ScoringRule,
    Submission,
)
from tallymark.challenges.evaluators import EvaluationSetting, Submitted, evaluate
from tallymark.challenges.evaluators.suite import check
from tallymark.challenges.submitted_agents import open_agent
from tallymark.errors import InvalidInput, OrganiserFault
from tallymark.models import count_tokens

SUITE = """
metadata: {name: sums, pricing: {input: 1, output: 2}}
score: {formula: success_pct / 2}
evals:
  - {name: two, prompt: "1+1", checks: [{match: "2"}]}
  - {name: four, prompt: "2+2", checks: [{match: "4"}]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "suite.yaml").write_text(SUITE, encoding="utf-8")
    answers = tmp_path / "answers"
    answers.mkdir()
    for name, said in {"right": ("2", "4"), "half": ("2", "5")}.items():
        lines = [
            json.dumps({"prompt": prompt, "output": output, "latency": 0.5})
            for prompt, output in zip(("1+1", "2+2"), said, strict=True)
        ]
        (answers / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer() as server:
        yield server


def challenge(dimensions: tuple[str, ...] = (), **options: Any) -> Challenge:
    weights = tuple(DimensionWeight(key=key, weight=1 / len(dimensions)) for key in dimensions)
    return Challenge(
        name="sums",
        title="Sums",
        goal="Add.",
        version="v1",
        submission=Submission(format="agent"),
        evaluator=Evaluator(type="suite", options={"suite": "suite.yaml", **options}),
        scoring=ScoringRule(dimensions=weights),
    )


def run(folder: Path, agent: Any, dimensions: tuple[str, ...] = (), **options: Any) -> Evaluation:
    submitted = Submitted(answer=agent, seed=1, elapsed_ms=7, tokens_total=1, calls=3)
    return evaluate(
        submitted, EvaluationSetting(challenge=challenge(dimensions, **options), folder=folder)
    )


def test_a_sample_agent_is_replayed_where_that_is_allowed(folder: Path) -> None:
    found = run(folder, "replay/right", allow=["replay"])
    assert (found.error, found.metrics.succeeded) == (None, True)
    assert found.metrics.more == {"success_pct": 100.0, "avg_latency": 0.5, "suite_score": 50.0}
    assert found.details["cases"] == {"two": "passed", "four": "passed"}


@pytest.mark.parametrize(
    ("agent", "pass_at", "succeeded", "correctness"),
    [
        ("replay/right", 100, True, 1000.0),
        ("replay/half", 100, False, 500.0),
        ("replay/half", 50, True, 500.0),
    ],
)
def test_the_share_that_passes_decides(
    folder: Path, agent: str, pass_at: float, succeeded: bool, correctness: float
) -> None:
    found = run(folder, agent, ("correctness", "speed"), allow=["replay"], pass_at=pass_at)
    assert found.metrics.succeeded is succeeded
    assert found.dimensions == {"correctness": correctness}


def test_an_agent_is_asked_at_its_address(folder: Path, server: ProviderServer) -> None:
    server.on("1+1", Reply(output="2"))
    server.on("2+2", Reply(output="four"))
    found = run(folder, f"{server.url}/plain", allow=["local"])
    assert found.metrics.more["success_pct"] == 50.0
    assert found.metrics.elapsed_ms == 7


def test_tokens_are_counted_here_and_not_believed(folder: Path, server: ProviderServer) -> None:
    """The server claims 11 and 7 tokens for each answer."""
    server.on("1+1", Reply(output="2"))
    server.on("2+2", Reply(output="4"))
    metrics = run(folder, f"{server.url}/v1", allow=["local"]).metrics
    sent, received = (sum(map(count_tokens, texts)) for texts in (("1+1", "2+2"), ("2", "4")))
    assert metrics.tokens_total == sent + received
    assert metrics.cost == pytest.approx((sent + 2 * received) / 1e6)


def test_the_organisers_key_is_not_sent_to_a_competitor(
    folder: Path, server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLY_HTTP_KEY", "organisers-key")
    run(folder, f"{server.url}/plain", allow=["local"])
    assert server.headers
    assert not any("Authorization" in headers for headers in server.headers)


@pytest.mark.parametrize("failure", [Fail(400), Hang()], ids=["refuses", "hangs"])
def test_an_agent_that_does_not_answer_fails_the_case(
    folder: Path, server: ProviderServer, failure: Any
) -> None:
    server.on("1+1", Reply(output="2"))
    server.on("2+2", failure)
    found = run(folder, f"{server.url}/plain", allow=["local"], time_limit=1)
    assert (found.error, found.metrics.more["success_pct"]) == (None, 50.0)
    assert (found.metrics.tokens_total, found.metrics.more["suite_score"]) == (None, None)


@pytest.mark.parametrize(
    "agent",
    [
        "python/os:system",
        "cmd/echo hi",
        "PYTHON:os:system",
        "replay/../../etc/passwd",
        "replay//etc/passwd",
        "replay/none",
        "openai/gpt-5-mini",
        "echo/x",
        "nothing",
        "http://",
        "http://127.0.0.1/v1",
        "http://localhost:5432/",
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/v1",
        "http://[::1]/v1",
        "http://[::ffff:127.0.0.1]/v1",
        "http://[2002:7f00:1::]/v1",
        "http://0.0.0.0/",
        "http://0x7f.1/",
        "http://[broken",
        "file:///etc/passwd",
    ],
)
def test_what_may_not_be_submitted_scores_nothing_and_says_so(folder: Path, agent: str) -> None:
    allow = ["http", "replay"] if agent.startswith("replay") else ["http"]
    found = run(folder, agent, ("correctness", "speed"), allow=allow)
    assert (found.error, found.metrics.succeeded) == (None, False)
    assert found.dimensions == {"correctness": 0.0}
    assert {each["severity"] for each in found.warnings} == {"error"}


@pytest.mark.parametrize("kind", ["python", "cmd"])
def test_code_is_never_run_even_when_it_is_allowed_by_mistake(folder: Path, kind: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be submitted"):
        open_agent(f"{kind}/os:getcwd", allow=[kind], folder=folder)


def test_an_address_needs_to_be_allowed_too(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="by its address"):
        open_agent("http://127.0.0.1/", allow=["replay"], folder=folder)


def test_a_check_that_nobody_could_do_fails_no_attempt(folder: Path) -> None:
    text = SUITE.replace('{match: "4"}', "{llm_judge: is it right?}")
    (folder / "suite.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(OrganiserFault, match="cannot be judged now"):
        run(folder, "replay/right", allow=["replay"])


def test_a_judge_that_does_not_answer_fails_no_attempt(folder: Path) -> None:
    """The address is one that nobody listens at."""
    text = SUITE.replace("{name: sums,", "{name: sums, judge: http://127.0.0.1:9/v1,")
    text = text.replace('{match: "4"}', "{llm_judge: is it right?}")
    (folder / "suite.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(OrganiserFault, match="the judge of a case did not answer"):
        run(folder, "replay/right", allow=["replay"])


@pytest.mark.parametrize("judge", ["python/own.py:judge", "cmd/touch ran"])
@pytest.mark.parametrize("place", ["metadata", "check"])
def test_a_suites_own_judge_runs_no_code_outside_of_the_sandbox(
    folder: Path, judge: str, place: str
) -> None:
    (folder / "own.py").write_text("raise SystemExit('ran')", encoding="utf-8")
    check_ = f"{{llm_judge: {{criteria: right, model: '{judge}'}}}}"
    text = SUITE.replace('{match: "4"}', check_ if place == "check" else "{llm_judge: right}")
    if place == "metadata":
        text = text.replace("name: sums", f"name: sums, judge: '{judge}'")
    (folder / "suite.yaml").write_text(text, encoding="utf-8")
    said = "\n".join(str(each) for each in check(challenge(), folder))
    assert f"the judge {judge} would run outside of the sandbox" in said
    assert not (folder / "ran").exists()


def test_a_judge_from_outside_may_be_any(folder: Path) -> None:
    text = SUITE.replace('{match: "4"}', "{llm_judge: is it right?}")
    (folder / "suite.yaml").write_text(text, encoding="utf-8")
    setting = EvaluationSetting(
        challenge=challenge(allow=["replay"]), folder=folder, judge_model="cmd/echo met"
    )
    found = evaluate(Submitted(answer="replay/right", seed=1), setting)
    assert (found.error, found.metrics.succeeded) == (None, True)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param({"suite": "none.yaml"}, "there is no file none.yaml", id="no suite"),
        pytest.param({"suite": "../suite.yaml"}, "cannot be a file", id="elsewhere"),
        pytest.param({"allow": ["python"]}, "would run a competitor's code", id="python"),
        pytest.param({"allow": ["cmd"]}, "would run a competitor's code", id="cmd"),
        pytest.param({"allow": ["a b"]}, "is no kind of model", id="no kind"),
        pytest.param({"pass_at": 0}, "above 0 and at most 100", id="always passes"),
    ],
)
def test_wrong_options_are_told(folder: Path, options: dict[str, Any], problem: str) -> None:
    said = "\n".join(str(each) for each in check(challenge(**options), folder))
    assert problem in said


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        pytest.param("prompt:", "promt:", "promt", id="a mistake in the suite"),
        pytest.param('{match: "4"}', "{scorer: mine.py:good}", "registered names", id="own code"),
        pytest.param('"2+2"', "\"{{secret('key')}}\"", "key", id="a secret"),
        pytest.param(
            "{name: sums,",
            "{name: sums, mcp_server: {command: ls},",
            "outside of the sandbox",
            id="a command",
        ),
    ],
)
def test_a_suite_that_cannot_be_used_is_told(
    folder: Path, old: str, new: str, problem: str
) -> None:
    (folder / "mine.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    (folder / "suite.yaml").write_text(SUITE.replace(old, new), encoding="utf-8")
    said = "\n".join(str(each) for each in check(challenge(), folder))
    assert problem in said


def test_only_what_a_suite_scores_can_be_weighed(folder: Path) -> None:
    (problem,) = check(challenge(("correctness", "analysis")), folder)
    assert "no score for the dimension 'analysis'" in str(problem)


def test_an_agent_is_what_is_submitted(folder: Path) -> None:
    wrong = replace(challenge(), submission=Submission(format="json"))
    assert "submission.format: agent" in str(check(wrong, folder)[0])
