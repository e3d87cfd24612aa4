"""Nobody learns what is not theirs to see: two worlds that differ in it answer alike.

Compared are all routes, pages, exports and tools that the application lists, for every role.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.postgres import Postgres
from tests.refused.two_worlds import (
    ROLES,
    Question,
    Secrets,
    World,
    compare,
    make_world,
    name_ids,
    open_world,
)

CONTEST = Secrets(
    truth=40,
    answer="two",
    late_rating=1.0,
    late_success=False,
    late_answer=40,
    void=True,
    late_entry=True,
    seed=500,
)
PAIRS = {
    "contest": (Secrets(), CONTEST),
    "rescored": (Secrets(new_truth=50), Secrets(new_truth=2)),
    "private": (Secrets(), Secrets(private_rating=8.0, private_title="Two")),
}
"""What came after a freeze, others' answers and open attempts, truth and seeds; what rescoring
changed behind a freeze; and what a private challenge holds."""
LOOKERS = {
    "contest": tuple(ROLES),
    # Their own attempts competitors see as they are: `own` has some that rescoring changes.
    "rescored": ("stranger", "viewer", "reporter", "rival", "foreign"),
    "private": ("stranger", "foreign"),
}
LOOKS = [(pair, who) for pair, lookers in LOOKERS.items() for who in lookers]
OFTEN = [
    each
    for each in LOOKS
    if each[1] not in ("reporter", "foreign") and each != ("rescored", "stranger")
]
"""In `make test`; the others, who see nearly the same, in `make proof`."""


class Worlds:
    """Worlds that are made when they are first asked for."""

    def __init__(self, stack: ExitStack, find_url: object) -> None:
        self._stack, self._find_url = stack, find_url
        self._made: dict[Secrets, World] = {}

    def find(self, secrets: Secrets) -> World:
        if secrets not in self._made:
            world = make_world(self._find_url(), secrets)  # type: ignore[operator]
            self._made[secrets] = self._stack.enter_context(world)
        return self._made[secrets]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    with ExitStack() as stack:
        yield Worlds(stack, lambda: f"sqlite:///{tmp_path_factory.mktemp('world')}/tally.db")


@pytest.mark.parametrize(
    ("pair", "who"),
    [pytest.param(*each, marks=() if each in OFTEN else pytest.mark.proof) for each in LOOKS],
)
def test_nobody_can_tell_the_worlds_apart(worlds: Worlds, pair: str, who: str) -> None:
    left, right = map(worlds.find, PAIRS[pair])
    assert compare(left, right, who) == []


def test_who_may_see_the_difference_sees_it(worlds: Worlds) -> None:
    """Otherwise the tests above would compare nothing."""

    def leave_out(question: Question) -> bool:
        return not question.path.startswith(("/api/v1/challenges/", "/api/v1/attempts/"))

    for left, right in PAIRS.values():
        assert compare(worlds.find(left), worlds.find(right), "organiser", leave_out)


@pytest.mark.proof
def test_what_another_tenant_does_moves_no_id(worlds: Worlds) -> None:
    left, right = worlds.find(Secrets()), worlds.find(Secrets(traffic=1))
    assert compare(left, right, "viewer") == []


@pytest.mark.proof
@pytest.mark.parametrize(("pair", "who"), LOOKS)
def test_two_servers_on_one_postgresql_tell_no_more(
    postgres: Postgres, pair: str, who: str
) -> None:
    """The second server of each world was started when all had happened, and knows nothing yet."""
    with ExitStack() as stack:
        seconds = []
        for secrets in PAIRS[pair]:
            url = postgres.furnished()
            first = stack.enter_context(make_world(url, secrets))
            second = stack.enter_context(open_world(url))
            second.clock[0], second.version = first.clock[0], first.version
            second.keys, second.sessions = first.keys, first.sessions
            second.ids = name_ids(first)
            seconds.append(second)
        assert compare(seconds[0], seconds[1], who) == []


def test_rescoring_behind_a_freeze_moves_no_page(tmp_path: Path) -> None:
    """The numbers of the board, and what each attempt came to, are those of the freeze."""
    with make_world(f"sqlite:///{tmp_path}/tally.db", Secrets()) as world:

        def look() -> list[str]:
            return [
                world.client.get(f"/challenges/{name}?format=csv").text
                for name in ("speed", "sums")
            ]

        before = look()
        attempt = world.ask("viewer", "GET", "/api/v1/attempts/a000000000005").json()["attempt"]
        path = "/challenges/{}/rescore?reason=a+fairer+rule"
        world.act("organiser", "POST", path.format("speed"), json={"formula": "100 - rating"})
        weights = {"correctness": 0.1, "speed": 0.9}
        world.act("organiser", "POST", path.format("sums"), json={"weights": weights})
        after = look()
        assert after[0] == before[0]
        columns = slice(0, 12)  # without the dimensions, which the new rule weighs otherwise
        assert [line.split(",")[columns] for line in after[1].splitlines()[1:]] == [
            line.split(",")[columns] for line in before[1].splitlines()[1:]
        ]
        assert ",win," not in after[1]
        shown = world.ask("viewer", "GET", "/api/v1/attempts/a000000000005").json()["attempt"]
        assert shown.pop("explanation") is None  # a rule that it was not scored by says nothing
        attempt.pop("explanation")
        assert shown == attempt


def test_ones_own_history_is_the_same_by_page_and_by_api(tmp_path: Path) -> None:
    with make_world(f"sqlite:///{tmp_path}/tally.db", Secrets(new_truth=2)) as world:
        told = world.ask("own", "GET", "/api/v1/attempts/a000000000008").json()["attempt"]
        world.client.cookies.set("tally_session", world.sessions["own"])
        shown = world.client.get("/attempts/a000000000008?format=json").json()
        world.client.cookies.clear()
        assert [each["score"] for each in told["history"]] == [398.0, 998.0]
        assert shown["attempt"]["history"] == told["history"]
