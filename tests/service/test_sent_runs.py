"""Runs that are sent finished: counted and scored again, whatever their sender says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tallymark.errors import Conflict, InvalidInput
from tallymark.runs.reports.json_report import json_report
from tallymark.runs.run import Run
from tallymark.service.app import App
from tallymark.service.remote_runs import RemoteRuns
from tallymark.service.remote_suites import RemoteRules
from tallymark.service.sent_runs import SentRuns
from tallymark.service.stop_signals import StopSignal
from tallymark.store import Store

SUITE = """
metadata: {name: greetings}
evals:
  - {name: hi, prompt: hi, checks: [{match: "*hi*"}]}
  - {name: ho, prompt: ho, checks: [{or: [{match: "*hi*"}, {match: "*ha*"}]}]}
  - {name: words, prompt: one two, checks: [{scorer: word_count}]}
score: success_pct + 10 * hi
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with closing(App(str(tmp_path / "tally.db"))) as opened:
        yield opened


@pytest.fixture
def sent(app: App) -> dict[str, Any]:
    """What `tally run --json` prints, of a run that is kept elsewhere."""
    runs = RemoteRuns(app.for_tenant("elsewhere"), RemoteRules())
    ((record, _),) = runs.submit(SUITE, ["echo/me"])
    runs.execute(record.id, {}, StopSignal())
    document: dict[str, Any] = json.loads(json_report([runs.app.load_run(record.id)]))
    return document


@pytest.fixture
def store(app: App) -> Store:
    return app.store


def test_what_tally_run_prints_is_taken_as_it_is(sent: dict[str, Any], app: App) -> None:
    (kept,) = SentRuns(app.store, clock=lambda: 5.0).keep(sent)
    assert kept.differences == ()
    before = sent["runs"][0]
    run: Run = app.load_run(kept.record.id)
    assert (run.record.id != before["id"], run.record.created_at) == (True, 5.0)
    assert (run.record.status, run.record.total) == ("completed", 3)
    assert run.score == before["score"]
    assert run.record.metrics == pytest.approx(before["metrics"])
    again = json.loads(json_report([run]))["runs"][0]
    for name in (
        "results",
        "passed",
        "failed",
        "errors",
        "score_formula",
        "score_low",
        "suite",
        "model",
    ):
        assert again[name] == before[name], name


def test_a_run_may_come_alone(sent: dict[str, Any], store: Store) -> None:
    (run,) = sent["runs"]
    for document in (run, {"run": run}):
        assert len(SentRuns(store).check(document)) == 1
    assert not store.exists or store.runs() == []


def test_runs_that_come_together_share_a_group(sent: dict[str, Any], store: Store) -> None:
    kept = SentRuns(store).keep({"runs": sent["runs"] * 2})
    assert len({each.record.id for each in kept}) == 2
    assert len({each.record.group for each in kept}) == 1


def test_a_score_that_was_made_up_is_not_believed(sent: dict[str, Any], store: Store) -> None:
    (run,) = sent["runs"]
    run |= {"score": 1e6, "passed": 3, "failed": 0, "errors": 0}
    run["metrics"] |= {"success_pct": 100.0}
    (kept,) = SentRuns(store).keep(sent)
    told = {each.field: (each.sent, each.computed) for each in kept.differences}
    assert set(told) == {"score", "passed", "failed", "metrics.success_pct"}
    assert told["score"] == (1e6, kept.record.score)
    assert store.run(kept.record.id).score == kept.record.score != 1e6


def claim_passed(run: dict[str, Any]) -> None:
    for result in run["results"]:
        result["status"] = "passed"


def claim_reached(run: dict[str, Any]) -> None:
    run["results"][2]["checks"][0]["passed"] = True


def claim_alternative(run: dict[str, Any]) -> None:
    run["results"][1]["checks"][0]["passed"] = True


@pytest.mark.parametrize("lie", [claim_passed, claim_reached, claim_alternative])
def test_a_case_has_the_status_that_its_checks_give_it(
    sent: dict[str, Any], store: Store, lie: Callable[[dict[str, Any]], None]
) -> None:
    lie(sent["runs"][0])
    (kept,) = SentRuns(store).check(sent)
    assert (kept.record.passed, kept.record.failed) == (1, 2)


def test_tags_that_our_own_code_reads_are_not_taken(sent: dict[str, Any], store: Store) -> None:
    sent["runs"][0]["tags"] = {"team": "blue", "folder": "/etc", "chosen": {"left_out": 1}}
    (kept,) = SentRuns(store).keep(sent)
    assert store.run(kept.record.id).tags == {"team": "blue"}


def test_a_run_with_an_id_of_its_own_is_sent_in_parts_and_again(
    sent: dict[str, Any], app: App
) -> None:
    run = sent["runs"][0] | {"keep_as": "r0123456789", "total": 3}
    first, *others = run["results"]
    store = SentRuns(app.store)
    (part,) = store.keep(run | {"results": [first], "more": True})
    assert (part.record.status, part.record.passed, part.differences) == ("cancelled", 1, ())
    for _ in range(2):  # the second time nothing is new
        (whole,) = store.keep(run | {"results": others})
        assert (whole.record.status, whole.differences) == ("completed", ())
    assert [each.id for each in app.store.runs()] == ["r0123456789"]
    kept = app.load_run("r0123456789")
    assert (kept.score, len(kept.results)) == (run["score"], 3)


def test_an_id_that_another_run_has_is_refused(sent: dict[str, Any], app: App) -> None:
    (mine,) = SentRuns(app.store).keep(sent)
    run = sent["runs"][0] | {"keep_as": mine.record.id}
    with pytest.raises(Conflict, match="already another run"):
        SentRuns(app.store).keep(run)
    SentRuns(app.store).keep(run | {"keep_as": "r0123456789"})
    with pytest.raises(Conflict, match="already another run"):
        SentRuns(app.store).keep(run | {"keep_as": "r0123456789", "suite": "another"})


def test_what_never_ran_is_known_by_the_senders_metrics(sent: dict[str, Any], store: Store) -> None:
    run = sent["runs"][0]
    run |= {"score_formula": "success_pct + ghost", "metrics": {"ghost": None, "1+1": 2.0}}
    (kept,) = SentRuns(store).check(run)
    assert kept.record.score is None
    assert kept.record.metrics["ghost"] is None


def test_a_suite_that_comes_with_a_run_is_never_run_here(sent: dict[str, Any], app: App) -> None:
    from tallymark.service.suite_runs import RunOptions

    definition = json.dumps({"evals": [{"name": "ho"}], "score": {"undefined": 7}})
    run = sent["runs"][0] | {"definition": definition, "status": "cancelled", "total": 9}
    run |= {"score_formula": "1 / (success_pct - success_pct)"}
    (kept,) = SentRuns(app.store).keep(run)
    assert (kept.record.score, kept.record.status) == (7.0, "cancelled")
    assert [each.case for each in app.load_run(kept.record.id).results][-1] == "ho"
    for wanted in (kept.record.id, "latest"):
        with pytest.raises(InvalidInput, match=r"cannot be continued here|no run to continue"):
            app.runs.resume(wanted, RunOptions(), None)


def change(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda run: run.update(fields)


def change_result(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda run: run["results"][1].update(fields)


def repeat(run: dict[str, Any]) -> None:
    run["results"] *= 2


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (change(results=[]), "results: 1 to 200,000 are taken at a time"),
        (repeat, "results[3]: the case 'hi' is there twice with the epoch 0"),
        (change(suite=""), "suite: one line of at most 500 characters is taken"),
        (change(model="a\nb"), "model: one line of at most 500 characters is taken"),
        (change(score_formula="1 / nothing"), "score_formula: column 5: "),
        (change(started_at=-1.0), "started_at: a time in seconds since 1970 is taken"),
        (change(epochs=0), "epochs and total: out of range"),
        (change(total=10**12), "epochs and total: out of range"),
        (change(results="none"), "results: expected `array`, got `str`"),
        (change_result(latency=-1.0), "results[1].latency: a number from 0 on is taken"),
        (change_result(input_tokens=2**70), "results[1].input_tokens: "),
        (change_result(status="great"), "results[1].status: invalid enum value 'great'"),
        (change_result(case=""), "results[1].case: a name of at most 500 characters is taken"),
        (change_result(checks=[{"kind": "match"}]), "results[1].checks[0]: object missing requi"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    sent: dict[str, Any], store: Store, spoil: Callable[[dict[str, Any]], None], said: str
) -> None:
    spoil(sent["runs"][0])
    with pytest.raises(InvalidInput) as refused:
        SentRuns(store).keep(sent)
    assert str(refused.value).startswith(f"runs[0].{said}"), str(refused.value)
    assert not store.exists or store.runs() == []


@pytest.mark.parametrize("document", [None, [], {}, {"runs": []}, {"runs": 1}, {"runs": [{}] * 51}])
def test_what_is_no_document_of_runs_is_refused(store: Store, document: Any) -> None:
    with pytest.raises(InvalidInput, match="runs"):
        SentRuns(store).check(document)


def test_such_a_run_does_not_go_on_here(sent: dict[str, Any], app: App) -> None:
    from tallymark.service.suite_runs import RunOptions

    (kept,) = SentRuns(app.store).keep(sent)
    with pytest.raises(InvalidInput, match="was sent here after it ended"):
        app.runs.resume(kept.record.id, RunOptions(), None)


@pytest.mark.parametrize("here", [True, False])
def test_a_request_that_broke_off_keeps_nothing_twice(
    sent: dict[str, Any], app: App, monkeypatch: pytest.MonkeyPatch, here: bool
) -> None:
    """After it was kept and before it was answered, or half-way: the same run, whole."""
    runs = SentRuns(app.store)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "save_run", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            runs.keep(sent, asked_as="1700000000-k")
    if not here:  # its server has died
        app.store._left.clear()
        change = "UPDATE leases SET expires_at = 0"
        app.store._database.write(lambda c: c.exec_driver_sql(change))
    first, second = (runs.keep(sent, asked_as="1700000000-k")[0].record for _ in range(2))
    assert first == second
    assert (first.status, len(list(app.store.results(first.id)))) == ("completed", 3)
    assert [each.id for each in app.store.runs()] == [first.id]
    assert runs.keep(sent, asked_as="1700000000-x")[0].record.id != first.id
