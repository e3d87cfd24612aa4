"""Cases that workers ask: the run of one process, also when it goes on after it was cut off."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from scripts.engine_samples import write_suite
from tests.engine.serial_engine import SerialChoice, SerialEngine

from tallymark.runs.run import Run
from tallymark.service.app import App
from tallymark.service.suite_runs import RunOptions
from tallymark.suites.suite_evaluation import RunLimits
from tallymark.suites.suite_file import load_suite

COUNT = 230


class NoWatch:
    """Sees nothing."""

    def started(self, *_: object) -> None: ...
    def moved(self, *_: object) -> None: ...
    def ended(self, *_: object) -> None: ...


def run(app: App, folder: Path, engine: SerialEngine | None, model: str = "replay/samples") -> Run:
    choice = None if engine is None else SerialChoice(engine=engine)
    options = RunOptions(RunLimits(threads=3), engine=choice)
    (found,) = app.runs.run(load_suite(folder / "suite.yaml"), [model], options, NoWatch())
    return found


def tell(app: App, run: Run) -> list[Any]:
    record = run.record
    told = [record.status, record.score, record.score_low, record.metrics, record.total]
    return [*told, *sorted(app.store.results(record.id, with_traces=True), key=lambda r: r.key)]


def test_it_is_the_run_of_one_process(tmp_path: Path) -> None:
    write_suite(tmp_path, COUNT, 1)
    engine = SerialEngine(3)
    with closing(App(str(tmp_path / "tally.db"))) as app:
        alone, found = run(app, tmp_path, None), run(app, tmp_path, engine)
        assert tell(app, found) == tell(app, alone)
        assert list(found.results) == list(alone.results)
        assert engine.done > 3


def test_a_run_that_was_cut_off_asks_what_is_missing(tmp_path: Path) -> None:
    write_suite(tmp_path, COUNT, 1)
    engine = SerialEngine(2)
    engine.die_after = 1  # what is left is few, and asked by one process
    with closing(App(str(tmp_path / "tally.db"))) as app:
        with pytest.raises(KeyboardInterrupt):
            run(app, tmp_path, engine)
        options = RunOptions(engine=SerialChoice(engine=engine))
        engine.die_after = None
        found = app.runs.resume("latest", options, NoWatch())
        assert tell(app, found) == tell(app, run(app, tmp_path, None))


def test_a_model_that_refuses_everything_ends_it(tmp_path: Path) -> None:
    write_suite(tmp_path, COUNT, 1)
    (tmp_path / "nothing.jsonl").write_text('{"prompt": "else", "output": "x"}\n', "utf-8")
    with closing(App(str(tmp_path / "tally.db"))) as app:
        found = run(app, tmp_path, SerialEngine(2), "replay/nothing")
    assert found.record.error == "the model refused every case so far"
