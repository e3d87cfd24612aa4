"""A backfill by workers: what is decided and scored is that of one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.engine.serial_engine import SerialChoice, SerialEngine
from tests.service.rule_samples import NOON, Desk, make_trace

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.service.app import App
from tallymark.service.rule_blocks import do_backfills
from tallymark.store import open_store

HERE = str(Path(__file__).with_name("rule_scorers.py"))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with open_store(str(tmp_path / "tally.db")) as store:
        made = Desk(store)
        made.load([make_trace(n, answer="sorry" if n % 3 else "no") for n in range(230)])
        made.settle()
        yield made


@pytest.mark.parametrize(
    "rule",
    [
        {"scorer": "contains(values=['sorry'])"},
        {"scorer": "contains(values=['sorry'])", "cap_count": 150},
        {"scorer": f"{HERE}:raising"},
        {"formula": "cost * 100"},
    ],
    ids=["a scorer", "with a cap", "one that fails", "a formula"],
)
def test_it_decides_as_one_process_does(desk: Desk, rule: dict[str, Any]) -> None:
    engine = SerialEngine(2)
    found = []
    for name, how in (("alone", {}), ("spread", {"engine": engine})):
        desk.rules.add({**rule, "name": name})
        made = desk.start_backfill(name, NOON, NOON + 1000)
        done = desk.work(**how).backfill(made.id)
        found.append((done, desk.count(name), desk.values(name)))
    assert found[0] == found[1]
    assert engine.done == (0 if "formula" in rule else 2 if "cap_count" in rule else 3)


def test_traces_over_which_workers_die_have_failed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr("tallymark.service.rule_blocks.make_context", fail)
    desk.rules.add({"name": "polite", "scorer": "contains(values=['sorry'])"})
    made = desk.start_backfill("polite", NOON, NOON + 1000)
    done = desk.work(engine=SerialEngine(2)).backfill(made.id)
    assert (done["state"], done["failed"]) == ("done", 230)


@pytest.mark.parametrize("error", [InvalidInput("not today"), WorkFailed("not today")])
def test_who_does_a_backfill_is_told_that_its_job_failed_and_may_do_it_again(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Whether doing it again would come to the same, or is tried later."""

    def fail(*_: object, **__: object) -> None:
        raise error

    desk.rules.add({"name": "polite", "scorer": "contains(values=['sorry'])"})
    made = desk.start_backfill("polite", NOON, NOON + 1000)
    with closing(App(str(tmp_path / "tally.db"))) as app:
        with monkeypatch.context() as broken:
            broken.setattr("tallymark.service.rule_blocks.go_on_with_backfill", fail)
            with pytest.raises(WorkFailed, match=f"backfill {made.id} has not ended: not today"):
                do_backfills(app, SerialChoice(), made.job)
        do_backfills(app, SerialChoice(), made.job)
    assert desk.rules.get_backfill("polite", made.id).state == "done"
