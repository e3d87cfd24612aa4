"""`tally init, validate, run, runs, show, compare, rescore`, as an eval engineer uses them."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tests.cli.tally_process import TALLY, Tally

EXAMPLES = Path(__file__).parents[2] / "examples" / "suites"


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    shutil.copytree(EXAMPLES, tmp_path / "suites")
    return Tally(tmp_path)


def test_init_writes_a_suite_that_validates_and_runs(tally: Tally) -> None:
    assert tally("init").returncode == 0
    assert tally("validate", "suite.yaml").stdout.startswith("suite.yaml: valid, 3 cases")
    done = tally("run", "suite.yaml")
    assert done.returncode == 0, done.stderr
    assert "=== Run Summary ===\nScore: 100" in done.stdout
    again = tally("init")
    assert (again.returncode, again.stderr) == (
        2,
        "tally: suite.yaml exists already; name another file, or add --force\n",
    )


def test_the_documents_suites_run_as_they_stand(tally: Tally) -> None:
    for name in ("my-eval-suite", "cost-efficient-eval", "weighted-cost-eval"):
        done = tally("run", f"suites/{name}.yaml", "-m", "replay/careful", "--json")
        (run,) = json.loads(done.stdout)["runs"]
        assert run["status"] == "completed"
        assert run["score"] > 0
        assert run["score_formula"]


def test_the_summary_is_that_of_the_document(tally: Tally) -> None:
    done = tally("run", "suites/cost-efficient-eval.yaml", "-m", "replay/careful")
    lines = done.stdout.splitlines()
    place = lines.index("=== Run Summary ===")
    assert lines[place + 1].startswith("Score: ")
    assert lines[place + 1].endswith("(formula: success_pct / total_cost)")
    assert any(line.startswith("Success Rate: 100.0%") for line in lines)
    assert any(line.startswith("Total Cost: $0.0003") for line in lines)


def test_two_models_are_compared(tally: Tally) -> None:
    done = tally("run", "suites/support-desk.yaml")
    assert done.stdout.startswith("=== Cases ===\ncase ")
    assert "Run Summary" not in done.stdout
    assert "=== Comparison ===" in done.stdout
    document = tally.json("runs", "--sort", "score")
    assert [run["model"] for run in document["runs"]] == ["replay/careful", "replay/hasty"]
    careful, hasty = (run["id"] for run in document["runs"])
    assert tally("compare", careful, hasty).stdout.startswith("=== Comparison ===")
    few = tally("compare", careful, hasty, "--fail-on-regression")
    assert few.returncode == 1
    assert "Inconclusive: the score fell by 67.09, more than the tolerance of 0.99" in few.stdout
    assert "is inconclusive: the score fell by 67.09" in few.stderr
    assert (
        tally("compare", careful, hasty, "--fail-on-regression", "--tolerance", "70").returncode
        == 0
    )
    gate = tally("compare", careful, hasty, "--fail-on-regression", "--strict")
    assert gate.returncode == 1
    assert "is worse: cases that passed fail now" in gate.stderr
    whole = tally("run", "suites/support-desk.yaml", "--verbose").stdout
    assert whole.count("=== Run Summary ===") == 2


def test_reports_of_a_comparison_hold_it_and_go_by_its_formula(tally: Tally) -> None:
    tally("run", "suites/support-desk.yaml")
    careful, hasty = (run["id"] for run in tally.json("runs", "--sort", "score")["runs"])
    files = ("c.json", "c.md", "c.html", "c.csv", "c.xml")
    reports = [word for file in files for word in ("--report", file)]
    asked = ("compare", careful, hasty, "--formula", "success_pct * 0 + 7")
    said = tally.json(*asked, *reports)
    told = json.loads((tally.folder / "c.json").read_text(encoding="utf-8"))
    assert told["comparisons"] == said["comparisons"]
    assert [(run["id"], run["score"]) for run in told["runs"]] == [(careful, 7), (hasty, 7)]
    text = (tally.folder / "c.md").read_text(encoding="utf-8")
    assert f"### `replay/hasty` (`{hasty}`) against `replay/careful` (`{careful}`)" in text
    assert "| Score | 7.00 | 7.00 | 0.00 |" in text
    assert "Broken (passed before): " in text
    assert "success_pct * 0 + 7" in (tally.folder / "c.html").read_text(encoding="utf-8")


def test_a_report_of_a_run_holds_its_comparison_with_the_baseline(tally: Tally) -> None:
    suite = ("run", "suites/support-desk.yaml", "-q", "-m")
    tally(*suite, "replay/careful")
    before = tally.json("runs")["runs"][0]["id"]
    reports = ("--report", "s.md", "--report", "s.json")
    said = tally.json(*suite, "replay/hasty", "--baseline", before, *reports)["comparison"]
    told = json.loads((tally.folder / "s.json").read_text(encoding="utf-8"))
    assert told["comparisons"] == [said]
    assert f"(`{before}`)\n" in (tally.folder / "s.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--fail-under", "--alpha"])
def test_a_bound_that_nothing_is_under_is_refused(tally: Tally, option: str) -> None:
    asked = ("suites/my-eval-suite.yaml", "-m", "replay/careful")
    gate = ("--baseline", "latest", "--fail-on-regression")
    done = tally("run", *asked, *gate, option, "nan")
    assert done.returncode == 2
    assert f"tally: {option} nan is not a valid bound; give a finite number" in done.stderr


@pytest.mark.parametrize("tolerance", ["nan", "-1", "five", "inf%"])
def test_a_tolerance_is_points_or_a_share(tally: Tally, tolerance: str) -> None:
    asked = ("suites/my-eval-suite.yaml", "-m", "replay/careful", "--tolerance", tolerance)
    done = tally("run", *asked)
    assert done.returncode == 2
    assert f"the tolerance '{tolerance}' is not a number of 0 or more; give points" in done.stderr


@pytest.mark.parametrize("option", ["--budget", "--timeout"])
def test_a_limit_that_is_no_number_is_refused(tally: Tally, option: str) -> None:
    done = tally("run", "suite.yaml", option, "nan")
    assert done.returncode == 2
    assert f"invalid value for '{option}': nan is not a number" in done.stderr


def test_what_a_gate_says_is_in_the_summary_and_in_junit(tally: Tally) -> None:
    asked = ("run", "suites/support-desk.yaml", "-m", "replay/hasty", "--report", "x.xml")
    done = tally(*asked, "--fail-under", "99")
    assert done.returncode == 1
    assert "\nGate: failed: replay/hasty scored 31.65, under 99\n" in done.stdout
    report = (tally.folder / "x.xml").read_text(encoding="utf-8")
    assert '<failure message="replay/hasty scored 31.65, under 99" type="gate">' in report
    assert "\nGate: passed\n" in tally(*asked, "--fail-under", "9").stdout
    report = (tally.folder / "x.xml").read_text(encoding="utf-8")
    assert '<property name="gate" value="passed" />' in report


def test_gates_decide_the_exit_code(tally: Tally) -> None:
    suite = "suites/support-desk.yaml"
    assert tally("run", suite, "-m", "replay/careful", "--fail-under", "50").returncode == 0
    low = tally("run", suite, "-m", "replay/hasty", "--fail-under", "50")
    assert low.returncode == 1
    assert "replay/hasty scored 31.65, under 50" in low.stderr
    careful = tally.json("runs", "-m", "replay/careful")["runs"][0]["id"]
    gate = ("--baseline", careful, "--fail-on-regression", "--strict")
    worse = tally("run", suite, "-m", "replay/hasty", *gate)
    assert worse.returncode == 1
    assert f"worse than the baseline {careful}" in worse.stderr
    same = tally(
        "run", suite, "-m", "replay/careful", "--baseline", careful, "--fail-on-regression"
    )
    assert same.returncode == 0


def test_an_undefined_score_is_under_every_limit_and_says_why(tally: Tally) -> None:
    (tally.folder / "s.yaml").write_text(
        "metadata: {name: s, model: echo/x}\n"
        "evals: [{prompt: hi, checks: [{match: '*'}]}]\n"
        "score: {formula: success_pct / total_cost}\n"
    )
    done = tally("run", "s.yaml", "--fail-under", "0")
    assert done.returncode == 1
    assert "total_cost has no value" in done.stdout
    assert "metadata.pricing" in done.stdout
    run = tally.json("show", "latest")
    assert run["score"] is None
    assert "total_cost has no value" in run["score_error"]


def test_rescoring_asks_no_model(tally: Tally) -> None:
    tally("run", "suites/support-desk.yaml", "-m", "replay/careful")
    shutil.rmtree(tally.folder / "suites" / "answers")
    document = tally.json("rescore", "latest", "--formula", "success_pct / avg_latency")
    assert document["after"]["score"] == pytest.approx(
        100 / document["after"]["metrics"]["avg_latency"]
    )
    assert document["saved_as"] is None
    saved = tally.json("rescore", "latest", "--suite", "suites/support-desk.yaml", "--apply")
    assert tally.json("show", saved["saved_as"])["score"] == saved["before"]["score"]


def test_every_report_is_written(tally: Tally) -> None:
    names = [f"out/report.{ending}" for ending in ("html", "md", "xml", "csv", "json")]
    options = [part for name in names for part in ("--report", name)]
    assert tally("run", "suites/support-desk.yaml", *options).returncode == 0
    assert all((tally.folder / name).stat().st_size > 500 for name in names)
    root = ET.parse(tally.folder / "out/report.xml").getroot()
    assert root.findall(".//failure")
    assert not root.findall(".//error")


def test_recorded_answers_replay_to_the_same_score(tally: Tally) -> None:
    suite = "suites/cost-efficient-eval.yaml"
    first = tally.json("run", suite, "-m", "replay/careful", "--record", "answers.jsonl")
    again = tally.json("run", suite, "-m", "replay/answers.jsonl")
    other = tally.json("run", suite, "-m", f"replay/{tally.folder}/answers.jsonl")
    scores = {document["runs"][0]["score"] for document in (first, other)}
    assert len(scores) == 1
    assert again["runs"]


def test_values_and_secrets_are_set_listed_and_deleted(tally: Tally) -> None:
    tally("vars", "set", "city", "Lyon")
    assert tally("vars", "list").stdout == "city=Lyon\n"
    tally("secrets", "set", "token", "--stdin", stdin="very-secret-value\n")
    assert tally("secrets", "list").stdout == "token\n"
    assert "very-secret-value" not in tally("secrets", "list", "--json").stdout
    tally("vars", "delete", "city")
    tally("secrets", "delete", "token")
    assert tally("vars", "list").stdout == "no variables\n"
    assert tally("secrets", "list").stdout == "no secrets\n"


def test_the_schema_is_a_json_schema(tally: Tally) -> None:
    import jsonschema  # type: ignore[import-untyped]

    schema = json.loads(tally("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["Ctrl-C", "SIGTERM", "SIGHUP"],
)
def test_a_signal_stops_cleanly_and_says_how_to_go_on(
    tally: Tally, number: signal.Signals, code: int
) -> None:
    # Whoever asks first is answered at once, the others when the file `go` is there.
    wait = "mkdir first 2>/dev/null || while [ ! -e go ]; do sleep 0.05; done"
    (tally.folder / "slow.sh").write_text(f"#!/bin/sh\ncat >/dev/null\n{wait}\necho yes\n")
    (tally.folder / "slow.sh").chmod(0o755)
    rows = "\n".join(f"  - {{prompt: 'q{n}', checks: [{{match: 'yes'}}]}}" for n in range(6))
    (tally.folder / "s.yaml").write_text(
        f"metadata: {{name: s, model: cmd/./slow.sh, threads: 2}}\nevals:\n{rows}\n"
    )
    command = [str(TALLY), "run", "s.yaml"]
    with subprocess.Popen(
        command, cwd=tally.folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        run_id = process.stderr.readline().partition(":")[0]
        while not tally.json("show", run_id)["results"]:
            pass
        held = tally("run", "--resume", run_id)
        assert (held.returncode, held.stdout) == (2, "")
        assert f"{run_id} is held by " in held.stderr
        assert f", process {process.pid}, since 20" in held.stderr
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert process.returncode == code
    assert re.search(rf"continue with: \S*tally run --resume {run_id}$", said, re.MULTILINE)
    assert "pid" not in said
    assert "Traceback" not in said
    assert tally.json("show", run_id)["status"] == "cancelled"
    (tally.folder / "go").touch()
    resumed = tally("run", "--resume", "latest")
    assert (resumed.returncode, resumed.stderr.partition(":")[0]) == (0, run_id)
    assert len(tally.json("show", run_id)["results"]) == 6
    again = tally("run", "--resume", "latest")
    assert (again.returncode, again.stderr) == (
        2,
        f"tally: there is no run to continue; the latest, {run_id}, is complete\n",
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run"], 2, "give a suite, or --resume RUN"),
        (["run", "nowhere.yaml"], 2, "nowhere.yaml"),
        (["run", "suites/support-desk.yaml", "-m", "nonsense"], 2, "nonsense"),
        (["run", "suites/support-desk.yaml", "-m", "replay/nothing"], 2, "nothing"),
        (["run", "suites/support-desk.yaml", "--fail-on-regression"], 2, "needs --baseline"),
        (["run", "suites/support-desk.yaml", "--report", "x.pdf"], 2, "no ending that names"),
        (["run", "suites/support-desk.yaml", "--var", "x"], 2, "does not give a name a value"),
        (["run", "--resume", "rnothing"], 2, ""),
        (["show", "latest"], 2, ""),
        (["runs", "--sort", "colour"], 2, "colour"),
        (["rescore", "latest"], 2, "give --formula or --suite"),
        (["compare", "latest"], 2, ""),
        (["validate", "nowhere.yaml"], 2, "nowhere.yaml"),
        (["run", "suites/support-desk.yaml", "--db", "nothing://x"], 2, "nothing"),
    ],
)
def test_wrong_usage_is_one_sentence(
    tally: Tally, arguments: list[str], code: int, message: str
) -> None:
    done = tally(*arguments)
    assert done.returncode == code, done.stderr
    assert message in done.stderr + done.stdout


def test_every_mistake_in_a_suite_is_reported_with_its_place(tally: Tally) -> None:
    (tally.folder / "bad.yaml").write_text(
        "metadata:\n  nmae: x\nevals:\n  - promt: hi\n  - name: max\n    prompt: a\n"
        "    checks: [{mach: x}]\nscore:\n  formula: success_pct / total_cst\n"
    )
    done = tally("validate", "bad.yaml")
    assert done.returncode == 2
    for said in (
        "bad.yaml:2:3",
        "name",
        "prompt",
        "bad.yaml:5",
        "match",
        "bad.yaml:9",
        "total_cost",
    ):
        assert said in done.stdout


AGENT = """
import os

def answer(prompt: str) -> str:
    return f"{prompt} {os.environ.get('OPENAI_API_KEY')} {os.environ.get('OPENAI_BASE_URL')}"
"""
ENV_SUITE = """
evals:
  - prompt: "{{city}} {{secret('pass')}}"
    checks: [contains: Paris]
"""


@pytest.mark.parametrize(
    ("option", "environment", "said", "answered"),
    [
        ((), {}, ".env: OPENAI_API_KEY", "Paris ***pass*** ***OPENAI_API_KEY*** None"),
        ((), {"OPENAI_API_KEY": "mine-12345"}, None, "Paris ***pass*** ***OPENAI_API_KEY*** None"),
        (
            ("--env-file", "other.env"),
            {},
            "other.env: OPENAI_API_KEY",
            "Paris ***pass*** ***OPENAI_API_KEY*** https://named.test",
        ),
    ],
)
def test_a_dot_env_gives_keys_variables_and_secrets(
    tally: Tally,
    option: tuple[str, ...],
    environment: dict[str, str],
    said: str | None,
    answered: str,
) -> None:
    lines = "OPENAI_API_KEY=sk-12345678\ncity=Paris\npass=word-word\nOPENAI_BASE_URL=https://"
    (tally.folder / ".env").write_text(f"{lines}unnamed.test\n")
    (tally.folder / "other.env").write_text(f"{lines}named.test\n")
    (tally.folder / "agent.py").write_text(AGENT)
    (tally.folder / "s.yaml").write_text(ENV_SUITE)
    run = ("run", "s.yaml", "-m", "python/agent.py:answer", *option)
    done = tally(*run, "--json", env=environment)
    assert done.returncode == 0, done.stderr
    assert (f"tally: read from {said}\n" in done.stderr) if said else "read from" not in done.stderr
    assert "sk-12345678" not in done.stderr + done.stdout
    (ran,) = json.loads(done.stdout)["runs"]
    assert ran["results"][0]["output"] == answered
    assert "read from" not in tally(*run, "-q", env=environment).stderr


def test_a_dot_env_that_cannot_be_read_stops_nothing(tally: Tally) -> None:
    (tally.folder / ".env").write_text("KEY='open\n")
    done = tally("run", "suites/my-eval-suite.yaml", "-m", "echo/x")
    assert done.returncode == 0
    assert "tally: .env is not read: .env:1: the quote is never closed\n" in done.stderr


def test_a_bare_name_that_is_no_variable_is_told_before_the_run(tally: Tally) -> None:
    (tally.folder / "s.yaml").write_text("evals: [{prompt: 'In {{town}}', checks: []}]\n")
    done = tally("run", "s.yaml", "-m", "echo/x")
    assert (
        "tally: s.yaml:1:22: {{town}} is sent as text: there is no variable 'town'; "
        "write it under `vars`, or give it with --var\n"
    ) in done.stderr
    assert "cases that check nothing and always pass: 1 of 1 (#1)\n" in done.stderr
    tally("vars", "set", "town", "Rome")
    assert "sent as text" not in tally("run", "s.yaml", "-m", "echo/x").stderr
