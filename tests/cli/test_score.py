"""`tally score`, as a user runs it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from tests.cli.tally_process import Tally

TRACES = Path(__file__).parents[1] / "fixtures" / "traces"
OWN = str(TRACES / "own.jsonl")
REFUNDED = "contains(values=['Refunded'])"
REPORTS = ("x.html", "x.md", "x.xml", "x.csv", "x.json")

SUITE = """
from tallymark import Suite, Test, scorer

@scorer(blocking=False)
def polite(ctx):
    return 1.0 if "thanks" in ctx.output else 0.25

def agent(given):
    print("the agent prints")
    return given

def rude(given):
    return "no"

tests = [Test("one", "thanks"), Test("two", "thanks a lot")]
suite = Suite("desk", tests, scorers={"polite": polite})
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where each test scores, and keeps its runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def score(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return Tally(Path.cwd())("score", *arguments, stdin=stdin)


def score_run(*arguments: str, stdin: str = "") -> dict[str, Any]:
    """The one run of the JSON document."""
    (run,) = json.loads(score(*arguments, "--json", stdin=stdin).stdout)["runs"]
    found: dict[str, Any] = run
    return found


@pytest.fixture
def suite(tmp_path: Path) -> str:
    path = tmp_path / "desk_eval.py"
    path.write_text(SUITE)
    return str(path)


# Stored traces


def test_a_summary_is_printed() -> None:
    done = score(OWN, "--scorer", REFUNDED, "--scorer", "exact_match")
    assert done.returncode == 0
    told, _, identity = done.stdout.partition("\nRun: ")
    assert told == (
        "Failed (1)\n"
        "  ✗ refund[t-2]                                     2 checks    0.10 s         -\n"
        "      asked: Refund order 18\n"
        "      answered: (nothing)\n"
        "      contains: 0 (needs 0.7): Empty output\n"
        "      exact_match: could not be done: exact_match needs expected.output, and\n"
        "        none was given\n"
        "\n"
        "Passed (1): refund[t-1]\n"
        "\n"
        "Scorers\n"
        "  scorer        mean   95 % interval  scored  unscored\n"
        "  contains     0.500  0.025 to 0.975       2         0\n"
        "  exact_match  1.000  0.025 to 1.000       1         1\n"
        "  contains: median 0.500, p90 0.900, 50.0% reach their threshold\n"
        "  exact_match could not score: exact_match needs expected.output, and none was\n"
        "    given\n"
        "\n"
        "=== Run Summary ===\n"
        "Score: 50.00 (formula: success_pct)\n"
        "95 % Interval: 2.50 to 97.50\n"
        "Success Rate: 50.0% (1 passed, 1 failed)\n"
        "Total Cost: unknown (the cost of 1 of 2 results is not known; no span records\n  it)\n"
        "Latency: avg 1.25 s, max 2.40 s"
    )
    told, _, last = identity.partition(", ")[2].partition("\n\n")
    assert told == "completed (own.jsonl on traces)"
    assert last.startswith("own.jsonl: 50.00, 1 of 2 failed; details:\n  tally show r")


def test_quiet_says_the_last_line_and_verbose_what_passed() -> None:
    (line,) = score(OWN, "--scorer", REFUNDED, "-q").stdout.splitlines()
    assert line.startswith("own.jsonl: 50.00, 1 of 2 failed; details: tally show r")
    assert "  ✓ refund[t-1]  " in score(OWN, "--scorer", REFUNDED, "-v").stdout


@pytest.mark.parametrize(
    "name",
    [
        *("inspect_sums.eval", "inspect_sums.json", "otel_sdk.pb", "otel_sdk.otlp.jsonl"),
        *("pydantic_ai.pb", "pydantic_ai.otlp.jsonl", "trajectory.json", "promptfoo.json"),
    ],
)
def test_files_of_other_tools_are_scored_unchanged(name: str) -> None:
    done = score(str(TRACES / name), "--scorer", "word_count", "--json")
    for run in json.loads(done.stdout)["runs"]:
        assert run["status"] == "completed"
        assert run["scorers"]["word_count"]["mean"] is not None


def test_json_is_one_document() -> None:
    done = score(OWN, "-s", REFUNDED, "--formula", "success_pct + contains", "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    (run,) = document["runs"]
    assert (run["passed"], run["failed"], run["errors"], run["total"]) == (1, 1, 0, 2)
    assert (run["score_formula"], run["score"]) == ("success_pct + contains", 50.5)
    assert (document["broken"], "comparison" in document) == (0, False)


def test_a_trace_is_a_case_of_the_eval_that_it_is_named_after() -> None:
    run = score_run(OWN, "-s", REFUNDED)
    assert [(each["case"], each["epoch"], each["status"]) for each in run["results"]] == [
        ("refund[t-2]", 0, "failed"),
        ("refund[t-1]", 0, "passed"),
    ]
    (check,) = run["results"][0]["checks"]
    assert [check.get(key) for key in ("name", "value", "threshold", "reason", "error")] == [
        "contains", 0.0, 0.7, "Empty output", None,
    ]  # fmt: skip
    assert (run["metrics"]["refund"], run["metrics"]["refund_latency"]) == (0.5, 1.25)


def test_a_formula_without_a_value_says_why() -> None:
    done = score(OWN, "-s", REFUNDED, "--formula", "success_pct / total_cost")
    assert done.returncode == 0
    assert (
        "Score: undefined (formula: success_pct / total_cost)\n"
        "  because total_cost has no value; the cost of 1 of 2 results is not known;"
    ) in done.stdout


def test_traces_come_from_stdin() -> None:
    run = score_run("-", "-s", "word_count", stdin=Path(OWN).read_text())
    assert (run["suite"], len(run["results"])) == ("stdin", 2)


def test_traces_with_the_id_of_another_are_told() -> None:
    line = '{"trace_id": "t1", "name": "refund", "output": "a"}\n'
    done = score("-", "--scorer", "word_count", stdin=line * 3)
    told = "2 traces have the same name and id as another; each is a separate case: refund[t1]"
    assert done.stderr == f"tally: warning: {told}\n"


def test_several_files_are_one_run() -> None:
    run = score_run(OWN, str(TRACES / "own_camel.jsonl"), "-s", "word_count", "--limit", "3")
    assert (run["suite"], len(run["results"])) == ("own.jsonl and 1 more", 3)


def test_every_result_is_written(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    done = score(OWN, "-s", REFUNDED, "-o", str(out))
    assert done.returncode == 0
    with out.open(newline="") as file:
        assert [(r["trace_id"], r["contains"]) for r in csv.DictReader(file)] == [
            ("t-1", "1.0"),
            ("t-2", "0.0"),
        ]


def test_expectations_come_from_a_file(tmp_path: Path) -> None:
    lines = '{"trace_id": "t-2", "output": ""}\n\n{"trace_id": "t-9", "output": ""}'
    (tmp_path / "e.jsonl").write_text(lines)
    done = score(OWN, "-s", "exact_match", "--expected", "e.jsonl", "--json")
    assert json.loads(done.stdout)["runs"][0]["passed"] == 2
    assert done.stderr == "tally: e.jsonl: 1 of 2 lines match no trace\n"


@pytest.mark.parametrize(("threshold", "passed"), [("0", 2), ("0.04", 1), ("0.9", 0)])
def test_the_threshold_is_the_callers(threshold: str, passed: int) -> None:
    run = score_run(OWN, "-s", "word_count", "--threshold", threshold)
    assert run["passed"] == passed


def test_a_scorer_in_a_file_may_be_slow(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import asyncio\n"
        "from tallymark import scorer\n"
        "@scorer\n"
        "async def slow(ctx):\n"
        "    print('a scorer prints')\n"
        "    await asyncio.sleep(0)\n"
        "    return 1.0\n"
        "@scorer\n"
        "async def hangs(ctx):\n"
        "    await asyncio.Event().wait()\n"
    )
    both = ("-s", "mine.py:slow", "-s", "mine.py:hangs", "--timeout", "0.1", "--json")
    done = score(OWN, *both)
    scorers = json.loads(done.stdout)["runs"][0]["scorers"]
    assert scorers["slow"]["mean"] == 1.0
    assert scorers["hangs"]["first_error"] == "hangs did not finish in 0.1 s"
    assert "a scorer prints" in done.stderr


# Runs of traces that are kept


def test_a_scored_file_is_a_run_like_any_other(folder: Path) -> None:
    tally = Tally(folder)
    first = score_run(OWN, "-s", REFUNDED)["id"]
    worse = score(OWN, "-s", REFUNDED.replace("R", "Nicht r"), *with_reports(), "--json",
                  "--baseline", first, "--fail-on-regression")  # fmt: skip
    document = json.loads(worse.stdout)
    second = document["runs"][0]["id"]
    assert document["comparison"]["first"]["id"] == first
    assert [(each["case"], each["kind"]) for each in document["comparison"]["changes"]] == [
        ("refund[t-1]", "broken")
    ]
    # One of two traces that fails can be chance, so it is inconclusive, and the gate fails.
    assert worse.returncode == 1
    assert {line.partition(" ")[0] for line in worse.stderr.splitlines()} == {"wrote", "tally:"}
    assert "tally: inconclusive against the baseline" in worse.stderr
    check_reports(second, "refund[t-1]", "refund[t-2]")

    assert [(run["id"], run["model"]) for run in tally.json("runs")["runs"]] == [
        (second, "traces"),
        (first, "traces"),
    ]
    assert f"Run: {first}, completed (own.jsonl on traces)\n" in tally("show", first).stdout
    compared = tally("compare", first, second)
    assert "Broken (passed before): 1\n" in compared.stdout
    rescored = tally("rescore", "latest", "--formula", "contains - refund_latency")
    assert "Score: -1.25 (formula: contains - refund_latency)\n" in rescored.stdout
    resumed = tally("run", "--resume", first)
    assert (resumed.returncode, resumed.stdout) == (2, "")
    said = f"the run {first} came from traces, and only runs of YAML suites can continue"
    assert resumed.stderr == f"tally: {said}; start it again\n"


def with_reports() -> list[str]:
    return [word for name in REPORTS for word in ("--report", name)]


def check_reports(run: str, *cases: str) -> None:
    """Every report tells the run, with all its cases."""
    for name in REPORTS:
        text = Path(name).read_text()
        assert [case for case in cases if case not in text] == [], name
    (document,) = json.loads(Path("x.json").read_text())["runs"]
    assert document["id"] == run
    names = [case.get("name", "") for case in ET.parse("x.xml").iter("testcase")]
    assert len([name for name in names if not name.startswith("gate")]) == len(cases)


def test_a_run_that_is_not_kept_leaves_nothing_behind(folder: Path) -> None:
    assert score(OWN, "-s", "word_count", "--no-keep").returncode == 0
    assert list(folder.iterdir()) == []


def test_a_baseline_is_compared_with_every_trace_kept_or_not(folder: Path) -> None:
    """A run of many traces has only some results at hand; those alone would look worse."""
    (folder / "t.jsonl").write_text("".join(map(trace_line, range(120))))
    first = score_run("t.jsonl", "-s", "contains(values=['yes'])")
    gate = ("--baseline", first["id"], "--fail-on-regression", "--no-keep")
    same = score("t.jsonl", "-s", "contains(values=['yes'])", "--report", "x.csv", "--json", *gate)
    assert (same.returncode, same.stderr) == (0, "wrote x.csv\n")
    compared = json.loads(same.stdout)["comparison"]
    assert (compared["shared"], compared["unchanged"]) == (120, 120)
    assert compared["score"]["first"] == compared["score"]["second"] == 75
    assert Path("x.csv").read_text().count(",desk[t-") == 2 * 120  # `case` and `name`
    worse = score("t.jsonl", "-s", "contains(values=['perhaps'])", *gate)
    assert worse.returncode == 1
    said = f"tally: worse than the baseline {first['id']}: the score fell by 75.00, more than"
    assert worse.stderr.startswith(said)


def trace_line(number: int) -> str:
    """A trace that says yes, three times of four."""
    answer = {"span_id": "a", "name": "a", "span_type": "generation"}
    answer["output"] = "yes" if number % 4 else "no"
    return json.dumps({"trace_id": f"t-{number}", "name": "desk", "spans": [answer]}) + "\n"


# Results of an evaluation with several models


def ask_two_providers(*, prompts: tuple[str, ...] = ("{{q}}",)) -> str:
    """A file of results as promptfoo writes it: each provider answers two questions."""
    answers = {"openai:chat:small": ("Paris", "Rome"), "big": ("Lyon", "Rome")}
    results = [
        {
            "id": f"1f98{number}{provider}{prompt}",
            "testIdx": number,
            "promptIdx": 0,
            "provider": {"id": "openai:chat:small", "label": "" if ":" in provider else provider},
            "prompt": {"raw": f"Capital of {country}?", "label": prompt},
            "vars": {"q": f"Capital of {country}?"},
            "testCase": {"vars": {"q": f"Capital of {country}?"}},
            "response": {"output": answers[provider][number]},
            "success": True,
            "score": 1,
            "latencyMs": 400 + number,
        }
        for number, country in enumerate(("France", "Italy"))
        for prompt in prompts
        for provider in answers
    ]
    Path("pf.json").write_text(json.dumps({"evalId": "e", "results": {"results": results}}))
    return "pf.json"


CAPITAL = "contains(values=['Paris', 'Rome'], mode='any')"


def test_each_provider_of_a_file_of_results_has_a_run(folder: Path) -> None:
    done = score(ask_two_providers(), "-s", CAPITAL, "--report", "x.csv", "-o", "out.csv")
    assert done.returncode == 0
    assert "Capital of France?                  ✓      ✗\n" in done.stdout
    runs = Tally(folder).json("runs")["runs"]
    assert {(run["model"], run["score"], run["total"]) for run in runs} == {
        ("openai:chat:small", 100.0, 2), ("big", 50.0, 2)
    }  # fmt: skip
    assert len({run["group"] for run in runs}) == 1
    for name in ("x.csv", "out.csv"):
        rows = {(row["model"], row["case"], row["status"]) for row in read_csv(name)}
        assert rows == {
            ("openai:chat:small", "Capital of France?", "passed"),
            ("openai:chat:small", "Capital of Italy?", "passed"),
            ("big", "Capital of France?", "failed"),
            ("big", "Capital of Italy?", "passed"),
        }


def read_csv(name: str) -> list[dict[str, str]]:
    with Path(name).open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("kept", [[], ["--no-keep"]])
def test_gates_are_held_against_each_provider(kept: list[str]) -> None:
    done = score(ask_two_providers(), "-s", CAPITAL, "--fail-under", "0.8", "-q", *kept)
    assert (done.returncode, done.stderr) == (
        1, "tally: the mean of contains of big is 0.5; wanted is 0.8\n"
    )  # fmt: skip
    reported = score("pf.json", "-s", CAPITAL, "--report", "x.json", *kept)
    assert reported.returncode == 0
    found = json.loads(Path("x.json").read_text())["runs"]
    assert [(run["model"], len(run["results"])) for run in found] == [
        ("openai:chat:small", 2), ("big", 2)
    ]  # fmt: skip


def test_a_baseline_is_held_against_the_run_of_its_model(folder: Path) -> None:
    pieces = (ask_two_providers(), "-s", CAPITAL)
    score(*pieces, "-q")
    runs = {run["model"]: run["id"] for run in Tally(folder).json("runs")["runs"]}
    gate = ("--fail-on-regression", "--strict", "--json", "--baseline")
    for model, name in runs.items():
        done = score(*pieces, *gate, name)
        compared = json.loads(done.stdout)["comparison"]
        assert (done.returncode, compared["second"]["model"]) == (0, model)
    path = Path("pf.json")
    path.write_text(path.read_text().replace('"big"', '"huge"'))
    refused = score(*pieces, *gate, runs["big"])
    said = f"the baseline {runs['big']} is of big, and these runs are of openai:chat:small, huge"
    assert (refused.returncode, refused.stderr.splitlines()[0]) == (1, f"tally: {said}")


def test_each_prompt_and_provider_has_a_run() -> None:
    file = ask_two_providers(prompts=("short", "long"))
    runs = json.loads(score(file, "-s", CAPITAL, "--json").stdout)
    assert [(run["tags"]["prompt"], run["model"]) for run in runs["runs"]] == [
        (prompt, model) for prompt in ("short", "long") for model in ("openai:chat:small", "big")
    ]
    assert runs["matrix"]["scores"] == [[100.0, 50.0], [100.0, 50.0]]


def test_two_logs_of_a_task_are_a_run_for_each_model(folder: Path) -> None:
    log = json.loads((TRACES / "inspect_sums.json").read_text())
    first = log["eval"]["model"]
    Path("first.json").write_text(json.dumps(log))
    log["eval"]["model"] = "other/model"
    Path("second.json").write_text(json.dumps(log))
    score("first.json", "second.json", "-s", "no_errors", "-q")
    runs = Tally(folder).json("runs")["runs"]
    assert {run["model"] for run in runs} == {first, "other/model"}
    compared = Tally(folder)("compare", *(run["id"] for run in runs)).stdout
    assert "only 1 shared case" in compared


# Gates and exit codes


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--fail-under", "0.5"], 0, ""),
        (["--fail-under", "0.51"], 1, "tally: the mean of contains is 0.5; wanted is 0.51\n"),
        (["--fail-under", "50", "--formula", "success_pct"], 0, ""),
        (
            ["--fail-under", "51", "--formula", "success_pct"],
            1,
            "tally: traces scored 50.00, under 51\n",
        ),
        (
            ["--fail-under", "0", "--formula", "total_cost"],
            1,
            "tally: traces has no score, which counts as under 0: total_cost has no value; ",
        ),
    ],
)
def test_a_gate(arguments: list[str], code: int, said: str) -> None:
    done = score(OWN, "-s", REFUNDED, *arguments)
    assert done.returncode == code
    assert done.stderr.startswith(said)
    assert bool(done.stderr) == bool(said)


@pytest.mark.parametrize("at_least", ["80", "1.01", "-1"])
def test_a_gate_that_no_mean_can_be_held_against_is_refused(at_least: str, suite: str) -> None:
    for refused in (
        score(OWN, "-s", REFUNDED, "--fail-under", at_least),
        score(suite, "--fail-under", at_least),
    ):
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr == (
            f"tally: --fail-under {at_least}: without a formula the means of the scorers are gated,"
            " which lie between 0 and 1; give a number between them, or gate the percentage that"
            " passed: --formula success_pct\n"
        )


def test_a_suite_with_a_formula_is_gated_by_it(suite: str) -> None:
    path = Path(suite)
    path.write_text(path.read_text().replace("tests,", "tests, formula='success_pct',"))
    assert score(suite, "--fail-under", "80").returncode == 0
    low = score(suite, "--function", f"{suite}:rude", "--fail-under", "80")
    assert (low.returncode, low.stderr) == (
        1, "tally: python/desk_eval:rude scored 0.00, under 80\n"
    )  # fmt: skip


def test_a_scorer_that_scores_nothing_is_work_that_could_not_be_done() -> None:
    done = score(OWN, "-s", "json_schema(schema={'type': 'object'})", "-s", "tool_selection")
    assert done.returncode == 3
    assert done.stderr.startswith("tally: tool_selection could not score anything: tool_selection")
    assert "Success Rate: 0.0% (0 passed, 2 failed)\n" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([OWN], "name at least one scorer; as in: tally score traces.jsonl --scorer"),
        ([OWN, "-s", "contans"], "there is no scorer 'contans'; did you mean 'contains'?"),
        ([OWN, "-s", "latency"], "latency needs the options 'target' and 'limit'"),
        ([OWN, "-s", "word_count", "-s", "word_count"], "more than one scorer is named"),
        (["nowhere.jsonl", "-s", "word_count"], "nowhere.jsonl: no such file or folder"),
        ([OWN, "-s", "word_count", "--format", "inspct"], "did you mean 'inspect'?"),
        ([OWN, "-s", "word_count", "--threshold", "7"], "threshold is 7.0; it must be"),
        (
            [OWN, "-s", "word_count", "--function", "a:b"],
            "--function can only be used with Python suites",
        ),
        ([OWN, "-s", "word_count", "-o", "out.txt"], "use a name that ends in .jsonl, .csv"),
        ([OWN, "x_eval.py", "-s", "word_count"], "give either traces or Python suites"),
        ([OWN, "-s", "word_count", "--expected", "no.jsonl"], "cannot read no.jsonl"),
        (["-", "-s", "word_count"], "there are no traces in -"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(arguments: list[str], said: str) -> None:
    done = score(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tally: ")
    assert said in done.stderr


def test_a_wrong_formula_is_shown_with_a_caret_before_anything_is_read() -> None:
    done = score("nowhere.jsonl", "-s", "word_count", "--formula", "word_cont * 2")
    assert done.returncode == 2
    assert done.stderr == (
        "tally: column 1: unknown name 'word_cont'; did you mean 'word_count'?\n"
        "  word_cont * 2\n"
        "  ^^^^^^^^^\n"
    )


def test_a_broken_record_stops_and_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(Path(OWN).read_text() + "{broken\n")
    done = score("t.jsonl", "-s", "word_count", "-o", "out.jsonl")
    assert done.returncode == 2
    assert "t.jsonl:3: not valid JSON" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [".tally", "t.jsonl"]
    assert "cancelled" in Tally(tmp_path)("runs").stdout


def test_broken_records_are_skipped_when_asked(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("{broken\n" * 7 + Path(OWN).read_text())
    done = score("t.jsonl", "-s", "word_count", "--skip-broken", "--json")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert (len(document["runs"][0]["results"]), document["broken"]) == (2, 7)
    assert done.stderr.count("tally: skipped t.jsonl:") == 5
    assert done.stderr.endswith("tally: skipped 2 more\n")


# Suites


def test_a_suite_in_a_file_is_run(suite: str) -> None:
    done = score(suite, "--formula", "success_pct * polite")
    assert done.returncode == 0
    assert "Score: 100.00 (formula: success_pct * polite)\n" in done.stdout
    assert "Success Rate: 100.0% (2 passed, 0 failed)\n" in done.stdout
    assert "completed (desk on python/desk_eval:agent)\n" in done.stdout


def test_failed_tests_alone_are_no_gate(suite: str) -> None:
    rude = (suite, "--function", f"{suite}:rude")
    done = score(*rude)
    assert (done.returncode, done.stderr) == (0, "")
    assert "      polite: 0.25 (needs 0.7)\n" in done.stdout
    assert json.loads(score(*rude, "--json").stdout)["passed"] is False
    assert score(*rude, "--formula", "success_pct", "--fail-under", "100").returncode == 1


def test_a_suite_is_a_run_like_any_other(suite: str, folder: Path) -> None:
    tally = Tally(folder)
    first = score_run(suite)["id"]
    rude = ("--function", f"{suite}:rude", "--fail-under", "0")
    worse = score(
        suite, *rude, *with_reports(), "--baseline", first, "--fail-on-regression", "--strict"
    )
    assert worse.returncode == 1
    assert f"\ntally: worse than the baseline {first}: " in worse.stderr
    runs = tally.json("runs")["runs"]
    assert [(run["id"] == first, run["model"], run["score"]) for run in runs] == [
        (False, "python/desk_eval:rude", 0.0),
        (True, "python/desk_eval:agent", 100.0),
    ]
    check_reports(runs[0]["id"], "one", "two")
    rescored = tally("rescore", "latest", "--formula", "polite + one")
    assert "Score: 0.25 (formula: polite + one)\n" in rescored.stdout
    resumed = tally("run", "--resume", first)
    assert (resumed.returncode, resumed.stdout) == (2, "")
    assert f"the run {first} came from Python, and only runs of YAML suites" in resumed.stderr


def test_each_suite_of_a_file_is_a_run_of_its_own(suite: str, folder: Path) -> None:
    with Path(suite).open("a") as file:
        file.write('shop = Suite("shop", [Test("sale", "thanks")], scorers={"polite": polite})\n')
    done = score(suite)
    assert (done.returncode, done.stdout.count("=== Run Summary ===")) == (0, 2)
    assert "=== Comparison ===" not in done.stdout
    shop = next(run["id"] for run in Tally(folder).json("runs")["runs"] if run["suite"] == "shop")
    again = json.loads(score(suite, "--no-keep", "--baseline", shop, "--json").stdout)
    assert [run["suite"] for run in again["runs"]] == ["desk", "shop"]
    assert (again["comparison"]["first"]["id"], again["comparison"]["shared"]) == (shop, 1)


@pytest.mark.parametrize(("at_least", "code"), [("0.25", 0), ("0.26", 1)])
def test_fail_under_takes_the_place_of_failed_tests(suite: str, at_least: str, code: int) -> None:
    done = score(suite, "--function", f"{suite}:rude", "--fail-under", at_least)
    assert done.returncode == code


def test_a_gate_does_not_pass_on_what_never_ran(suite: str) -> None:
    with Path(suite).open("a") as file:
        file.write("def down(given):\n    raise ValueError('down')\n")
    done = score(suite, "--function", f"{suite}:down", "--fail-under", "0", "--no-keep")
    assert done.returncode == 3
    assert done.stderr == (
        "tally: polite had nothing to score (needs 0)\n"
        "tally: 2 of 2 results of python/desk_eval:down could not run, and --max-errors allows 0;"
        " the first error: the agent raised ValueError: down (at desk_eval.py:18 in down)\n"
        "tally: no case could be run:"
        " the agent raised ValueError: down (at desk_eval.py:18 in down)\n"
    )


def test_a_suites_results_are_one_json_document_and_a_file(suite: str, tmp_path: Path) -> None:
    done = score(suite, "--json", "--limit", "1", "-o", str(tmp_path / "out.jsonl"))
    document = json.loads(done.stdout)
    assert document["passed"] is True
    (run,) = document["runs"]
    assert [(each["case"], each["epoch"]) for each in run["results"]] == [("one", 0)]
    assert (run["score_formula"], run["score"]) == ("success_pct", 100.0)
    assert "the agent prints" in done.stderr
    (row,) = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert (row["case"], row["scores"]["polite"]["value"]) == ("one", 1.0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--scorer", "word_count"], "--scorer can only be used with traces, not with suites"),
        (["--skip-broken"], "--skip-broken can only be used with traces, not with suites"),
        (["--function", "agent"], "'agent' does not name an agent"),
        (["--formula", "polit"], "unknown name 'polit'; did you mean 'polite'?"),
    ],
)
def test_what_does_not_fit_a_suite_is_refused(suite: str, arguments: list[str], said: str) -> None:
    done = score(suite, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_file_that_is_not_there_is_refused() -> None:
    done = score("no_eval.py")
    assert (done.returncode, done.stderr) == (2, "tally: there is no file no_eval.py\n")


def test_a_terminal_gets_progress_and_the_output_stays_clean(suite: str) -> None:
    code = (
        "import os, pty, subprocess, sys\n"
        "main, side = pty.openpty()\n"
        # At once: what is done within half a second shows none.
        "start = 'from tallymark.cli import main, progress; progress._PATIENCE = 0; main()'\n"
        f"done = subprocess.run([sys.executable, '-c', start, 'score', {OWN!r}, '-s',"
        " 'word_count'], stdout=subprocess.PIPE, stderr=side)\n"
        "os.close(side)\n"
        "sys.stdout.write(done.stdout.decode())\n"
        "print('progress:', b'scoring' in os.read(main, 100000))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Failed (2)\n")
    assert done.stdout.endswith("progress: True\n")


@pytest.mark.parametrize(("signal", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_prints_the_results_so_far(tmp_path: Path, signal: str, code: int) -> None:
    (tmp_path / "stop_eval.py").write_text(
        SUITE.replace(
            'print("the agent prints")',
            "import os, signal, time\n"
            "    if given != 'thanks':\n"
            f"        os.kill(os.getpid(), signal.{signal})\n"
            "        time.sleep(60)",
        ).replace("scorers={", "parallelism=1, scorers={")
    )
    done = score("stop_eval.py", "-o", "out.csv")
    assert done.returncode == code
    assert "finished results are stored; out.csv is not written\n" in done.stderr
    assert not (tmp_path / "out.csv").exists()
    assert "Success Rate: 100.0% (1 passed, 0 failed, 1 not run)\n" in done.stdout
    assert (
        ", cancelled (desk on python/stop_eval:agent)\n  1 of 2 not run (stopped by hand)\n"
        in done.stdout
    )
    assert "cancelled" in Tally(tmp_path)("runs").stdout


@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
def test_a_file_that_is_there_after_ctrl_c_is_the_one_before(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    lines = (json.dumps({"trace_id": f"t{n}", "output": "x" * 99}) for n in range(6_000))
    (tmp_path / "big.jsonl").write_text("\n".join(lines))
    (tmp_path / "late.py").write_text(
        "import os, signal\n\nfrom tallymark import scorer\n\n@scorer\ndef late(ctx):\n"
        "    if ctx.trace.trace_id == 't5900':\n"
        f"        os.kill({'os.getppid()' if workers else 'os.getpid()'}, signal.SIGINT)\n"
        "    return 1.0\n"
    )
    (tmp_path / "out.csv").write_text("before")
    done = score("big.jsonl", "--scorer", "late.py:late", "-o", "out.csv", *workers)
    assert (done.returncode, (tmp_path / "out.csv").read_text()) == (130, "before")
    assert "; out.csv is not written\n" in done.stderr
