"""What every database must do for the store: `test_store_*.py` run it on each."""

from __future__ import annotations

import math
import re
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from sqlalchemy import event
from tests.store.run_samples import FULL_RESULT, FULL_RUN, TRACE, a_result, a_run, many

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.runs.record import CaseResult, CheckResult
from tallymark.store import SORTS, RunFilter, Store
from tallymark.traces import Span, Trace

OpenAs = Callable[[str], Store]


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"in": value}
    return value


def left_out(full: msgspec.Struct, plain: msgspec.Struct) -> set[str]:
    """Fields that a sample leaves as they are, and whose loss it would not show."""
    return {name for name in full.__struct_fields__ if getattr(full, name) == getattr(plain, name)}


class RunsConformance:
    """Runs: kept whole, found, filtered, sorted."""

    def test_a_run_comes_back_whole(self, store: Store) -> None:
        store.create_run(FULL_RUN)
        assert store.run("full") == FULL_RUN

    def test_the_sample_leaves_no_field_at_its_default(self) -> None:
        assert left_out(FULL_RUN, a_run()) == set()

    def test_creating_the_same_run_again_changes_nothing(self, store: Store) -> None:
        store.create_run(FULL_RUN)
        store.create_run(FULL_RUN)
        assert store.runs() == [replace(FULL_RUN, definition="")]

    def test_another_run_with_the_same_id_is_refused(self, store: Store) -> None:
        store.create_run(a_run("r1"))
        with pytest.raises(InvalidInput, match="there is already a run 'r1'"):
            store.create_run(a_run("r1", suite="other"))

    def test_an_update_changes_only_what_it_names(self, store: Store) -> None:
        store.create_run(FULL_RUN)
        store.update_run("full")
        store.update_run("full", status="completed", metrics={"a": 1.5}, group=None)
        expected = replace(FULL_RUN, status="completed", metrics={"a": 1.5}, group=None)
        assert store.run("full") == expected

    @pytest.mark.parametrize("field", ["id", "tenant", "sccore"])
    def test_an_update_of_what_cannot_change_is_refused(self, store: Store, field: str) -> None:
        store.create_run(FULL_RUN)
        with pytest.raises(TypeError, match=f"can change: {field}"):
            store.update_run("full", **{field: "x"})

    def test_saving_stores_every_field(self, store: Store) -> None:
        store.create_run(a_run("full"))
        store.save_run(FULL_RUN)
        assert store.run("full") == FULL_RUN

    def test_a_listed_run_can_be_saved_without_losing_its_definition(self, store: Store) -> None:
        store.create_run(FULL_RUN)
        store.save_run(replace(store.runs()[0], score=1.0))
        assert store.run("full") == replace(FULL_RUN, score=1.0)

    @pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
    def test_a_number_that_is_not_finite_is_not_known(self, store: Store, number: float) -> None:
        store.create_run(a_run(score=number, metrics={"a": number}))
        assert store.run("run") == a_run(score=None, metrics={"a": None})

    def test_odd_characters_do_not_break_storing(self, store: Store) -> None:
        store.create_run(a_run(error="nul \0 half \ud800", tags={"note": "nul \0 half \ud800"}))
        run = store.run("run")
        assert run.error == "nul \ufffd half \ufffd"
        assert run.tags == {"note": "nul \0 half \ufffd"}

    def test_latest_is_the_newest(self, store: Store) -> None:
        for run_id, created_at in (("a", 5.0), ("b", 9.0), ("c", 7.0)):
            store.create_run(a_run(run_id, created_at=created_at))
        assert store.run("latest").id == "b"
        assert [store.run(f"latest~{back}").id for back in (0, 1, 2)] == ["b", "c", "a"]

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [("abc-1", "abc-1"), ("abc-12", "abc-12"), ("abc-2", "abc-2x"), ("z", "z_%"), ("ß", "ßé")],
    )
    def test_a_run_is_found_by_its_beginning(self, store: Store, wanted: str, found: str) -> None:
        for run_id in ("abc-1", "abc-12", "abc-2x", "ABC-2x", "z_%", "ßé"):
            store.create_run(a_run(run_id))
        assert store.run(wanted).id == found

    @pytest.mark.parametrize(
        ("wanted", "message"),
        [
            ("abc", "several runs begin with 'abc': abc-1, abc-2; give more of it"),
            ("abx-1", "there is no run 'abx-1'; did you mean 'abc-1'?"),
            ("nothing like it", "there is no run 'nothing like it'; the latest is 'xyz'"),
            ("%", "there is no run '%'; the latest is 'xyz'"),
            ("", "there is no run ''; the latest is 'xyz'"),
        ],
    )
    def test_a_run_that_is_not_there(self, store: Store, wanted: str, message: str) -> None:
        for number, run_id in enumerate(("abc-1", "abc-2", "xyz")):
            store.create_run(a_run(run_id, created_at=float(number)))
        with pytest.raises(InvalidInput, match=re.escape(message)):
            store.run(wanted)

    @pytest.mark.parametrize("use", ["run", "update_run", "delete_run", "result_keys", "results"])
    def test_a_store_without_runs_says_so(self, store: Store, use: str) -> None:
        store.set_var("a", "b")
        with pytest.raises(InvalidInput, match="there are no runs yet"):
            list(getattr(store, use)("latest", **({"score": 1.0} if use == "update_run" else {})))

    def test_deleting_removes_the_run_and_its_results(self, store: Store) -> None:
        for run_id in ("r1", "r2"):
            store.create_run(a_run(run_id))
            store.add_results(run_id, many(3))
        store.delete_run("r1")
        store.create_run(a_run("r1"))
        assert [run_id for run_id in ("r1", "r2") if store.result_keys(run_id)] == ["r2"]

    def test_a_run_that_was_deleted_is_told_of_by_the_log_alone(self, store: Store) -> None:
        store.create_run(a_run("r1", status="completed"))
        store.add_results("r1", many(3))
        for other in ("latest", "r"):  # which may mean another run a moment later
            with pytest.raises(InvalidInput, match="is not the whole id of a run; delete r1"):
                store.remove_run(other, at=4.0)
        store.remove_run("r1", at=5.0, reason="a wrong prompt")
        assert store.runs() == []
        with pytest.raises(InvalidInput, match="no run"):
            store.remove_run("r1", at=6.0)
        (entry,) = store.audit_log.entries()
        assert (entry.at, entry.event, entry.actor) == (5.0, "run deleted", "operator")
        known = a_run("r1")
        told = {"run": "r1", "suite": known.suite, "model": known.model}
        assert entry.note == told | {"reason": "a wrong prompt"}

    def test_a_run_that_has_ended_can_be_named(self, store: Store) -> None:
        store.create_run(a_run("r1", status="completed", tags={"branch": "main"}))
        for name in ("nightly", " weekly\n "):
            store.rename_run("r1", name, at=5.0)
        assert store.run("r1").tags == {"branch": "main", "name": "weekly"}
        notes = [each.note for each in store.audit_log.entries()]
        assert notes[0] == {"run": "r1", "before": "nightly", "after": "weekly"}
        for wrong in ("", " ", "x" * 201):
            with pytest.raises(InvalidInput, match="1 to 200 characters"):
                store.rename_run("r1", wrong, at=6.0)

    def test_a_run_is_found_by_its_name(self, store: Store) -> None:
        for number, run_id in enumerate(("abc-1", "abc-2", "xyz", "nightly")):
            known = {"status": "completed", "created_at": float(number)}
            store.create_run(a_run(run_id, **known, tags={"branch": 'a 100% \\ "sure" nämé'}))
        for name in ('a 100% \\ "sure" nämé', "xy", "weekly_1"):
            store.rename_run("xyz", name, at=5.0)
            assert store.run(name).id == store.brief_run(name).id == "xyz"
        for other in ("weekly1", "XY", "weekly%"):
            with pytest.raises(InvalidInput, match="there is no run"):
                store.run(other)

    def test_a_name_that_may_mean_several_runs_lists_them(self, store: Store) -> None:
        for number, run_id in enumerate(("abc-1", "abc-2", "xyz", "z")):
            known = {"status": "completed", "created_at": float(number)}
            store.create_run(a_run(run_id, **known))
        store.rename_run("abc-1", "weekly", at=5.0)
        with pytest.raises(InvalidInput, match="no run 'weakly'; did you mean 'weekly'"):
            store.run("weakly")
        store.rename_run("xyz", "weekly", at=5.0)
        said = "several runs are called 'weekly': xyz, abc-1; give the id of one"
        with pytest.raises(InvalidInput, match=re.escape(said)):
            store.run("weekly")
        store.rename_run("z", "abc", at=5.0)
        said = "'abc' is the name of z, and the beginning of abc-1, abc-2; give the whole id"
        with pytest.raises(InvalidInput, match=re.escape(said)):
            store.run("abc")

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("latest", "which means the newest"),
            ("latest~2", "which means the newest"),
            ("feature/x", "has no '/'"),
            ("..", "nor only dots"),
            ("r2", "would be taken for an id"),
            ("rnfw0bzg33p", "would be taken for an id"),
        ],
    )
    def test_a_name_must_not_mean_something_else(self, store: Store, name: str, why: str) -> None:
        for run_id in ("r1", "r2"):
            store.create_run(a_run(run_id, status="completed"))
        with pytest.raises(InvalidInput, match=why):
            store.rename_run("r1", name, at=5.0)
        assert "name" not in store.run("r1").tags
        store.rename_run("r1", "r1", at=5.0)

    @pytest.mark.parametrize(("status", "why"), [("running", "is held by"), ("queued", "waits")])
    def test_a_run_that_goes_on_is_neither_deleted_nor_renamed(
        self, store: Store, status: Any, why: str
    ) -> None:
        store.create_run(a_run("r1", status=status))
        for act in (store.remove_run, lambda run, at: store.rename_run(run, "x", at=at)):
            with pytest.raises(InvalidInput, match=why):
                act("r1", at=5.0)
        assert store.run("r1").tags == a_run("r1").tags
        assert store.audit_log.entries() == []
        if status == "running":
            store.add_results("r1", many(1))  # it is still held by who runs it
            store.save_run(replace(store.run("r1"), status="completed"))
            store.remove_run("r1", at=6.0)

    @pytest.mark.parametrize(
        ("filters", "found"),
        [
            ({}, "dcba"),
            ({"suite": "s1"}, "dca"),
            ({"model": "m2"}, "cb"),
            ({"status": "completed"}, "ba"),
            ({"group": "group-1"}, "b"),
            ({"group": "gro"}, "b"),
            ({"group": "roup"}, ""),
            ({"since": 3.0}, "dc"),
            ({"min_score": 2.0}, "ba"),
            ({"suite": "s1", "model": "m1", "status": "queued"}, "d"),
            ({"suite": None, "min_score": None}, "dcba"),
            ({"suite": "nowhere"}, ""),
        ],
    )
    def test_filters(self, store: Store, filters: RunFilter, found: str) -> None:
        for run in (
            a_run("a", suite="s1", model="m1", status="completed", created_at=1.0, score=2.0),
            a_run(
                "b",
                suite="s2",
                model="m2",
                status="completed",
                created_at=2.0,
                score=3.0,
                group="group-1",
            ),
            a_run("c", suite="s1", model="m2", status="failed", created_at=3.0),
            a_run("d", suite="s1", model="m1", created_at=4.0, score=1.0),
        ):
            store.create_run(run)
        assert "".join(run.id for run in store.runs(**filters)) == found

    def test_a_group_is_named_by_a_beginning_that_only_one_has(self, store: Store) -> None:
        for run_id, group in (("a", "ga1"), ("b", "ga2")):
            store.create_run(a_run(run_id, group=group))
        with pytest.raises(InvalidInput, match="several groups begin with 'ga': ga1, ga2"):
            store.runs(group="ga")

    @pytest.mark.parametrize(
        ("sort", "descending", "found"),
        [
            ("created_at", True, "dcba"),
            ("created_at", False, "abcd"),
            ("score", True, "bdca"),
            ("score", False, "dbca"),
            ("suite", False, "cdba"),
            ("suite", True, "abdc"),
        ],
    )
    def test_sorting_puts_what_has_no_value_last(
        self, store: Store, sort: str, descending: bool, found: str
    ) -> None:
        for run_id, created_at, score, suite in (
            ("a", 1.0, None, "ä"),
            ("b", 2.0, 9.0, "a"),
            ("c", 3.0, None, "B"),
            ("d", 4.0, -1.0, "_"),
        ):
            store.create_run(a_run(run_id, created_at=created_at, score=score, suite=suite))
        runs = store.runs(sort=sort, descending=descending)
        assert "".join(run.id for run in runs) == found

    def test_the_limit_holds_after_sorting(self, store: Store) -> None:
        for number in range(5):
            store.create_run(a_run(f"r{number}", score=float(number)))
        assert [run.id for run in store.runs(sort="score", limit=2)] == ["r4", "r3"]
        assert len(store.runs(limit=None)) == 5

    @pytest.mark.parametrize("sort", SORTS)
    def test_every_sort_works(self, store: Store, sort: str) -> None:
        store.create_run(FULL_RUN)
        assert len(store.runs(sort=sort)) == 1

    def test_a_wrong_sort_status_or_limit_is_refused(self, store: Store) -> None:
        store.create_run(a_run())
        with pytest.raises(InvalidInput, match="sorted by 'scor'; did you mean 'score'"):
            store.runs(sort="scor")
        with pytest.raises(InvalidInput, match="no run has the status 'done'; use one of queued"):
            store.runs(status="done")
        with pytest.raises(InvalidInput, match="a limit of 0 would show nothing"):
            store.runs(limit=0)


class ResultsConformance:
    """Case results: kept whole, in order, never doubled or changed."""

    def test_a_result_comes_back_whole(self, store: Store) -> None:
        store.create_run(a_run())
        store.add_results("run", [FULL_RESULT])
        assert list(store.results("run", with_traces=True)) == [FULL_RESULT]
        assert list(store.results("run")) == [replace(FULL_RESULT, trace=None)]

    def test_the_samples_leave_no_field_at_its_default(self) -> None:
        # A case's name is not stored: it is filled in where a result is shown.
        assert left_out(FULL_RESULT, a_result()) == {"name"}
        assert left_out(TRACE, Trace()) == set()

    def test_results_are_ordered_by_case_and_epoch(self, store: Store) -> None:
        store.create_run(a_run())
        keys = [("b", 0), ("a", 1), ("B", 0), ("ä", 0), ("_", 0), ("a", 0), ("#10", 0)]
        store.add_results("run", [a_result(case, epoch=epoch) for case, epoch in keys])
        assert [each.key for each in store.results("run")] == sorted(keys)

    @pytest.mark.parametrize(
        ("first", "second", "kept"),
        [
            ("error", "passed", "second"),
            ("error", "failed", "second"),
            ("error", "error", "second"),
            ("passed", "failed", "first"),
            ("passed", "error", "first"),
            ("failed", "passed", "first"),
        ],
    )
    @pytest.mark.parametrize("at_once", [True, False])
    def test_only_an_error_is_replaced(
        self, store: Store, first: Any, second: Any, kept: str, at_once: bool
    ) -> None:
        store.create_run(a_run())
        pair = [
            a_result(status=first, output="first", latency=1.0, trace=Trace(name="first")),
            a_result(status=second, output="second", cost=2.0),
        ]
        for batch in [pair] if at_once else [pair[:1], pair[1:]]:
            store.add_results("run", batch)
        expected = pair[0] if kept == "first" else pair[1]
        assert list(store.results("run", with_traces=True)) == [expected]

    def test_only_errors_are_replaced_among_many(self, store: Store) -> None:
        store.create_run(a_run())
        names = [f"{number:03}" for number in range(120)]
        status: Any = lambda number: "error" if number % 7 == 0 else "passed"  # noqa: E731
        first = [a_result(name, status=status(at), output="first") for at, name in enumerate(names)]
        store.add_results("run", [*first, a_result("007", status="failed", output="twice")])
        store.add_results("run", [a_result(name, output="second") for name in names])
        said = ["second" if at % 7 == 0 else "first" for at in range(120)]
        said[7] = "twice"
        assert [each.output for each in store.results("run")] == said

    def test_keys_say_what_is_done(self, store: Store) -> None:
        store.create_run(a_run())
        store.add_results("run", [a_result("a"), a_result("a", epoch=1, status="error")])
        assert store.result_keys("run") == {("a", 0): "passed", ("a", 1): "error"}

    def test_a_batch_is_stored_whole_or_not_at_all(self, store: Store) -> None:
        store.create_run(a_run())
        broken = a_result("z", epoch=None)
        with pytest.raises(WorkFailed, match="could not do the work"):
            store.add_results("run", [*many(700), broken])
        assert store.result_keys("run") == {}

    def test_results_of_no_run_are_refused(self, store: Store) -> None:
        store.create_run(a_run())
        with pytest.raises(InvalidInput, match="there is no run 'rum'; did you mean 'run'"):
            store.add_results("rum", many(2))

    def test_no_results_are_no_work(self, store: Store) -> None:
        store.create_run(a_run())
        store.add_results("run", [])
        assert list(store.results("run")) == []

    def test_an_answer_of_five_megabytes(self, store: Store) -> None:
        store.create_run(a_run())
        big = a_result(output="ä" * 2_500_000)
        store.add_results("run", [big])
        assert list(store.results("run")) == [big]

    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            (a_result(output="nul \0"), a_result(output="nul \0")),
            (a_result(output="half \udfff"), a_result(output="half \ufffd")),
            (a_result("odd \0 \ud800"), a_result("odd \ufffd \ufffd")),
            (a_result(error="nul \0 half \ud800"), a_result(error="nul \0 half \ufffd")),
            (a_result(latency=math.nan, cost=math.inf), a_result()),
            (a_result(input_tokens=10**30, output_tokens=2**62), a_result(output_tokens=2**62)),
            (
                a_result(checks=(CheckResult(kind="scorer", passed=True, value=math.nan),)),
                a_result(checks=(CheckResult(kind="scorer", passed=True),)),
            ),
        ],
        ids=["nul", "half pair", "case", "error", "not finite", "too large", "check"],
    )
    def test_odd_values_do_not_break_storing(
        self, store: Store, given: CaseResult, kept: CaseResult
    ) -> None:
        store.create_run(a_run())
        store.add_results("run", [given])
        assert list(store.results("run")) == [kept]

    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            (Trace(name="nul \0 half \ud800"), Trace(name="nul \0 half \ufffd")),
            (
                Trace(metadata={"odd": {(1, 2): {3}, "at": 1 + 2j}}),
                Trace(metadata={"odd": {"(1, 2)": [3], "at": "(1+2j)"}}),
            ),
            (Trace(spans=[Span(cost=math.nan)]), Trace(spans=[Span()])),
            (
                Trace(trace_id="t", metadata=nested(20_000)),
                Trace(trace_id="t", metadata={"not_stored": "the trace is nested too deeply"}),
            ),
        ],
        ids=["characters", "types", "not finite", "too deep"],
    )
    def test_odd_traces_do_not_break_storing(self, store: Store, given: Trace, kept: Trace) -> None:
        store.create_run(a_run())
        store.add_results("run", [a_result(trace=given)])
        assert next(store.results("run", with_traces=True)).trace == kept

    def test_reading_streams(self, store: Store) -> None:
        store.create_run(a_run())
        for number in range(5):
            store.add_results(
                "run", [a_result(f"{number}-{i}", output="x" * 50_000) for i in range(100)]
            )
        tracemalloc.start()
        try:
            count = sum(1 for _ in store.results("run"))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert count == 500
        assert peak < 15_000_000, "500 answers of 50 kB would be 25 MB"

    def test_a_reader_that_stops_early_blocks_nobody(self, store: Store) -> None:
        store.create_run(a_run())
        store.add_results("run", many(300))
        reader = store.results("run")
        next(reader)
        store.add_results("run", [a_result("new")])
        reader.close()  # type: ignore[attr-defined]
        store.delete_run("run")
        assert store.runs() == []

    def test_many_writers_lose_nothing(self, store: Store, open_as: OpenAs) -> None:
        store.create_run(a_run())
        writers = 6

        def write(number: int) -> None:
            mine = open_as("default")
            for start in range(10):
                batch = [a_result(f"{number}-{start}-{i}") for i in range(20)]
                # All write these too, in an order of their own: the databases' locks are met.
                shared = [a_result(f"shared-{(i * (number + 1)) % 20}") for i in range(20)]
                mine.add_results("run", batch + shared)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(store.result_keys("run")) == writers * 200 + 20


class NamesConformance:
    """Variables and secrets."""

    def test_variables(self, store: Store) -> None:
        store.set_var("b", "1")
        store.set_var("a", "grün\n")
        store.set_var("b", "")
        assert list(store.vars().items()) == [("a", "grün\n"), ("b", "")]
        store.delete_var("a")
        assert store.vars() == {"b": ""}

    def test_a_secret_is_read_by_a_run_alone(self, store: Store) -> None:
        store.set_secret("TOKEN", "first")
        store.set_secret("TOKEN", "s3cret-ö")
        store.set_secret("OTHER", "x")
        assert store.secret_names() == ["OTHER", "TOKEN"]
        assert store.secrets_for_run(["TOKEN"]) == {"TOKEN": "s3cret-ö"}
        assert store.secrets_for_run([]) == {}
        store.delete_secret("TOKEN")
        assert store.secret_names() == ["OTHER"]

    def test_all_missing_secrets_are_named_at_once(self, store: Store) -> None:
        store.set_secret("TOKEN", "x")
        with pytest.raises(InvalidInput) as caught:
            store.secrets_for_run(["TOKEN", "TOKENS", "zebra"])
        assert str(caught.value).splitlines() == [
            "there is no secret 'TOKENS'; did you mean 'TOKEN'?",
            "there is no secret 'zebra'; list them with: tally secrets",
        ]

    @pytest.mark.parametrize("name", ["", "a b", "-a", "a'", "ä", "x" * 129, "a\n"])
    def test_a_name_that_no_template_could_use_is_refused(self, store: Store, name: str) -> None:
        with pytest.raises(InvalidInput, match="cannot name a variable"):
            store.set_var(name, "value")
        with pytest.raises(InvalidInput, match="cannot name a secret"):
            store.set_secret(name, "value")

    @pytest.mark.parametrize("value", ["hush \0", "hush \ud800"])
    def test_a_value_that_is_not_text_is_refused_unquoted(self, store: Store, value: str) -> None:
        for setter in (store.set_var, store.set_secret):
            with pytest.raises(InvalidInput, match="is not text") as caught:
                setter("name", value)
            assert "hush" not in str(caught.value)

    def test_an_empty_secret_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidInput, match="the secret 'name' is empty"):
            store.set_secret("name", "")

    def test_deleting_what_is_not_there_is_refused(self, store: Store) -> None:
        store.set_var("region", "eu")
        with pytest.raises(InvalidInput, match="no variable 'regoin'; did you mean 'region'"):
            store.delete_var("regoin")
        with pytest.raises(InvalidInput, match="there is no secret 'region'"):
            store.delete_secret("region")


class TenantsConformance:
    """Alice and Bob share a database, and never meet."""

    def test_neither_sees_the_others_rows(self, open_as: OpenAs) -> None:
        alice, bob = open_as("alice"), open_as("bob")
        for store, name in ((alice, "alice"), (bob, "bob")):
            store.create_run(a_run("same", suite=name, created_at=float(len(name))))
            store.add_results("same", [a_result(name)])
            store.set_var("who", name)
            store.set_secret("who", name)
        for store, name in ((alice, "alice"), (bob, "bob")):
            assert [run.suite for run in store.runs()] == [name]
            assert store.run("latest").suite == name
            assert [each.case for each in store.results("same")] == [name]
            assert store.vars() == {"who": name}
            assert store.secrets_for_run(["who"]) == {"who": name}

    def test_neither_changes_the_others_rows(self, open_as: OpenAs) -> None:
        alice, bob = open_as("alice"), open_as("bob")
        alice.create_run(a_run("hers"))
        alice.set_var("hers", "1")
        alice.set_secret("hers", "1")
        bob.create_run(a_run("his"))
        with pytest.raises(InvalidInput, match="there is no run 'hers'"):
            bob.update_run("hers", score=1.0)
        with pytest.raises(InvalidInput, match="there is no run 'hers'"):
            bob.delete_run("hers")
        with pytest.raises(InvalidInput, match="there is no run 'hers'"):
            bob.add_results("hers", [a_result()])
        with pytest.raises(InvalidInput, match="there is no variable 'hers'"):
            bob.delete_var("hers")
        with pytest.raises(InvalidInput, match="there is no secret 'hers'"):
            bob.delete_secret("hers")
        assert alice.run("hers") == a_run("hers")
        assert alice.vars() == {"hers": "1"}
        assert alice.secret_names() == ["hers"]

    def test_every_statement_names_the_tenant(self, store: Store) -> None:
        statements: list[str] = []

        def note(*call: Any) -> None:
            statements.append(call[2])

        store.set_var("warm", "up")
        event.listen(store._database.engine, "before_cursor_execute", note)
        store.create_run(a_run("r"))
        store.save_run(a_run("r", score=1.0))
        store.add_results("r", many(2))
        assert store.run("latest") == store.run("r")
        assert store.runs()
        assert list(store.results("r", with_traces=True))
        assert store.result_keys("r")
        store.set_secret("s", "v")
        assert store.secrets_for_run(["s"])
        assert store.secret_names()
        assert store.vars()
        store.delete_secret("s")
        store.delete_var("warm")
        store.delete_run("r")
        on_tables = [each for each in statements if re.search(r"\b(FROM|INTO|UPDATE) ", each)]
        assert len(on_tables) > 15
        assert [each for each in on_tables if "tenant" not in each] == []


class StoreConformance(RunsConformance, ResultsConformance, NamesConformance, TenantsConformance):
    """All of it."""
