"""`tally worker`: does what is queued, and ends as it is told."""

from __future__ import annotations

import signal
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.tally_process import TALLY, Tally

from tallymark.service.app import App
from tallymark.service.remote_runs import RemoteRuns
from tallymark.service.remote_suites import RemoteRules

SUITE = "evals: [{prompt: hi, checks: [{match: hi}]}]"


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    return Tally(tmp_path)


def queue(tmp_path: Path) -> str:
    with closing(App(str(tmp_path / "tally.db"))) as app:
        ((record, _),) = RemoteRuns(app, RemoteRules()).submit(SUITE, ["echo/a"])
        return record.id


def test_once_does_what_is_there(tally: Tally, tmp_path: Path) -> None:
    run = queue(tmp_path)
    done = tally("worker", "--db", "tally.db", "--once")
    assert done.returncode == 0, done.stderr
    assert "2 workers for tally.db" in done.stderr
    with closing(App(str(tmp_path / "tally.db"))) as app:
        assert app.store.run(run).status == "completed"


def test_an_unknown_kind_is_wrong_usage(tally: Tally) -> None:
    done = tally("worker", "--db", "tally.db", "--kind", "scoer")
    assert done.returncode == 2
    assert "there is no kind of job called 'scoer'" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well(tmp_path: Path, number: signal.Signals) -> None:
    command = [str(TALLY), "worker", "--db", str(tmp_path / "tally.db")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "Ctrl-C ends them" in process.stderr.readline()
        process.send_signal(number)
        said = process.stderr.read()
        assert process.wait(10) == 0, said
    assert said == "stopping: unfinished jobs go back to the queue\n"
