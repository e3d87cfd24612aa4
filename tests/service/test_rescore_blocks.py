"""Attempts that workers score by a plugin: the same as in one process, whoever ends it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from scripts.engine_samples import CHALLENGE, write_attempts
from tests.engine.serial_engine import SerialChoice, SerialEngine

from tallymark.service import competition as competition_module
from tallymark.service.app import App
from tallymark.store.contests import rescorings

COUNT, PAGE = 72, 9


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[App, App]]:
    """The same attempts in two databases; an agent of many pages ends the plugin's process."""
    monkeypatch.setattr(rescorings, "_PAGE", PAGE)
    monkeypatch.setattr(competition_module, "_AT_ONCE", 50)
    write_attempts(tmp_path, str(tmp_path / "one.db"), COUNT, 3)
    shutil.copy(tmp_path / "one.db", tmp_path / "two.db")
    one, other = App(str(tmp_path / "one.db")), App(str(tmp_path / "two.db"))
    with closing(one), closing(other):
        yield one, other


def rescore(app: App, engine: SerialEngine | None, *, apply: bool = True) -> Any:
    choice = None if engine is None else SerialChoice(engine=engine)
    with closing(app.competition()) as competition:
        return competition.rescore(CHALLENGE, apply=apply, plugin="heavy.py:Heavy", engine=choice)


QUERIES = (
    "SELECT key, state FROM attempts ORDER BY key",
    "SELECT attempt, score, result, error FROM attempt_scores ORDER BY attempt",
    "SELECT attempt, details, evaluation FROM attempt_details ORDER BY attempt",
    "SELECT agent, attempt, score FROM boards ORDER BY agent",
    "SELECT agent, deadly, reason FROM plugin_pauses",
)


def tell(app: App) -> list[Any]:
    """All that is stored of the attempts, but when."""
    with app.store._database.read() as connection:
        return [connection.exec_driver_sql(query).fetchall() for query in QUERIES]


def test_it_is_the_rescoring_of_one_process_however_often_it_was_cut_off(
    two: tuple[App, App],
) -> None:
    one, other = two
    engine = SerialEngine(3)
    engine.die_after = 4
    with pytest.raises(KeyboardInterrupt):
        rescore(other, engine, apply=False)
    engine.die_after = None
    assert rescore(other, engine, apply=False) == rescore(one, None, apply=False)
    done = engine.done
    assert done == -(-COUNT // PAGE)
    assert rescore(other, engine) == rescore(one, None)
    assert engine.done == done  # a preview has scored them already
    assert tell(one) == tell(other)
    assert tell(one)[-1][0][:2] == ("crasher", 5)
