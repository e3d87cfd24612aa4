"""The check finds whatever somebody changed by hand, and nothing where nobody did."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, event
from tests.service.rule_samples import Desk, make_trace
from tests.store.contest_samples import an_outcome, by, play, quick_store
from tests.store.played_store import make_played

from tallymark.store import open_store
from tallymark.store.checks.findings import CheckReport
from tallymark.store.retention import remove_traces


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_played(tmp_path_factory.mktemp("played") / "tally.db")


def check(path: Path) -> CheckReport:
    with open_store(str(path)) as store:
        return store.check_all()


def test_what_nobody_changed_is_as_it_should_be(played: Path) -> None:
    before = played.read_bytes()
    report = check(played)
    assert not report.counts
    assert not report.differences
    looked = (
        "attempts",
        "scores",
        "boards",
        "frozen boards",
        "matches",
        "ratings",
        "runs",
        "traces",
    )
    assert all(report.checked[kind] for kind in looked)
    assert played.read_bytes() == before


_BEST = "(SELECT attempt FROM boards WHERE NOT frozen LIMIT 1)"
_ONE = "(SELECT agent FROM {0} LIMIT 1)"
_SET_SCORE = "UPDATE attempt_scores SET score"
FALSIFIED = {
    "a score": ("scores", f"{_SET_SCORE} = score + 1 WHERE attempt = {_BEST}"),
    "a result": ("attempts", "UPDATE attempt_scores SET result = 'loss' WHERE result = 'win'"),
    "tokens": ("scores", "UPDATE attempt_scores SET tokens_total = tokens_total + 1"),
    "a score and its history": (
        "attempts",
        f"{_SET_SCORE} = 1e6 WHERE score > 0; UPDATE score_history SET score = 1e6 WHERE score > 0",
    ),
    "a rank": ("boards", "UPDATE boards SET place = place - 1e6 WHERE NOT frozen"),
    "a score on the board": ("boards", "UPDATE boards SET score = 5, value = 5 WHERE NOT frozen"),
    "a row of the board": ("boards", f"DELETE FROM boards WHERE attempt = {_BEST}"),
    "tries": ("boards", "UPDATE boards SET tries = tries + 1 WHERE NOT frozen"),
    "a frozen row": ("boards", "UPDATE boards SET score = 4321 WHERE frozen"),
    "the order of a frozen board": (
        "boards",
        "UPDATE boards SET place = -9999, value = 9999 WHERE frozen",
    ),
    "tries on a frozen board": ("boards", "UPDATE boards SET tries = 99 WHERE frozen"),
    "a rating": (
        "ratings",
        f"UPDATE ratings SET rating = rating + 1 WHERE agent = {_ONE.format('ratings')}",
    ),
    "wins": (
        "ratings",
        f"UPDATE rating_pairs SET wins = wins + 1 WHERE agent = {_ONE.format('rating_pairs')}",
    ),
    "a match": ("ratings", "UPDATE attempts SET match_at = NULL WHERE state = 'scored'"),
    "a state": ("attempts", f"UPDATE attempts SET state = 'withdrawn' WHERE key = {_BEST}"),
    "a void": ("attempts", f"UPDATE attempts SET voided_at = 1.0 WHERE key = {_BEST}"),
    "the log": ("log", f"DELETE FROM contest_audit WHERE attempt = {_BEST}"),
    "a number": ("attempts", f"UPDATE attempts SET number = number + 7 WHERE key = {_BEST}"),
    "a run's count": ("runs", "UPDATE runs SET passed = passed + 1 WHERE status = 'completed'"),
    "a run's score": ("runs", "UPDATE runs SET score = score + 0.5 WHERE status = 'completed'"),
    "results of a run": ("runs", "DELETE FROM case_results WHERE status = 'passed'"),
    "tokens of a trace": ("traces", "UPDATE traces SET tokens = 5"),
    "a label of a trace": ("traces", "DELETE FROM trace_labels WHERE label = 1"),
    "spans of a trace": ("traces", "DELETE FROM trace_segments WHERE trace = 1"),
    "a broken body": ("content", "UPDATE trace_segments SET body = x'00'"),
    "a broken definition": ("content", "UPDATE challenges SET definition = '{'"),
    "details of an attempt": ("attempts", f"DELETE FROM attempt_details WHERE attempt = {_BEST}"),
    "a definition": (
        "challenges",
        """UPDATE challenges SET definition = replace(definition, '"goal":"', '"goal":"Cheat. ')""",
    ),
    "the version that counts": ("challenges", "DELETE FROM challenge_versions"),
    "a lease": ("jobs", "UPDATE jobs SET token = NULL"),
    "agents": ("references", "DELETE FROM agents"),
    "challenges": ("references", "DELETE FROM challenges"),
    "a webhook": ("references", "UPDATE webhook_deliveries SET webhook = 'whk_2'"),
    "a time without end": ("content", "UPDATE attempts SET entered_at = 9e999"),
}


def falsify(played: Path, path: Path, statements: str) -> CheckReport:
    shutil.copyfile(played, path)
    with closing(sqlite3.connect(path)) as forger:
        for (guard,) in forger.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            forger.execute(f"DROP TRIGGER {guard}")
        assert forger.executescript(statements) is not None
        assert forger.total_changes, "nothing was changed"
        forger.commit()
    return check(path)


@pytest.mark.parametrize("what", FALSIFIED)
def test_what_was_changed_by_hand_is_found(played: Path, tmp_path: Path, what: str) -> None:
    kind, statements = FALSIFIED[what]
    report = falsify(played, tmp_path / "tally.db", statements)
    assert kind in report.counts, report.counts
    assert all(str(each) for each in report.differences)


UNREADABLE = {
    "a version that is gone": "UPDATE attempts SET version_id = 999 WHERE match_at IS NOT NULL",
    "a result that is none": "UPDATE attempt_scores SET result = 'winx' WHERE result = 'win'",
    "numbers that are none": "UPDATE attempt_scores SET more = '{'",
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_row_that_cannot_be_read_is_told_and_the_other_checks_go_on(
    played: Path, tmp_path: Path, what: str
) -> None:
    others = "; UPDATE boards SET tries = 99 WHERE NOT frozen; UPDATE traces SET tokens = 5"
    report = falsify(played, tmp_path / "tally.db", UNREADABLE[what] + others)
    assert {"content", "boards", "traces"} <= report.counts.keys()
    assert report.checked["references"]


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rule without caps has scored two traces; a third is removed since."""
    path = tmp_path_factory.mktemp("ruled") / "tally.db"
    with open_store(str(path)) as store:
        desk = Desk(store)
        desk.rules.add({"name": "polite", "scorer": 'contains(values=["sorry"])'})
        desk.load([make_trace(number) for number in (1, 2, 3)])
        desk.settle()
        remove_traces(store._database, "default", [3])
    return path


def test_rules_whose_traces_were_removed_are_as_they_should_be(ruled: Path) -> None:
    assert not check(ruled).differences


RULES = {
    "all scores": "DELETE FROM trace_scores",
    "the counts of a day": "DELETE FROM rule_days",
    "one count of a day": "UPDATE rule_days SET scored = 0",
}


@pytest.mark.parametrize("what", RULES)
def test_what_a_rule_did_and_is_gone_is_found(ruled: Path, tmp_path: Path, what: str) -> None:
    assert "rules" in falsify(ruled, tmp_path / "tally.db", RULES[what]).counts


@pytest.mark.parametrize("agent", ["alice", "bob", "carol"])
def test_who_is_disqualified_is_told_by_the_log(tmp_path: Path, agent: str) -> None:
    """Alice is, bob was, and carol never."""
    path = tmp_path / "tally.db"
    with quick_store(f"sqlite:///{path}") as store:
        store.challenges.publish(by("first"), b"", at=1.0)
        for name in ("alice", "bob", "carol"):
            play(store, name, an_outcome(1.0))
        for name in ("alice", "bob"):
            store.disqualifications.disqualify(name, at=20.0, reason="it copied")
        store.disqualifications.reinstate("bob", at=21.0, reason="it did not")
        assert not store.check_all().counts
    there = "DELETE FROM" if agent == "alice" else "INSERT INTO"
    which = "WHERE agent = 'alice'" if agent == "alice" else f"VALUES ('default', '{agent}', 22.0)"
    report = falsify(path, tmp_path / "other.db", f"{there} disqualified_agents {which}")
    assert report.counts == {"disqualifications": 1}


def test_what_goes_on_behind_a_frozen_board_is_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "tally.db"
    with quick_store(f"sqlite:///{path}") as store:
        store.challenges.publish(by("first"), b"", at=1.0)
        first = play(store, "alice", an_outcome(1.0), 10.0)
        void = play(store, "alice", an_outcome(2.0), 11.0)
        play(store, "bob", an_outcome(3.0), 12.0)
        store.attempts.void(void.id, at=13.0, reason="broken")
        store.challenges.freeze("sums", at=20.0, reason="the end is near")
        play(store, "bob", an_outcome(4.0), 21.0)
        store.attempts.unvoid(void.id, at=22.0, reason="it was fine")
        store.attempts.void(first.id, at=23.0, reason="broken")
        store.challenges.publish(by("custom", version="v2"), b"", at=24.0)
        store.challenges.publish(by("first"), b"", at=25.0)
        report = store.check_all()
    assert report.checked["frozen boards"] == 2
    assert not [each for each in report.differences if each.kind in {"boards", "challenges"}]


def test_numbers_that_are_equal_are_no_difference(played: Path, tmp_path: Path) -> None:
    """A metric was stored as it was written, `0` or `0.0`, and is computed again as a float."""
    path = tmp_path / "tally.db"
    shutil.copyfile(played, path)
    with closing(sqlite3.connect(path)) as other, other:
        written = "more = replace(more, '.0', '')"
        changed = other.execute(f"UPDATE attempt_scores SET {written} WHERE more LIKE '%.0%'")
        assert changed.rowcount
    assert not check(path).differences


def test_a_page_is_looked_up_and_not_looked_for(played: Path) -> None:
    """Else each page goes through all attempts of its challenge, or the whole log."""
    asked: list[tuple[str, tuple[object, ...]]] = []
    with open_store(str(played)) as store:
        engine = store._database.engine
        event.listen(
            engine,
            "before_cursor_execute",
            lambda _, __, text, given, *___: asked.append((text.replace('"', ""), given)),
        )
        store.check_all()
        pages = [each for each in asked if "attempts.key IN" in each[0]]
        logs = [each for each in asked if "contest_audit.attempt IN" in each[0]]
        assert pages
        assert logs
        with engine.connect() as connection:
            for text, given in pages:
                assert "SEARCH attempts USING INTEGER PRIMARY KEY" in plan(connection, text, given)
            for text, given in logs:
                assert "(challenge_id=? AND attempt=?)" in plan(connection, text, given)


def plan(connection: Connection, text: str, given: tuple[object, ...]) -> str:
    found = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", given)
    return "\n".join(row[3] for row in found)
