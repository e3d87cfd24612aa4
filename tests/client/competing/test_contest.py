"""Contests with answers that only some servers give."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tallymark.client.competing.contest import Contest, Entrance
from tallymark.errors import WorkFailed


@pytest.mark.parametrize(
    "name", ["../../evil", "/etc/cron.d", "a/b", ".", "a$(id)", "a\x1b[2J", "", "a1\n", "a" * 65]
)
def test_an_attempt_is_not_called_like_another_folder(name: str) -> None:
    """Its folder is called by its id, and so is it in the command to go on with."""

    def enter(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(attempt=SimpleNamespace(id=name))

    client: Any = SimpleNamespace(attempts=SimpleNamespace(enter=enter))
    contest = Contest(client, print, "tally.example")
    with pytest.raises(WorkFailed, match="which is no id of one") as caught:
        contest.enter(Entrance(challenge="sums"))
    assert "\x1b" not in str(caught.value)
    assert contest.entered is None


class SlowServer:
    """A server whose scores are ready at the second request; it remembers keys."""

    def __init__(self) -> None:
        self.asked = 0
        self.keys: list[str] = []
        self.attempts = self

    def get(self, name: str) -> Any:
        self.asked += 1
        state = "scored" if self.asked > 2 else "submitted"
        return SimpleNamespace(id=name, state=state, waiting=None)

    def submit(self, name: str, _: Any, *, idempotency_key: str, wait: bool = True) -> Any:
        self.keys.append(idempotency_key)
        return SimpleNamespace(attempt=self.get(name), waited=wait)


def make_contest(server: Any) -> Contest:
    entered: Any = SimpleNamespace(attempt=SimpleNamespace(id="a1"))
    return Contest(server, print, "tally.example", entered=entered)


def test_who_comes_back_while_the_answer_is_scored_waits_for_the_score() -> None:
    """The state after a server was killed between storing an answer and scoring it."""
    assert make_contest(SlowServer()).find_result("a1").state == "scored"


def test_a_score_that_takes_longer_comes_with_all_that_belongs_to_it() -> None:
    server = SlowServer()
    contest = make_contest(server)
    assert contest.submit(42).attempt.state == "scored"
    assert contest.is_taken
    assert len(server.keys) == 2
    assert len(set(server.keys)) == 1
