"""Reaching into the server: suites that name its files, code, programs, network or environment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tallymark.errors import InvalidInput
from tallymark.models.egress_policy import ALLOWANCES
from tallymark.service.app import App
from tallymark.service.remote_runs import RemoteRuns, RunWish
from tallymark.service.remote_suites import RemoteRules

SUITE = """\
metadata:
  name: s
{metadata}
evals:
  - prompt: hi
    {check}
"""
MATCH = "checks: [{match: hi}]"


def in_metadata(line: str) -> str:
    return SUITE.format(metadata=f"  {line}", check=MATCH)


def in_check(line: str) -> str:
    return SUITE.format(metadata="  description: d", check=line)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with closing(App(str(tmp_path / "tally.db"))) as opened:
        yield opened


# What is written, what the refusal says, the line of it and what would allow it.
REFUSED = [
    (in_metadata("model: python/os:getcwd"), "models of the kind python/", 3, "python"),
    (in_metadata("model: [echo/a, cmd/id]"), "models of the kind cmd/", 3, "cmd"),
    (in_metadata("model: PYTHON:os:getcwd"), "models of the kind python/", 3, "python"),
    (in_metadata("model: replay//etc/passwd"), "models of the kind replay/", 3, "files"),
    (in_metadata("judge: cmd/id"), "metadata, judge: models of the kind cmd/", 3, "cmd"),
    (in_metadata("model: http://127.0.0.1:8000/v1"), "private", 3, "private-addresses"),
    (in_metadata("model: http://[::1]/ask"), "private address", 3, "private-addresses"),
    (in_metadata("model: http://169.254.169.254/latest"), "private", 3, "private-addresses"),
    (in_metadata("judge: https://localhost/v1#m"), "private", 3, "private-addresses"),
    (in_metadata("mcp_server: {command: id}"), "MCP servers are not started", 3, "mcp"),
    (in_metadata("mcp_server: {url: 'http://10.0.0.1/'}"), "MCP servers are not", 3, "mcp"),
    (
        in_metadata("description: d").replace("evals:", "prompts: [{file: /etc/passwd}]\nevals:"),
        "prompts, file: no file of this server is read",
        4,
        "files",
    ),
    (
        in_metadata("description: d").replace("evals:", "prompts: {a: {file: x.txt}}\nevals:"),
        "prompts, file: no file of this server is read",
        4,
        "files",
    ),
    (in_check(f"cases_from: /etc/passwd.csv\n    {MATCH}"), "#1, cases_from: no file", 6, "files"),
    (in_check("scorers: [os.path:exists]"), "the scorer os.path:exists is not run", 6, "python"),
    (in_check("scorers: ['/tmp/x.py:f']"), "x.py:f is not run here for others", 6, "python"),
    (in_check("checks: [{scorer: 'evil:f(a=1)'}]"), "the scorer evil:f is not run", 6, "python"),
    (
        in_check("checks: [{scorer: {use: fact_check, options: {url: 'http://x.example'}}}]"),
        "the scorer fact_check is not run here",
        6,
        "python",
    ),
    (in_check("checks: [{json_schema: /etc/passwd}]"), "no file of this server", 6, "files"),
    (
        in_check("checks: [{or: [{json_schema: /etc/passwd}, {match: a}]}]"),
        "no file of this server",
        6,
        "files",
    ),
    (
        in_check("checks: [{scorer: {use: json_schema, options: {file: /etc/passwd}}}]"),
        "no file of this server",
        6,
        "files",
    ),
    (
        in_check("checks: [{scorer: {use: llm_judge, options: {rubric: /etc/x.toml}}}]"),
        "no file of this server",
        6,
        "files",
    ),
    (
        in_check(
            "checks: [{semantic: {expected: a, options: {model: 'http://x.example/v1/embeddings',"
            " model_name: m, api_key_env: OPENAI_API_KEY}}}]"
        ),
        "no other address is called",
        6,
        "python",
    ),
]


@pytest.mark.parametrize(("suite", "said", "line", "allowance"), REFUSED)
def test_suites_that_reach_into_the_server(
    suite: str, said: str, line: int, allowance: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        RemoteRules().load_suite(suite)
    (problem, *_) = refused.value.problems
    assert said in problem.message
    assert problem.place is not None
    assert problem.place.line == line
    assert f"TALLY_ALLOW={allowance}" in (problem.hint or "")
    try:
        RemoteRules(may=frozenset({allowance})).load_suite(suite)
    except InvalidInput as error:  # of another reason: the file is not there, or no such module
        assert "TALLY_ALLOW" not in str(error)


def test_all_that_can_be_allowed_is_tried() -> None:
    assert {allowance for *_, allowance in REFUSED} == set(ALLOWANCES)


@pytest.mark.parametrize("text", ["{{var('m')}}", "{{secret('m')}}"])
def test_what_a_template_becomes_is_refused_too(app: App, text: str) -> None:
    app.store.set_var("m", "python/os:getcwd")
    app.store.set_secret("m", "cmd/id")
    suite = in_metadata(f'model: "{text}"')
    with pytest.raises(InvalidInput, match=r"models of the kind (python|cmd)/ are not run here"):
        RemoteRuns(app, RemoteRules()).submit(suite)
    scorer = in_check(f'checks: [{{scorer: {{use: "{text}", name: n}}}}]')
    app.store.set_var("m", "os.path:exists")
    app.store.set_secret("m", "os.path:exists")
    with pytest.raises(InvalidInput, match="is not run here for others"):
        RemoteRuns(app, RemoteRules()).submit(scorer, ["echo/a"])
    assert app.store.runs() == []
    assert app.store.jobs.list() == []


@pytest.mark.parametrize("model", ["python/os:getcwd", "cmd/id", "http://127.0.0.1/v1"])
def test_models_and_judges_of_the_request_alike(app: App, model: str) -> None:
    runs = RemoteRuns(app, RemoteRules())
    with pytest.raises(InvalidInput, match="TALLY_ALLOW"):
        runs.submit(in_check(MATCH), [model])
    judged = in_check("checks: [{llm_judge: Is it polite?}]")
    with pytest.raises(InvalidInput, match="TALLY_ALLOW"):
        runs.submit(judged, ["echo/a"], RunWish(judge=model))
    named = in_check(f"checks: [{{llm_judge: {{criteria: c, model: '{model}'}}}}]")
    with pytest.raises(InvalidInput, match="TALLY_ALLOW"):
        runs.submit(named, ["echo/a"])


@pytest.mark.parametrize("kind", ["var", "secret"])
def test_the_servers_environment_is_not_seen(
    app: App, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the operator's")
    suite = in_check(MATCH).replace("prompt: hi", f"prompt: \"{{{{{kind}('OPENAI_API_KEY')}}}}\"")
    with pytest.raises(InvalidInput, match="OPENAI_API_KEY"):
        RemoteRuns(app, RemoteRules()).submit(suite, ["echo/a"])


def test_the_servers_keys_do_not_pay(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the operator's")
    monkeypatch.setenv("JUDGE_KEY", "the operator's")
    runs = RemoteRuns(app, RemoteRules())
    with pytest.raises(InvalidInput, match="store it as the secret OPENAI_API_KEY"):
        runs.submit(in_check(MATCH), ["openai/gpt-5-mini"])
    options = "{model_name: m, api_key_env: JUDGE_KEY}"
    judge = f"{{criteria: c, model: 'https://evil.example/v1', options: {options}}}"
    with pytest.raises(InvalidInput, match="the secret JUDGE_KEY is not set"):
        runs.submit(in_check(f"checks: [{{llm_judge: {judge}}}]"), ["echo/a"])


def test_too_much_is_refused(app: App) -> None:
    rules = RemoteRules(most_cases=3, most_bytes=1000)
    runs = RemoteRuns(app, rules)
    suite = in_check(MATCH)
    assert len(runs.check(suite, ["echo/a"], RunWish(epochs=3))) == 1
    for models, epochs in ((["echo/a"], 4), (["echo/a", "echo/b"], 2), (["echo/a"], 10_000)):
        with pytest.raises(InvalidInput, match="would ask more than 3 cases; ask fewer cases"):
            runs.check(suite, models, RunWish(epochs=epochs))
    with pytest.raises(InvalidInput, match=r"the suite has more than 0\.001 MB"):
        runs.check(suite + "#" * 1000, ["echo/a"])


@pytest.mark.parametrize(
    "wish", [{"epochs": 0}, {"limit": -1}, {"budget": 0.0}, {"timeout": float("nan")}]
)
def test_numbers_that_no_run_can_be_done_with(app: App, wish: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="must be more than 0"):
        RemoteRuns(app, RemoteRules()).check(in_check(MATCH), ["echo/a"], RunWish(**wish))  # type: ignore[arg-type]
