"""Running suites through the application: what is kept, resumed, rescored, and what goes wrong."""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from scripts.server_process import require_as_logged
from tests.models.provider_server import Fail, ProviderServer, Reply
from tests.postgres import postgres, postgres_url

from tallymark.errors import InvalidInput, TallymarkError
from tallymark.formula import Formula
from tallymark.runs import ongoing_run
from tallymark.runs.ongoing_run import make_id, sort_by_suite
from tallymark.runs.record import CaseResult, RunRecord, RunStatus
from tallymark.runs.run import Run
from tallymark.runs.tally import Tally
from tallymark.service.app import App
from tallymark.service.suite_runs import RunOptions
from tallymark.suites import rechecks
from tallymark.suites.suite_evaluation import RunLimits
from tallymark.suites.suite_file import load_suite

__all__ = ["postgres", "postgres_url"]

SUITE = """
metadata: {name: sums, model: echo/x, pricing: {input: 1, output: 1}}
evals:
  - name: four
    prompt: 2 + 2 is 4
    checks: [{match: "*4*"}]
  - name: six
    prompt: 3 + 3 is 7
    checks: [{match: "*6*"}]
score: {formula: four * 10 + success_pct}
"""


def records(runs: list[Run]) -> list[RunRecord]:
    return [run.record for run in runs]


class Silent:
    def started(self, record: RunRecord, tally: Tally, formula: Formula) -> None: ...

    def moved(self, result: CaseResult, tally: Tally) -> None: ...

    def ended(self, record: RunRecord) -> None: ...


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.proof)])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    if request.param == "sqlite":
        address = str(tmp_path / "tally.db")
    else:
        address = request.getfixturevalue("postgres_url")
    app = App(address)
    yield app
    app.close()


def suite(tmp_path: Path, text: str = SUITE) -> Path:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    return path


def dataset(tmp_path: Path, rows: int, model: str = "echo/x", check: str = "*item*") -> Path:
    lines = "\n".join(str(number) for number in range(rows))
    (tmp_path / "rows.csv").write_text(f"n\n{lines}\n")
    return suite(
        tmp_path,
        f"metadata: {{name: rows, model: '{model}', threads: 8, retries: 0}}\n"
        "evals:\n"
        "  - name: row\n"
        "    prompt: \"item {{var('n')}}\"\n"
        "    cases_from: rows.csv\n"
        f"    checks: [{{match: '{check}'}}]\n",
    )


def test_a_run_is_scored_by_its_formula_and_kept(app: App, tmp_path: Path) -> None:
    (record,) = records(app.runs.run(load_suite(suite(tmp_path)), [], RunOptions(), Silent()))
    assert (record.status, record.passed, record.failed, record.errors) == ("completed", 1, 1, 0)
    assert record.score == 60
    assert record.score_formula == "four * 10 + success_pct"
    loaded = app.load_run(record.id)
    kept, results = loaded.record, loaded.results
    assert kept.score == 60
    assert kept.metrics["total_cost"] == pytest.approx(record.metrics["total_cost"])
    assert [(each.case, each.status) for each in results] == [("four", "passed"), ("six", "failed")]


def test_several_models_make_runs_of_one_group(app: App, tmp_path: Path) -> None:
    runs = app.runs.run(load_suite(suite(tmp_path)), ["echo/a", "echo/b"], RunOptions(), Silent())
    kept = records(runs)
    assert [each.model for each in kept] == ["echo/a", "echo/b"]
    assert len({each.group for each in kept}) == 1
    assert len(app.store.runs(group=kept[0].group)) == 2


def test_epochs_and_limit(app: App, tmp_path: Path) -> None:
    options = RunOptions(RunLimits(epochs=3, cases=1))
    (record,) = records(app.runs.run(load_suite(suite(tmp_path)), [], options, Silent()))
    assert record.total == 3
    keys = [each.key for each in app.load_run(record.id).results]
    assert keys == [("four", 0), ("four", 1), ("four", 2)]


def test_a_run_resumes_with_the_epochs_it_began_with(app: App, tmp_path: Path) -> None:
    text = SUITE.replace("  - name: four\n", "  - name: four\n    epochs: 2\n")
    (record,) = records(app.runs.run(load_suite(suite(tmp_path, text)), [], RunOptions(), Silent()))
    assert record.total == 3
    resumed = app.runs.resume(record.id, RunOptions(), Silent()).record
    assert (resumed.status, len(app.load_run(record.id).results)) == ("completed", 3)


def test_a_large_run_is_told_from_the_store_as_a_small_one_from_memory(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = load_suite(dataset(tmp_path, 12, check="*1*"))
    options = RunOptions(RunLimits(epochs=2))
    (small,) = app.runs.run(definition, [], options, Silent())
    monkeypatch.setattr(ongoing_run, "MOST_HELD", 5)
    (large,) = app.runs.run(definition, [], options, Silent())
    assert isinstance(small.results, list)
    assert not isinstance(large.results, list)
    plain = [(each.case, each.epoch, each.status, each.output) for each in small.results]
    assert [(each.case, each.epoch, each.status, each.output) for each in large.results] == plain
    assert list(large.outcomes) == list(small.outcomes)
    assert large.describe_counts() == small.describe_counts()


def test_a_resumed_run_that_its_budget_stops_is_told_without_what_it_did_not_ask_again(
    app: App, tmp_path: Path
) -> None:
    (record,) = records(app.runs.run(load_suite(suite(tmp_path)), [], RunOptions(), Silent()))
    failed = CaseResult(case="six", status="error", error="no answer")
    app.store.create_run(half := replace(record, id="rhalf", status="running"))
    app.store.add_results(half.id, [next(app.store.results(record.id)), failed])
    app.store.save_run(replace(half, status="partial_failure"))
    resumed = app.runs.resume(half.id, RunOptions(RunLimits(budget=0.0)), Silent())
    assert (resumed.record.error, resumed.missing) == ("the budget is spent", 1)
    assert list(resumed.outcomes) == [each.case for each in resumed.results] == ["four"]


@pytest.mark.parametrize("in_memory", [0, 1, 8_000_000])
def test_a_run_that_is_rescored_and_saved_is_what_was_shown(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    monkeypatch.setattr(rechecks, "_IN_MEMORY", in_memory)
    definition = load_suite(dataset(tmp_path, 12))
    (record,) = records(app.runs.run(definition, [], RunOptions(), Silent()))
    stricter = load_suite(dataset(tmp_path, 12, check="*1*"))
    suite = app.runs.resolve_suite(stricter, RunOptions())
    _, after = app.runs.rescore_run(record.id, suite=suite)
    saved = app.load_run(app.runs.save_as_new(after).id)
    assert [*saved.results] == [*after.results]
    assert saved.results[-1] == after.results[-1] == [*after.results][-1]
    assert [each.status for each in saved.results].count("passed") == after.record.passed == 3
    assert saved.tally.metrics() == after.tally.metrics()
    assert list(saved.tally.cases) == list(after.tally.cases) == list(after.outcomes)


def test_a_run_whose_data_changed_is_not_resumed(app: App, tmp_path: Path) -> None:
    (record,) = records(app.runs.run(load_suite(dataset(tmp_path, 3)), [], RunOptions(), Silent()))
    (tmp_path / "rows.csv").write_text("n\n7\n")
    with pytest.raises(InvalidInput, match="have changed since the run"):
        app.runs.resume(record.id, RunOptions(), Silent())


def test_rescoring_by_a_formula_equals_running_with_it(app: App, tmp_path: Path) -> None:
    (record,) = records(app.runs.run(load_suite(suite(tmp_path)), [], RunOptions(), Silent()))
    other = load_suite(suite(tmp_path, SUITE.replace("four * 10 + success_pct", "success_pct / 2")))
    (fresh,) = records(app.runs.run(other, [], RunOptions(), Silent()))
    before, after = app.runs.rescore_run(record.id, formula="success_pct / 2")
    assert (before.score, after.score) == (60, fresh.score)
    saved = app.runs.save_as_new(after)
    assert app.store.run(saved.id).score == fresh.score
    assert app.store.run(record.id).score == 60


def test_rescoring_a_run_that_was_cut_keeps_what_did_not_run(app: App, tmp_path: Path) -> None:
    text = SUITE.replace("{input: 1, output: 1}", "{input: 1e6, output: 1e6}")
    options = RunOptions(RunLimits(budget=1e-9, threads=1))
    (record,) = records(app.runs.run(load_suite(suite(tmp_path, text)), [], options, Silent()))
    before, after = app.runs.rescore_run(record.id, formula="success_pct")
    assert (before.record.status, before.missing) == ("cancelled", 1)
    assert (after.record.status, after.missing) == ("cancelled", 1)


def test_rescoring_by_a_suite_checks_the_stored_answers_again(app: App, tmp_path: Path) -> None:
    (record,) = records(app.runs.run(load_suite(suite(tmp_path)), [], RunOptions(), Silent()))
    mended = load_suite(suite(tmp_path, SUITE.replace('"*6*"', '"*7*"')))
    _, rescored = app.runs.rescore_run(
        record.id, suite=app.runs.resolve_suite(mended, RunOptions())
    )
    assert (rescored.record.passed, rescored.score) == (2, 110)
    assert [each.status for each in rescored.results] == ["passed", "passed"]


def test_a_suite_without_a_model_is_refused_before_anything_is_kept(tmp_path: Path) -> None:
    app = App(str(tmp_path / "tally.db"))
    text = SUITE.replace("model: echo/x, ", "")
    with pytest.raises(InvalidInput, match="no model is named"):
        app.runs.run(load_suite(suite(tmp_path, text)), [], RunOptions(), Silent())
    assert not app.store.exists


def test_a_model_with_a_wrong_name_leaves_no_run_behind(tmp_path: Path) -> None:
    app = App(str(tmp_path / "tally.db"))
    with pytest.raises(TallymarkError):
        app.runs.run(load_suite(suite(tmp_path)), ["echo/x", "nonsense"], RunOptions(), Silent())
    assert not app.store.exists


def test_values_come_from_the_user_then_the_store_then_the_environment(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SUITE.replace("2 + 2 is 4", "\"{{var('said')}}\"")
    definition = load_suite(suite(tmp_path, text))
    monkeypatch.delenv("said", raising=False)
    with pytest.raises(InvalidInput, match="said"):
        app.runs.run(definition, [], RunOptions(), Silent())
    monkeypatch.setenv("said", "4 from the environment")
    outputs = []
    for step in range(3):
        if step == 1:
            app.store.set_var("said", "4 from the store")
        values = {"said": "4 from the user"} if step == 2 else {}
        (record,) = records(app.runs.run(definition, [], RunOptions(values=values), Silent()))
        outputs.append(app.load_run(record.id).results[0].output.rpartition("from ")[2])
    assert outputs == ["the environment", "the store", "the user"]


def test_a_secret_is_nowhere_but_in_the_request(tmp_path: Path) -> None:
    """The model echoes it; store, write-ahead log, reports and messages do not have it."""
    from tallymark.runs.reports import csv_report, json_report, junit_report, markdown_report
    from tallymark.runs.reports import summary as summed
    from tallymark.runs.reports.html_page import html_report

    secret = "hunter2-correct-horse"
    database = tmp_path / "tally.db"
    app = App(str(database))
    app.store.set_secret("token", secret)
    text = SUITE.replace("2 + 2 is 4", "\"{{secret('token')}} 4\"")
    text = text.replace("*6*", "*{{secret('token')}}6*")
    with ProviderServer() as server:
        model = f"{server.url}/v1#m"
        definition = load_suite(suite(tmp_path, text))
        (record,) = records(app.runs.run(definition, [model], RunOptions(), Silent()))
        assert secret in str(server.bodies)
    loaded = app.load_run(record.id)
    assert loaded.results[0].output == "***token*** 4"
    reports = [summed(loaded), *(r([loaded]) for r in (csv_report, json_report, junit_report))]
    reports += [markdown_report([loaded]), html_report([loaded])]
    assert not [report for report in reports if secret in report]
    app.close()
    for path in tmp_path.iterdir():
        assert secret.encode() not in path.read_bytes(), path.name


TOKEN = "hunter2-correct"
ECHO = "def answer(prompt):\n    return 'the key is hunter2-correct'\n"
ASKED = """
metadata: {name: s, model: "python/agent.py:answer", %s}
evals:
  - {prompt: "%s", checks: [%s]}
"""


@pytest.mark.parametrize(
    ("metadata", "prompt", "check"),
    [
        ("", "say {{secret('token')}}", ""),
        ("vars: {v: \"{{secret('token')}}\"}", "say {{var('v')}}", ""),
        ("system_prompt: \"{{secret('token')}}\"", "hi", ""),
        ("judge: echo/x", "hi", "{llm_judge: \"Says it {{secret('token')}}?\"}"),
    ],
)
def test_secrets_are_not_recorded(tmp_path: Path, metadata: str, prompt: str, check: str) -> None:
    app = App(str(tmp_path / "tally.db"))
    (tmp_path / "agent.py").write_text(ECHO)
    text = ASKED % (metadata, prompt, check)
    options = RunOptions(values={"token": TOKEN}, record=tmp_path / "answers.jsonl")
    with pytest.raises(InvalidInput, match="would hold the secrets of the suite: token"):
        app.runs.run(load_suite(suite(tmp_path, text)), [], options, Silent())
    app.close()
    assert not (tmp_path / "answers.jsonl").exists()


@pytest.mark.parametrize(
    ("metadata", "check"),
    [
        ("settings: {extra: {user: \"{{secret('token')}}\"}}", "{match: '*key*'}"),
        ("", "{match: \"*{{secret('token')}}*\"}"),
        ("vars: {unused: \"{{secret('token')}}\"}", "{match: '*key*'}"),
    ],
)
def test_where_no_secret_would_be_recorded_answers_are(
    tmp_path: Path, metadata: str, check: str
) -> None:
    """The model tells the secret all the same, and that is not kept either."""
    app = App(str(tmp_path / "tally.db"))
    (tmp_path / "agent.py").write_text(ECHO)
    path = suite(tmp_path, ASKED % (metadata, "hi", check))
    record, cache = tmp_path / "answers.jsonl", tmp_path / "cache.db"
    for _ in range(2):
        options = RunOptions(values={"token": TOKEN}, record=record, cache=cache)
        (run,) = app.runs.run(load_suite(path), [], options, Silent())
        assert run.record.passed == 1
    app.close()
    for kept in tmp_path.iterdir():
        if kept.is_file() and kept.name != "agent.py":
            assert TOKEN.encode() not in kept.read_bytes(), kept.name
    assert "the key is ***token***" in record.read_text()


def test_a_provider_that_fails_half_its_calls_loses_no_case(app: App, tmp_path: Path) -> None:
    with ProviderServer() as server:
        for number in range(20):
            server.on(f"item {number}", Fail(500), Reply())
        path = dataset(tmp_path, 20, f"{server.url}/v1#m")
        options = RunOptions(RunLimits(tries=3))
        (record,) = records(app.runs.run(load_suite(path), [], options, Silent()))
    assert (record.status, record.passed) == ("completed", 20)
    assert {each.tries for each in app.load_run(record.id).results} == {2}


def test_a_case_that_cannot_run_is_an_error_not_a_fail(app: App, tmp_path: Path) -> None:
    with ProviderServer() as server:
        server.on("item 3", Fail(400))
        definition = load_suite(dataset(tmp_path, 5, f"{server.url}/v1#m"))
        (record,) = records(app.runs.run(definition, [], RunOptions(), Silent()))
        assert (record.status, record.passed, record.errors) == ("partial_failure", 4, 1)
        assert record.metrics["success_pct"] == 100
        server.on("item 3", Reply())
        server.count.clear()
        resumed = app.runs.resume(record.id, RunOptions(), Silent()).record
        assert dict(server.count) == {"item 3": 1}
    assert (resumed.status, resumed.passed, resumed.errors) == ("completed", 5, 0)


def test_a_model_that_refuses_everything_is_not_asked_forever(app: App, tmp_path: Path) -> None:
    with ProviderServer() as server:
        for number in range(200):
            server.on(f"item {number}", Fail(401))
        path = dataset(tmp_path, 200, f"{server.url}/v1#m")
        (record,) = records(app.runs.run(load_suite(path), [], RunOptions(), Silent()))
        assert sum(server.count.values()) < 60
    assert record.status == "cancelled"
    assert record.error == "the model refused every case so far"


def test_a_budget_stops_before_it_is_passed(app: App, tmp_path: Path) -> None:
    text = (
        dataset(tmp_path, 50)
        .read_text()
        .replace("threads: 8", "threads: 8, pricing: {input: 100000, output: 100000}")
    )
    options = RunOptions(RunLimits(budget=5.0))
    (record,) = records(app.runs.run(load_suite(suite(tmp_path, text)), [], options, Silent()))
    spent = sum(each.cost or 0 for each in app.load_run(record.id).results)
    assert 0 < spent <= 5.0
    assert (record.status, record.error) == ("cancelled", "the budget is spent")


def test_a_model_that_answers_with_5_mb(app: App, tmp_path: Path) -> None:
    with ProviderServer() as server:
        server.on("item 0", Reply(output="item " + "x" * 5_000_000))
        path = dataset(tmp_path, 2, f"{server.url}/v1#m")
        (record,) = records(app.runs.run(load_suite(path), [], RunOptions(), Silent()))
    assert record.passed == 2
    assert len(app.load_run(record.id).results[0].output) == 5_000_005


KILLED = """
import os, sys, threading, time
from tallymark.service.app import App
from tallymark.service.suite_runs import RunOptions
from tallymark.suites.suite_file import load_suite
class Quiet:
    def started(self, record, tally, formula): print(record.id, flush=True)
    def moved(self, result, tally): print(result.case, flush=True)
    def ended(self, record): pass
app = App(sys.argv[2])
if len(sys.argv) > 3:
    app.runs.resume(sys.argv[3], RunOptions(), Quiet())
else:
    app.runs.run(load_suite(sys.argv[1]), [], RunOptions(), Quiet())
"""


@pytest.mark.parametrize("times", [3, pytest.param(20, marks=pytest.mark.proof)])
def test_killed_again_and_again_and_resumed_no_case_is_lost_doubled_or_changed(
    tmp_path: Path, times: int
) -> None:
    """The answers take a moment each, so that a kill falls between any two of them."""
    draw, rows = random.Random(3), 300
    path, database = dataset(tmp_path, rows, "echo/x"), tmp_path / "tally.db"
    run_id = None
    for _ in range(times):
        command = [sys.executable, "-c", KILLED, str(path), str(database)]
        command += [run_id] if run_id else []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            run_id = process.stdout.readline().strip() or run_id
            for _ in range(draw.randrange(1, 14)):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        with sqlite3.connect(database) as connection:
            assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    app = App(str(database))
    assert run_id is not None
    record = app.runs.resume(run_id, RunOptions(), Silent()).record
    (whole,) = records(app.runs.run(load_suite(path), [], RunOptions(), Silent()))
    cases = [each.case for each in app.load_run(run_id).results]
    assert cases == [f"row[{number}]" for number in range(1, rows + 1)] or len(set(cases)) == rows
    assert len(cases) == rows
    assert (record.score, record.status, record.passed) == (whole.score, "completed", rows)
    require_as_logged(app.store, "runs")


PATIENT = """
import time
from pathlib import Path
here = Path(__file__).parent
def ask(prompt):
    with (here / "asked").open("a") as asked:
        asked.write(prompt + "\\n")
    if not (here / "second").exists():
        raise RuntimeError("not yet")
    while not (here / "refused").exists():
        time.sleep(0.01)
    return "item"
"""


def test_of_two_who_resume_at_once_one_asks_and_one_is_told_who(app: App, tmp_path: Path) -> None:
    (tmp_path / "patient.py").write_text(PATIENT)
    path = dataset(tmp_path, 12, "python/patient.py:ask")
    (first,) = records(app.runs.run(load_suite(path), [], RunOptions(), Silent()))
    assert (first.status, first.errors) == ("failed", 12)
    (tmp_path / "asked").unlink()
    (tmp_path / "second").touch()

    def resume(_: int) -> str:
        with closing(App(app.db)) as mine:
            try:
                return mine.runs.resume("latest", RunOptions(), Silent()).record.status
            except InvalidInput as error:
                (tmp_path / "refused").touch()
                return str(error)

    with ThreadPoolExecutor(2) as pool:
        refused, done = sorted(pool.map(resume, range(2)), key=lambda each: each == "completed")
    assert done == "completed"
    # Who comes when the other has begun already finds no run that is left alone.
    assert re.search(f"{first.id} is (held by .+, process {os.getpid()}|still running)", refused)
    assert len((tmp_path / "asked").read_text().splitlines()) == 12


def test_the_latest_that_can_go_on_is_neither_done_nor_of_another_door(
    app: App, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="nothing is stored"):
        app.runs.resume("latest", RunOptions(), Silent())
    (record,) = records(app.runs.run(load_suite(suite(tmp_path)), [], RunOptions(), Silent()))
    others: list[dict[str, Any]] = [
        {"status": "cancelled", "id": "older"},
        {"status": "cancelled", "id": "wanted"},
        {"status": "cancelled", "id": "traces", "tags": {"door": "traces"}},
        {"id": "done"},
    ]
    for number, changes in enumerate(others):
        other = replace(record, created_at=record.created_at + number, **changes)
        app.store.create_run(other)
    assert app.runs.resume("latest", RunOptions(), Silent()).record.id == "wanted"


@pytest.mark.parametrize(
    ("statuses", "wanted"),
    [
        (("cancelled", "partial_failure"), 1),
        (("cancelled", "failed"), 1),
        (("partial_failure", "interrupted"), 1),
        (("cancelled", "partial_failure", "completed"), 0),
        (("cancelled", "interrupted", "completed"), 1),
    ],
)
def test_the_newest_goes_on_if_it_has_errors_and_an_older_one_if_it_was_stopped(
    app: App, tmp_path: Path, statuses: tuple[RunStatus, ...], wanted: int
) -> None:
    (record,) = records(app.runs.run(load_suite(suite(tmp_path)), [], RunOptions(), Silent()))
    for number, status in enumerate(statuses):
        created = record.created_at + number + 1
        app.store.create_run(replace(record, id=f"r{number}", status=status, created_at=created))
    found = app.runs.resume("latest", RunOptions(), Silent()).record
    assert found.id == f"r{wanted}"


LATE = """
import asyncio, builtins, os, signal, sys, threading, time
from tallymark.service.app import App
from tallymark.service.suite_runs import RunOptions
from tallymark.cli.progress import PlainWatch
from tallymark.suites.suite_file import load_suite
builtins.asked = threading.Event()
def interrupt():
    asked.wait()
    time.sleep(0.2)  # by then the loop waits for an answer that never comes
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
# Another thread takes the signal, so it does not wake this one: as if it had come just before.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
try:
    App(sys.argv[2]).runs.run(load_suite(sys.argv[1]), [], RunOptions(), PlainWatch())
except KeyboardInterrupt:
    print("stopped")
"""


def test_ctrl_c_that_comes_just_before_the_loop_waits_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text(
        "import asyncio\n"
        "async def hang(prompt):\n    asked.set()\n    await asyncio.Event().wait()\n"
    )
    path = dataset(tmp_path, 2, "python/hanging.py:hang")
    command = [sys.executable, "-c", LATE, str(path), str(tmp_path / "tally.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "stopped\n"


SMALL_DISK = """
import resource, signal
from tallymark.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, 700_000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
main()
"""


def test_a_full_disk_is_one_sentence_and_what_was_kept_stays(tmp_path: Path) -> None:
    path, database = dataset(tmp_path, 3000), tmp_path / "tally.db"
    command = ["run", str(path), "--db", str(database)]
    done = subprocess.run(
        [sys.executable, "-c", SMALL_DISK, *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "full" in done.stderr or "no room" in done.stderr or "disk" in done.stderr
    app = App(str(database))
    (record,) = app.store.runs()
    done_before = len(app.store.result_keys(record.id))
    resumed = app.runs.resume(record.id, RunOptions(), Silent()).record
    assert 0 <= done_before < 3000
    assert resumed.passed == 3000


def test_a_database_locked_by_another_process_is_waited_for(tmp_path: Path) -> None:
    path, database = suite(tmp_path), tmp_path / "tally.db"
    app = App(str(database))
    app.runs.run(load_suite(path), [], RunOptions(), Silent())
    holder = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('begin immediate'); print('held', flush=True);"
        "import time; time.sleep(0.5); c.execute('rollback')"
    )
    command = [sys.executable, "-c", holder, str(database)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        (record,) = records(app.runs.run(load_suite(path), [], RunOptions(), Silent()))
    assert record.status == "completed"


def test_results_stand_in_the_order_of_the_suite() -> None:
    record = RunRecord(
        id="r", suite="s", model="m", definition='{"evals":[{"name":"z"},{},{"name":"a"}]}'
    )
    keys = [("a[10]", 0), ("a[9]", 0), ("#2", 1), ("#2", 0), ("z", 0)]
    given = [CaseResult(case=case, epoch=epoch, status="passed") for case, epoch in keys]
    ordered = [each.key for each in sort_by_suite(record, given)]
    assert ordered == [("z", 0), ("#2", 0), ("#2", 1), ("a[9]", 0), ("a[10]", 0)]


def test_ids_are_short_and_differ() -> None:
    ids = {make_id("r") for _ in range(1000)}
    assert len(ids) > 995
    assert {len(each) for each in ids} == {11}


def test_an_unknown_run_is_refused(app: App, tmp_path: Path) -> None:
    app.runs.run(load_suite(suite(tmp_path)), [], RunOptions(), Silent())
    with pytest.raises(TallymarkError):
        app.load_run("nothing")


JUDGED = """
metadata: {name: judged, model: "python/agent.py:answer", judge: "python/agent.py:judge"}
evals:
  - {name: kind, prompt: "Please?", checks: [llm_judge: Is it kind?]}
  - {name: rude, prompt: "Now!", checks: [llm_judge: Is it kind?, llm_judge: Is it short?]}
"""
AGENT = """
from pathlib import Path
calls = Path(__file__).with_name("calls")

def answer(prompt):
    return "Of course, dear." if prompt == "Please?" else "No."

def judge(prompt):
    with calls.open("a") as file:
        file.write("x")
    good = "dear" in prompt or "short" in prompt
    return {"output": f"choice: {'met' if good else 'not met'}", "cost": 0.5}
"""


def judged_suite(folder: Path) -> Path:
    (folder / "agent.py").write_text(AGENT)
    return suite(folder, JUDGED)


def statuses(app: App, run: Run) -> list[tuple[str, str, list[float | None]]]:
    return [
        (each.case, each.status, [check.value for check in each.checks])
        for each in app.load_run(run.record.id).results
    ]


def test_a_judge_is_recorded_and_replayed_from_the_models_own_file(
    app: App, tmp_path: Path
) -> None:
    definition = load_suite(judged_suite(tmp_path))
    recorded = tmp_path / "both.jsonl"
    (first,) = app.runs.run(definition, [], RunOptions(record=recorded), Silent())
    assert statuses(app, first) == [("kind", "passed", [1.0]), ("rude", "failed", [0.0, 1.0])]
    assert len(recorded.read_text().splitlines()) == 5
    (tmp_path / "agent.py").unlink()
    (again,) = app.runs.run(definition, ["replay/both"], RunOptions(judge="replay/both"), Silent())
    assert statuses(app, again) == statuses(app, first)


def test_a_judge_is_cached(app: App, tmp_path: Path) -> None:
    definition = load_suite(judged_suite(tmp_path))
    options = RunOptions(cache=tmp_path / "cache.db")
    runs = [app.runs.run(definition, [], options, Silent())[0] for _ in range(2)]
    assert statuses(app, runs[0]) == statuses(app, runs[1])
    assert (tmp_path / "calls").read_text() == "xxx"


def test_a_judge_that_is_not_there_leaves_no_run_behind(app: App, tmp_path: Path) -> None:
    definition = load_suite(judged_suite(tmp_path))
    with pytest.raises(InvalidInput, match="there are no answers 'lost' to replay"):
        app.runs.run(definition, [], RunOptions(judge="replay/lost"), Silent())
    assert not app.store.exists or app.store.runs() == []
    assert not (tmp_path / "calls").exists()
