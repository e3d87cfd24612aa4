"""`tally runs`: what it deletes and renames, and what it asks first."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.tally_process import Tally

from tallymark.runs.record import RunRecord
from tallymark.store import Store, open_store


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    return Tally(tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    with open_store(str(tmp_path / ".tally" / "tally.db")) as opened:
        for name in ("rone", "rtwo"):
            opened.create_run(RunRecord(id=name, suite="s", model="m", status="completed"))
    return opened


def test_without_a_terminal_nothing_is_deleted_unless_yes_is_said(
    tally: Tally, store: Store
) -> None:
    asked = tally("runs", "delete", "rone")
    assert asked.returncode == 2
    assert "Delete the run rone, s with m?; add --yes" in asked.stderr
    assert tally("runs", "delete", "rone", "rtwo", "--yes").returncode == 0
    assert store.runs() == []


def test_of_several_none_is_deleted_where_one_is_not_there(tally: Tally, store: Store) -> None:
    refused = tally("runs", "delete", "rone", "rnothing", "--yes")
    assert (refused.returncode, len(store.runs())) == (2, 2)
    assert "there is no run 'rnothing'" in refused.stderr


def test_a_run_that_goes_on_is_not_deleted(tally: Tally, store: Store) -> None:
    with open_store(store.shown) as worker:
        worker.create_run(RunRecord(id="rlive", suite="s", model="m", status="running"))
        refused = tally("runs", "delete", "rlive", "--yes")
        assert refused.returncode == 2
        assert "the run rlive is held by" in refused.stderr
        assert worker.run("rlive").status == "running"


def test_the_name_of_a_run_is_listed_where_one_has_it(tally: Tally, store: Store) -> None:
    assert "NAME" not in tally("runs").stdout
    assert tally("runs", "rename", "rone", "nightly").stdout == "rone is now called nightly\n"
    listed = tally("runs").stdout
    assert ("NAME" in listed, "nightly" in listed) == (True, True)
    assert tally("runs", "rename", "rone", " ").returncode == 2


@pytest.mark.parametrize("option", [("--db", "other.db"), ("--json",), ("-m", "m")])
def test_options_before_a_command_are_not_passed_over(
    tally: Tally, store: Store, option: tuple[str, ...]
) -> None:
    refused = tally("runs", *option, "delete", "rone", "--yes")
    assert refused.returncode == 2
    assert "stands before 'delete'" in refused.stderr
    assert len(store.runs()) == 2
