"""A run while it goes on: what is kept of it, also when it does not end well."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tallymark.errors import InvalidInput
from tallymark.formula import Formula
from tallymark.runs import ongoing_run
from tallymark.runs.ongoing_run import OngoingRun, open_keeper
from tallymark.runs.record import CaseResult, RunRecord
from tallymark.scoring import EvalContext, Score, scorer
from tallymark.store import open_store
from tallymark.suites import Suite, Test, run

FORMULA = Formula.parse("success_pct")


def record(total: int = 2) -> RunRecord:
    return RunRecord(id="r1", suite="s", model="m", status="running", total=total)


def passed(case: str) -> CaseResult:
    return CaseResult(case=case, status="passed", latency=1.0, cost=0.1)


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        (None, "completed", None),
        (KeyboardInterrupt, "cancelled", "stopped by hand"),
        (ValueError, "cancelled", "broke off"),
    ],
)
def test_it_is_summed_up_however_it_ends(
    tmp_path: Path, raised: type[BaseException] | None, status: str, said: str | None
) -> None:
    with open_store(str(tmp_path / "t.db")) as store:
        store.create_run(record())
        ongoing = OngoingRun(record(), FORMULA, keeper=store)
        try:
            with ongoing:
                ongoing.add(passed("a"))
                if raised is not None:
                    raise raised
                ongoing.add(passed("b"))
                ongoing.ending = "finished"
        except (KeyboardInterrupt, ValueError) as error:
            assert type(error) is raised
        kept = store.run("r1")
        assert (kept.status, kept.error, kept.score) == (status, said, 100.0)
        assert len(list(store.results("r1"))) == kept.passed


def test_metrics_are_listed_in_the_order_of_the_suite_not_of_the_answers() -> None:
    definition = '{"evals": [{"name": "one"}, {"name": "two"}, {"name": "three"}]}'
    ongoing = OngoingRun(replace(record(3), definition=definition), FORMULA)
    with ongoing:
        for case in ("three", "one", "two"):
            ongoing.add(passed(case))
    listed = [name for name in ongoing.record.metrics if name in ("one", "two", "three")]
    assert listed == ["one", "two", "three"]


def test_metrics_of_a_python_suite_are_listed_in_the_order_of_its_tests() -> None:
    order = ["one", "two", "three"]
    told = {name: threading.Event() for name in order}

    def agent(name: str) -> str:
        if name != "three":  # each waits for the result after its own, so they end in reverse
            assert told[order[order.index(name) + 1]].wait(60)
        return name

    @scorer
    def said(ctx: EvalContext) -> bool:
        return ctx.output in order

    suite = Suite("order", [Test(name, name, scorers=[said]) for name in order])
    done = run(suite, agent, on_result=lambda result: told[result.case].set())
    assert [name for name in done.record.metrics if name in order] == order


@pytest.mark.parametrize(("kept", "held"), [(True, None), (False, 3)])
def test_results_that_a_keeper_has_are_held_only_while_they_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool, held: int | None
) -> None:
    monkeypatch.setattr(ongoing_run, "MOST_HELD", 2)
    with open_store(str(tmp_path / "t.db")) as store:
        store.create_run(record(3))
        with OngoingRun(record(3), FORMULA, keeper=store if kept else None) as ongoing:
            for case in "abc":
                assert ongoing.results is not None
                ongoing.add(passed(case))
        assert (None if ongoing.results is None else len(ongoing.results)) == held
        assert ongoing.tally.finished == 3


def test_what_the_keeper_cannot_keep_comes_out_and_hides_no_first_error() -> None:
    class Full:
        def create_run(self, record: RunRecord) -> None: ...
        def save_run(self, record: RunRecord) -> None: ...
        def open_writer(self, run_id: str) -> Any:
            return self

        def open_results(self, record: RunRecord, keys: Any) -> Any:
            return self

        def put(self, result: CaseResult) -> None: ...
        async def aput(self, result: CaseResult) -> None: ...
        def close(self) -> None:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), OngoingRun(record(), FORMULA, keeper=Full()):
        pass
    with (
        pytest.raises(ValueError, match="the cause"),
        OngoingRun(record(), FORMULA, keeper=Full()),
    ):
        raise ValueError("the cause")


def test_a_store_is_an_address_or_an_open_store(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    suite = Suite("s", [Test("t", "x", scorer="word_count")])
    kept = run(suite, lambda _: "yes", store=path).record.id
    with open_store(str(path)) as store:
        more = run(suite, lambda _: "yes", store=store).record.id
        assert {each.id for each in store.runs()} == {kept, more}
        assert store.run(kept).definition_hash == store.run(more).definition_hash
    with (
        pytest.raises(InvalidInput, match="an address or an open store, not int"),
        open_keeper(7),  # type: ignore[arg-type]
    ):
        pass


def test_a_python_run_is_kept_with_metadata_of_any_kind(tmp_path: Path) -> None:
    circle: dict[str, Any] = {"nan": float("nan"), "set": {1}}
    circle["circle"] = circle

    @scorer(blocking=False)
    def odd(ctx: EvalContext) -> Score:
        return Score(1.0, "half \ud800", circle)

    path = str(tmp_path / "t.db")
    found = run(Suite("s", [Test("t", {1, 2}, scorer=odd)]), lambda _: "yes \ud800", store=path)
    with open_store(path) as store:
        (kept,) = store.results(found.record.id, with_traces=True)
    assert kept.scores["odd"].value == 1.0
    assert kept.trace is not None
