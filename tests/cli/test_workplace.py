"""A run that is done here and kept by a server: sent in parts, sent again, and lost by nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.http.conftest import Server, listening, run_server

from tallymark.cli import workplace
from tallymark.cli.progress import QuietWatch
from tallymark.cli.workplace import open_checkpoint
from tallymark.client import Client
from tallymark.errors import NotAllowed, NotFound, WorkFailed
from tallymark.runs.run import Run
from tallymark.scoring import load_scorer
from tallymark.service.suite_runs import RunOptions
from tallymark.suites import ScoredTraces
from tallymark.suites.scored_traces import RESULTS_SHOWN
from tallymark.suites.suite_file import load_suite
from tallymark.traces import Trace

SUITE = """
metadata: {name: greet, model: echo/me}
evals:
  - {name: hello, prompt: "Say {{var('word')}}", epochs: 3, checks: [{match: "*hello*"}]}
  - {name: bye, prompt: Say hi, checks: [{match: "*bye*"}]}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(str(tmp_path_factory.mktemp("work") / "tally.db"), workers=0) as running:
        assert running.v1("alice", "PUT", "/vars/word", json={"value": "hello"}).status_code == 200
        yield running


@pytest.fixture(scope="module")
def url(server: Server) -> Iterator[str]:
    with listening(server) as address:
        yield address


@pytest.fixture
def there(
    server: Server, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Client]:
    """What alice's commands ask, each result a request of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workplace, "_MOST_RESULTS", 1)
    (tmp_path / "suite.yaml").write_text(SUITE)
    with Client(url, server.keys["alice"]) as client:
        yield client


def run_here(work: workplace.Work) -> list[Run]:
    options = work.fill_in(RunOptions())
    return work.app.runs.run(load_suite(Path("suite.yaml")), [], options, QuietWatch())


def test_a_run_is_kept_there_as_it_was_here(there: Client) -> None:
    with open_checkpoint(there) as work:
        runs = run_here(work)
        assert work.hand_over(runs) == []
        assert work.hand_over(runs) == []  # as if the answer had been lost
    (here,) = runs
    kept = there.runs.load(here.record.id)
    assert (kept.score, kept.record.status) == (here.score, "completed")
    assert [each.key for each in kept.results] == [each.key for each in here.results]
    with open_checkpoint(there) as work:
        assert work.app.store.runs() == []
        with pytest.raises(NotFound, match="there is no unsent run"):
            work.find_finished(here.record.id)


def test_all_of_many_traces_are_there_not_only_those_that_are_shown(
    there: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workplace, "_MOST_RESULTS", 20)
    many = 2 * RESULTS_SHOWN + 5
    span = {"span_id": "a", "name": "answer", "span_type": "generation"}
    traces = [{"trace_id": f"t{n}", "name": "t", "spans": [span]} for n in range(many)]
    with open_checkpoint(there) as work:
        read = map(Trace.from_dict, traces)
        scored = ScoredTraces(read, [load_scorer("no_errors")], store=work.app.store)
        assert len(list(scored)) == many
        assert work.hand_over([scored.run]) == []
    assert there.runs.load(scored.run.record.id).tally.finished == many


def test_what_broke_off_is_here_until_all_of_it_is_there(
    there: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, sent = there.runs.create, []

    def break_off(run: dict[str, Any]) -> Any:
        sent.append(run)
        if len(sent) == 3:
            raise WorkFailed("the server is away")
        return keep(run)

    with open_checkpoint(there) as work:
        (here,) = run_here(work)
        monkeypatch.setattr(there.runs, "create", break_off)
        with pytest.raises(WorkFailed, match="away"):
            work.hand_over([here])
        assert f"tally run --resume {here.record.id} --server http" in work.tell_rest(
            here.record.id
        )
    assert there.runs.load(here.record.id).record.status == "cancelled"
    with open_checkpoint(there) as work:
        finished = work.find_finished("latest")
        assert finished is not None
        assert work.hand_over([finished]) == []
    assert there.runs.load(here.record.id).record.status == "completed"
    assert [each.id for each in there.runs.list()].count(here.record.id) == 1


def test_nothing_is_begun_that_the_server_would_not_take(
    server: Server, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Client(url, server.keys["victor"]) as client, open_checkpoint(client) as work:
        with pytest.raises(NotAllowed, match="takes no runs from a key of the role 'viewer'"):
            work.check()
        assert not (tmp_path / ".tally").exists()
