"""Budgets of statements and transactions for the most frequent requests of a contest.

Counted at the driver, since many statements do not pass through SQLAlchemy's events. The reads of
the first request after a start (a challenge, its files, a key) are not counted.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import Engine, event, insert
from starlette.testclient import TestClient
from tests.challenges.challenge_folders import folder_with
from tests.http.conftest import Server, Unlimited, _make_keys
from tests.store.conftest import own_url, postgres

from tallymark.challenges.challenge_folder import pack
from tallymark.server import make_server
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings
from tallymark.store.row_numbers import row_numbers

__all__ = ["own_url", "postgres"]

PLAIN = """
name: plain
goal: Add up.
visibility: public
evaluator: {type: deterministic, truth: truth.json, fields: {sum: {dimension: correctness}}}
scoring: {strategy: custom, dimensions: {correctness: 0.8, speed: 0.2}}
"""
GENERATED = """
name: generated
goal: Add up.
data: {generate: generate.py}
evaluator: {type: deterministic, fields: {sum: {dimension: correctness}}}
scoring: {strategy: custom, dimensions: {correctness: 0.8, speed: 0.2}}
"""
TRUTH = {"truth.json": '{"sum": 42}'}
SOLVED = """
name: solved
goal: Add up.
evaluator: {type: deterministic, truth: truth.json, fields: {sum: exact_match}}
scoring: {strategy: first}
"""
FILES = {
    "plain": (PLAIN, TRUTH),
    "rivals": (PLAIN.replace("name: plain", "name: rivals"), TRUTH),
    "solved": (SOLVED, TRUTH),
    "generated": (
        GENERATED,
        {"generate.py": "def generate(seed): return {'public': {}, 'truth': {'sum': 42}}"},
    ),
}
REPORTED = {"name": "speed", "scoring_formula": "rating * 10", "visibility": "public"}
FIRST_KEY = 700_001
"""Keys of attempts begin here, so that a statement about one is recognised by its value."""


_LEVEL = re.compile(r"\(SELECT attempts\.trajectory_level.*?\)", re.DOTALL)
"""In a row of a board: of its attempt, not of the one that is compared with it."""


class Budget(NamedTuple):
    """The most that a request may ask, on either database."""

    transactions: int
    selects: int
    reads_of_the_attempt: int = 0
    """SELECTs from `attempts` that look the attempt up by its key."""
    reads_of_the_top: int = 0
    """SELECTs for rows of the board from the best down."""


BUDGETS = {
    "enter": Budget(2, 6),
    "submit": Budget(5, 15, 2),
    "submit, generated data": Budget(5, 15, 2),
    "submit, under an idempotency key": Budget(5, 15, 2),
    "submit, for the first time and behind another": Budget(5, 15, 2),
    "submit, without a place": Budget(5, 15, 2),
    "report": Budget(1, 10),
    "leaderboard": Budget(1, 5, 0, 1),
    "leaderboard, chosen fields": Budget(1, 5, 0, 1),
    "challenge page": Budget(1, 8, 0, 1),
}


class Statement(NamedTuple):
    """A statement as the driver has it."""

    text: str
    values: str
    begins: bool
    """Begins a transaction, or is one, because none was open."""


@dataclass
class Statements:
    """Statements of all connections while a listener is attached."""

    found: list[Statement] = field(default_factory=list)

    def note(self, text: str, values: object, *, begins: bool) -> None:
        """Record a statement; neither setting up a connection nor drawing a number counts.

        On PostgreSQL a number is drawn as from a sequence, in a statement without waiting.
        """
        is_draw = begins and "UPDATE row_numbers" in text
        if not is_draw and not re.match(r"\s*(PRAGMA|SET (?!LOCAL)|COMMIT|ROLLBACK|--)", text):
            self.found.append(Statement(text, repr(values), begins))

    def count(self, attempt: str | None) -> Budget:
        """Count the statements, and those about this attempt."""
        selects = [each for each in self.found if re.match(r"\s*(SELECT|WITH)\b", each.text)]
        key = None if attempt is None else re.compile(rf"\b{int(attempt[1:])}\b")
        return Budget(
            transactions=sum(each.begins for each in self.found),
            selects=len(selects),
            reads_of_the_attempt=sum(
                key is not None
                and re.search(r"\battempts\b", _LEVEL.sub("", each.text)) is not None
                and key.search(f"{each.text} {each.values}") is not None
                for each in selects
            ),
            reads_of_the_top=sum(
                re.search(r"FROM boards.*ORDER BY boards\.place, .*LIMIT", each.text, re.DOTALL)
                is not None
                for each in selects
            ),
        )


@contextmanager
def listen() -> Iterator[Statements]:
    """Record the statements of all connections that are opened from here on."""
    heard = Statements()

    def watch(connection: Any, _: object) -> None:
        if hasattr(connection, "set_trace_callback"):  # SQLite, which writes values out
            connection.set_trace_callback(
                lambda text: heard.note(text, "", begins=not connection.in_transaction)
            )
            return

        class Heard(connection.cursor_factory):  # type: ignore[misc]
            def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
                idle = self.connection.info.transaction_status.name == "IDLE"
                heard.note(str(query), params, begins=idle)
                return super().execute(query, params, **more)

        connection.cursor_factory = Heard

    event.listen(Engine, "connect", watch)
    try:
        yield heard
    finally:
        event.remove(Engine, "connect", watch)


class Clock:
    """A clock that stands still, so that periodic work does not run meanwhile."""

    def __call__(self) -> float:
        return 1_700_000_000.0


@dataclass(frozen=True)
class Arena:
    """A server with challenges at which everybody has played, and all that it asks."""

    server: Server
    heard: Statements
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def ask(self, who: str, method: str, path: str, **more: Any) -> Any:
        told = self.server.ask(who, method, path, **more)
        assert told.status_code in (200, 201), told.text
        return told

    def enter(self, who: str, name: str = "plain", **body: str) -> str:
        entered = self.ask(who, "POST", f"/api/v1/challenges/{name}/attempts", json=body)
        return str(entered.json()["attempt"]["id"])

    def submit(self, who: str, attempt: str, answer: int, **headers: str) -> Any:
        path, body = f"/api/v1/attempts/{attempt}/submission", {"answer": {"sum": answer}}
        return self.ask(who, "POST", path, json=body, headers=headers).json()

    def report(self, rating: int) -> Any:
        body = {"agent": "bob", "metrics": {"succeeded": True, "rating": rating}}
        return self.ask("rita", "POST", "/api/v1/challenges/speed/reports", json=body)

    def measure(self, ask: Callable[[], Any], attempt: str | None = None) -> Budget:
        """Count what a request asks of the database."""
        self.heard.found.clear()
        ask()
        return self.heard.count(attempt)


def _set_first_key(service: Service) -> None:
    with service.app.store._database.engine.begin() as connection:
        row = {"tenant": "default", "noun": "attempts", "start": 0, "last": FIRST_KEY - 1}
        connection.execute(insert(row_numbers).values(row))


@pytest.fixture
def arena(own_url: str, tmp_path: Path) -> Iterator[Arena]:
    with listen() as heard:
        service = Service(ServiceSettings(db=own_url, workers=0), clock=Clock())
        service.limits = Unlimited()
        with TestClient(make_server(service), base_url="http://tally.test") as client:
            server = Server(client, service, _make_keys(service))
            _set_first_key(service)
            made = Arena(server, heard)
            kind = {"Content-Type": "application/vnd.tallymark.challenge"}
            for name, (definition, files) in FILES.items():
                packed = pack(folder_with(tmp_path / name, definition, files))
                path = "/api/v1/challenges?force=true"
                made.ask("alice", "POST", path, content=packed, headers=kind)
                others = () if name in ("rivals", "solved") else ("bob",)
                for who in ("charlie", *others):
                    made.submit(who, made.enter(who, name), 42)
            made.ask("alice", "POST", "/api/v1/challenges", json=REPORTED)
            made.report(5)
            yield made


def measure_submission(arena: Arena, name: str = "plain", **headers: str) -> Budget:
    attempt = arena.enter("bob", name)
    assert int(attempt[1:]) >= FIRST_KEY
    return arena.measure(lambda: arena.submit("bob", attempt, 41, **headers), attempt)


def measure_first_submission(arena: Arena) -> Budget:
    """Measure a newcomer, who gets a place and the gap to the agent above."""
    number = next(arena.numbers)
    attempt = arena.enter("alice", "rivals", agent=f"newcomer-{number}")
    told: dict[str, Any] = {}
    key = {"Idempotency-Key": f"first {number}"}
    found = arena.measure(lambda: told.update(arena.submit("alice", attempt, 41, **key)), attempt)
    assert told["above"]["leads"]
    return found


def measure_board(arena: Arena, query: str) -> Budget:
    """Measure a page with a new limit, since answers are cached by their address."""
    path = f"/api/v1/challenges/plain/leaderboard?{query.format(next(arena.numbers))}"
    return arena.measure(lambda: arena.ask("bob", "GET", path))


MEASURES: dict[str, Callable[[Arena], Budget]] = {
    "enter": lambda arena: arena.measure(lambda: arena.enter("bob")),
    "submit": measure_submission,
    "submit, generated data": lambda arena: measure_submission(arena, "generated"),
    "submit, under an idempotency key": lambda arena: measure_submission(
        arena, **{"Idempotency-Key": f"once {next(arena.numbers)}"}
    ),
    "submit, for the first time and behind another": measure_first_submission,
    "submit, without a place": lambda arena: measure_submission(arena, "solved"),
    "report": lambda arena: arena.measure(lambda: arena.report(10 + next(arena.numbers))),
    "leaderboard": lambda arena: measure_board(arena, "limit={}"),
    "leaderboard, chosen fields": lambda arena: measure_board(arena, "limit={}&fields=rank,agent"),
    "challenge page": lambda arena: arena.measure(
        lambda: arena.ask("nobody", "GET", "/challenges/plain")
    ),
}


def find_least(budgets: Iterator[Budget]) -> Budget:
    """Leave out the reads of a pooled connection that sees a challenge for the first time."""
    return Budget(*map(min, zip(*budgets, strict=True)))


def test_a_request_asks_the_database_no_more_than_its_budget(arena: Arena) -> None:
    found = {
        name: find_least(measure(arena) for _ in range(4)) for name, measure in MEASURES.items()
    }
    over = {
        name: (each, BUDGETS[name])
        for name, each in found.items()
        if any(asked > most for asked, most in zip(each, BUDGETS[name], strict=True))
    }
    assert not over, found
