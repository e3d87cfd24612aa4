"""`tally runs`: what it deletes and renames, and what it asks first."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.tally_process import Tally

from tallymark.runs.record import CaseResult, RunRecord
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


def test_a_name_is_taken_wherever_an_id_is(tally: Tally, store: Store) -> None:
    for run, name in (("rone", "nightly"), ("rtwo", "one more: 100 %")):
        store.add_results(run, [CaseResult(case="a", status="passed")])
        assert tally("runs", "rename", run, name).returncode == 0
    assert "rone, completed" in tally("show", "nightly").stdout
    compared = tally("compare", "nightly", "one more: 100 %").stdout
    assert compared.startswith("=== Comparison ===\nFirst:  rone on m")
    assert tally("rescore", "nightly", "--formula", "success_pct").returncode == 0
    assert tally("runs", "rename", "nightly", "weekly").stdout == "rone is now called weekly\n"
    assert tally("runs", "delete", "weekly", "--yes").stdout == "deleted rone, s with m\n"


def test_a_name_that_several_runs_have_lists_their_ids(tally: Tally, store: Store) -> None:
    for run in ("rone", "rtwo"):
        tally("runs", "rename", run, "nightly")
    for command in (["show"], ["compare", "rone"], ["runs", "delete", "--yes"]):
        refused = tally(*command, "nightly")
        assert (refused.returncode, refused.stderr) == (
            2, "tally: several runs are called 'nightly': rtwo, rone; give the id of one\n"
        )  # fmt: skip
    assert len(store.runs()) == 2


@pytest.mark.parametrize("option", [("--db", "other.db"), ("--json",), ("-m", "m")])
def test_options_before_a_command_are_not_passed_over(
    tally: Tally, store: Store, option: tuple[str, ...]
) -> None:
    refused = tally("runs", *option, "delete", "rone", "--yes")
    assert refused.returncode == 2
    assert "stands before 'delete'" in refused.stderr
    assert len(store.runs()) == 2
