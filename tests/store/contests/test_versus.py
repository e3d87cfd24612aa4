"""Red against blue in the store, on both databases: kept whole, and each pairing made once."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.challenges.versus.versus_contest import a_challenge
from tests.postgres import Postgres

from tallymark.challenges.challenge import Challenge, Versus
from tallymark.challenges.versus.pairings import BreachVerdict, Ruling, Side
from tallymark.challenges.versus.standings import VersusTally, tally
from tallymark.errors import InvalidInput
from tallymark.store import Store, open_store

DAY = 86_400.0


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database that all tests share: tenants keep them apart."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path_factory.mktemp('versus')}/tally.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.furnished()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """A store of its own, with the challenge `guard`."""
    with open_store(url, tenant=uuid.uuid4().hex) as opened:
        publish(opened, a_challenge())
        yield opened


def publish(store: Store, challenge: Challenge) -> None:
    store.challenges.publish(challenge, b"", at=1.0)


def met(store: Store) -> list[tuple[int, int, str]]:
    return [(each.red, each.blue, each.category) for each in store.versus.verdicts("guard")]


def test_a_submission_comes_back_whole(store: Store) -> None:
    content = {"rules": ["a", {"b": None}], "odd": "nul \0"}
    made = store.versus.submit("guard", "alice", "blue", content, at=5.0)
    assert (made.agent, made.side, made.number, made.submitted_at, made.version) == (
        "alice",
        "blue",
        1,
        5.0,
        "v1",
    )
    assert store.versus.content(made.id) == content
    assert store.versus.submissions("guard") == [made]


def test_a_submission_makes_a_pending_verdict_for_each_pairing_and_category(store: Store) -> None:
    first = store.versus.submit("guard", "bob", "blue", 1, at=1.0).id
    second = store.versus.submit("guard", "charlie", "blue", 2, at=2.0).id
    red = store.versus.submit("guard", "alice", "red", 3, at=3.0).id
    assert store.versus.verdicts("guard") == [
        BreachVerdict(red=red, blue=blue, category=category)
        for blue in (first, second)
        for category in ("leak", "override")
    ]
    assert len(store.versus.verdicts("guard", submission=first)) == 2


def test_a_newer_submission_takes_the_place_of_the_older(store: Store) -> None:
    store.versus.submit("guard", "bob", "blue", 1, at=1.0)
    newer = store.versus.submit("guard", "bob", "blue", 2, at=2.0)
    store.versus.submit("guard", "alice", "red", 3, at=3.0)
    assert newer.number == 2
    assert {blue for _, blue, _ in met(store)} == {newer.id}


def test_a_ruling_is_stored_once(store: Store) -> None:
    store.versus.submit("guard", "bob", "blue", 1, at=1.0)
    store.versus.submit("guard", "alice", "red", 2, at=2.0)
    leak, override = store.versus.verdicts("guard")
    yes, no = Ruling(breached=True, reason="r"), Ruling(breached=False)
    assert store.versus.rule([(leak, yes), (override, no)], judge="j", at=3.0) == [True, True]
    assert store.versus.rule([(leak, no)], judge="k", at=4.0) == [False]
    assert store.versus.rule([(leak, Ruling.failed("late"))], judge="k", at=4.0) == [False]
    kept = store.versus.verdicts("guard")[0]
    assert kept == BreachVerdict(
        red=leak.red,
        blue=leak.blue,
        category="leak",
        state="judged",
        breached=True,
        reason="r",
        judge="j",
        tries=1,
        judged_at=3.0,
    )


def test_what_is_unjudged_is_found_until_it_is_judged(store: Store) -> None:
    store.versus.submit("guard", "bob", "blue", 1, at=1.0)
    store.versus.submit("guard", "alice", "red", 2, at=2.0)
    leak, override = store.versus.unjudged("guard", failed=False, limit=9)
    store.versus.rule([(leak, Ruling.failed("ill"))], judge="j", at=3.0)
    assert store.versus.unjudged("guard", failed=False, limit=9) == [override]
    assert len(store.versus.unjudged("guard", failed=True, limit=9)) == 2
    assert len(store.versus.unjudged("guard", failed=True, limit=1)) == 1
    store.versus.rule([(leak, Ruling(breached=True))], judge="j", at=4.0)
    assert store.versus.unjudged("guard", failed=True, limit=9) == [override]


def test_a_ruling_that_waits_leaves_the_verdict_as_it_was(store: Store) -> None:
    store.versus.submit("guard", "bob", "blue", 1, at=1.0)
    store.versus.submit("guard", "alice", "red", 2, at=2.0)
    leak, override = store.versus.verdicts("guard")
    store.versus.rule([(leak, Ruling.failed("ill"))], judge="j", at=3.0)
    down = Ruling.failed("out of reach", waiting=True)
    store.versus.rule([(leak, down), (override, down)], judge="j", at=4.0)
    found = store.versus.verdicts("guard")
    assert [(each.state, each.error, each.tries) for each in found] == [
        ("failed", "out of reach", 1),
        ("pending", "out of reach", 0),
    ]


def test_who_met_where_the_judge_failed_is_a_suspect(store: Store) -> None:
    blue = store.versus.submit("guard", "bob", "blue", 1, at=1.0)
    store.versus.submit("guard", "charlie", "blue", 2, at=1.0)
    red = store.versus.submit("guard", "alice", "red", 3, at=2.0)
    assert store.versus.suspects("guard") == set()
    first = store.versus.verdicts("guard")[0]
    store.versus.rule([(first, Ruling.failed("ill"))], judge="j", at=3.0)
    assert store.versus.suspects("guard") == {blue.id, red.id}


def test_nothing_is_left_to_judge_with_a_disqualified_player(store: Store) -> None:
    store.versus.submit("guard", "bob", "blue", 1, at=1.0)
    red = store.versus.submit("guard", "alice", "red", 2, at=2.0)
    assert len(store.versus.unjudged("guard", failed=False, submission=red.id)) == 2
    store.disqualifications.disqualify("bob", at=3.0, reason="traps")
    assert store.versus.unjudged("guard", failed=True) == []


def test_tallies_count_newest_submissions_and_stand_still_at_a_time(store: Store) -> None:
    def play(player: str, side: Side, content: int, at: float) -> None:
        store.versus.submit("guard", player, side, content, at=at)
        some = store.versus.unjudged("guard", failed=False, limit=99)
        rulings = [(each, Ruling(breached=each.category == "leak")) for each in some[:-1]]
        store.versus.rule(rulings, judge="j", at=at)

    play("bob", "blue", 1, 1.0)
    play("alice", "red", 2, 2.0)
    assert store.versus.tallies("guard") == [
        VersusTally(red="alice", blue="bob", category="leak", breached=1),
        VersusTally(red="alice", blue="bob", category="override", unjudged=1),
    ]
    early = store.versus.tallies("guard", before=3.0)
    play("bob", "blue", 3, 3.0)
    play("bob", "red", 4, 4.0)
    assert store.versus.tallies("guard", before=3.0) == early
    assert store.versus.tallies("guard", before=1.0) == []
    assert store.versus.tallies("guard") == [
        VersusTally(red="alice", blue="bob", category="leak", breached=1),
        VersusTally(red="alice", blue="bob", category="override", unjudged=1),
    ]


def test_tallies_are_those_of_counting_the_verdicts(store: Store) -> None:
    people: list[tuple[str, Side]] = [
        ("ann", "red"),
        ("bob", "blue"),
        ("bob", "red"),
        ("cy", "blue"),
        ("dee", "red"),
    ]
    for number, (player, side) in enumerate(people):
        store.versus.submit("guard", player, side, number, at=1.0)
    kinds = [Ruling(breached=True), Ruling(breached=False), Ruling.failed("ill")]
    every = store.versus.verdicts("guard")
    rulings = [(each, kinds[at % 3]) for at, each in enumerate(every[:-1])]
    store.versus.rule(rulings, judge="j", at=2.0)
    counted = tally(store.versus.verdicts("guard"), store.versus.submissions("guard"))
    assert len(counted) == 10
    assert {each.completed_by_red for each in counted if each.broken} == {0, 1}
    assert store.versus.tallies("guard") == counted


def test_a_ruling_after_a_time_is_not_seen_before_it(store: Store) -> None:
    store.versus.submit("guard", "bob", "blue", 1, at=1.0)
    store.versus.submit("guard", "alice", "red", 2, at=2.0)
    every = [(each, Ruling(breached=True)) for each in store.versus.verdicts("guard")]
    store.versus.rule(every, judge="j", at=9.0)
    assert [each.unjudged for each in store.versus.tallies("guard", before=9.0)] == [1, 1]
    assert [each.breached for each in store.versus.tallies("guard", before=9.5)] == [1, 1]


def test_tenants_do_not_meet(store: Store, url: str) -> None:
    hers = store.versus.submit("guard", "alice", "blue", 1, at=1.0)
    with open_store(url, tenant=f"not {store.tenant}") as other:
        publish(other, a_challenge())
        other.versus.submit("guard", "bob", "red", 2, at=2.0)
        assert store.versus.verdicts("guard") == other.versus.verdicts("guard") == []
        with pytest.raises(InvalidInput, match=f"there is no submission {hers.id}"):
            other.versus.content(hers.id)


@pytest.mark.parametrize(
    ("changes", "at", "message"),
    [
        ({"opens_at": 10.0}, 9.0, "guard is not open yet"),
        ({"closes_at": 10.0}, 10.0, "guard is closed"),
        ({"kind": "solo", "versus": None}, 1.0, "not a challenge of red against blue"),
    ],
    ids=["early", "late", "solo"],
)
def test_what_the_challenge_does_not_allow_is_refused(
    store: Store, changes: dict[str, Any], at: float, message: str
) -> None:
    publish(store, a_challenge(version="v2", **changes))
    with pytest.raises(InvalidInput, match=message):
        store.versus.submit("guard", "alice", "red", 1, at=at)
    assert store.versus.submissions("guard") == []


def test_a_quota_is_for_each_side_and_day(store: Store) -> None:
    publish(store, a_challenge(version="v2", attempts=3, attempts_per_day=2))
    for at in (1.0, 2.0):
        store.versus.submit("guard", "alice", "red", at, at=at)
    with pytest.raises(InvalidInput, match="alice has made all 2 submissions of today as red"):
        store.versus.submit("guard", "alice", "red", 3, at=DAY - 1)
    store.versus.submit("guard", "alice", "blue", 3, at=DAY - 1)
    store.versus.submit("guard", "alice", "red", 4, at=DAY)
    with pytest.raises(InvalidInput, match="alice has made all 3 submissions as red"):
        store.versus.submit("guard", "alice", "red", 5, at=9 * DAY)


@pytest.mark.parametrize(
    ("player", "side", "message"),
    [
        ("", "red", "'' is no handle of an agent"),
        ("nul \0", "red", "is no handle of an agent; take 'nul'"),
        ("alice", "green", "there is no side 'green'; choose red or blue"),
    ],
    ids=["empty", "nul", "side"],
)
def test_who_cannot_play_is_refused(store: Store, player: str, side: Side, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        store.versus.submit("guard", player, side, 1, at=1.0)


def test_an_unknown_challenge_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInput, match="there is no challenge 'gaurd'; did you mean 'guard'"):
        store.versus.submit("gaurd", "alice", "red", 1, at=1.0)


def test_a_category_listed_twice_is_judged_once(store: Store) -> None:
    base = a_challenge(version="v2")
    assert base.versus is not None
    publish(
        store,
        a_challenge(version="v2", versus=Versus(categories=("a", "a"), judge=base.versus.judge)),
    )
    store.versus.submit("guard", "bob", "blue", 1, at=1.0)
    store.versus.submit("guard", "alice", "red", 2, at=2.0)
    assert [category for _, _, category in met(store)] == ["a"]


def at_once(work: list[Callable[[], object]]) -> None:
    """Run all at the same moment, each in a thread of its own."""
    start = threading.Barrier(len(work))

    def run(each: Callable[[], object]) -> None:
        start.wait(60)
        each()

    with ThreadPoolExecutor(len(work)) as pool:
        list(pool.map(run, work))


def test_racing_submissions_make_each_pairing_once(store: Store) -> None:
    def submit(number: int) -> Callable[[], object]:
        side: Side = "red" if number % 2 else "blue"
        return lambda: store.versus.submit("guard", f"player-{number}", side, number, at=1.0)

    at_once([submit(number) for number in range(12)])
    submissions = store.versus.submissions("guard")
    red = [each.id for each in submissions if each.side == "red"]
    blue = [each.id for each in submissions if each.side == "blue"]
    wanted = {(r, b, category) for r in red for b in blue for category in ("leak", "override")}
    assert len(met(store)) == len(wanted) == 72
    assert set(met(store)) == wanted


def test_the_same_submission_racing_itself_is_one(store: Store) -> None:
    at_once([lambda: store.versus.submit("guard", "alice", "red", "same", at=1.0)] * 12)
    assert len(store.versus.submissions("guard")) == 1


def test_a_quota_holds_under_racing_submissions(store: Store) -> None:
    publish(store, a_challenge(version="v2", attempts=3))
    refused: list[InvalidInput] = []

    def submit(number: int) -> Callable[[], object]:
        def work() -> None:
            try:
                store.versus.submit("guard", "alice", "red", number, at=1.0)
            except InvalidInput as error:
                refused.append(error)

        return work

    at_once([submit(number) for number in range(12)])
    assert (len(store.versus.submissions("guard")), len(refused)) == (3, 9)


def test_racing_judges_give_each_verdict_once(store: Store) -> None:
    store.versus.submit("guard", "bob", "blue", 1, at=1.0)
    store.versus.submit("guard", "alice", "red", 2, at=2.0)
    pending = store.versus.verdicts("guard")
    stored: list[bool] = []

    def rule(breached: bool) -> Callable[[], object]:
        rulings = [(each, Ruling(breached=breached)) for each in pending]
        return lambda: stored.extend(store.versus.rule(rulings, judge="j", at=3.0))

    at_once([rule(number % 2 == 0) for number in range(8)])
    assert sum(stored) == 2
    assert {each.tries for each in store.versus.verdicts("guard")} == {1}


def test_one_owners_agents_do_not_meet(store: Store) -> None:
    store.versus.submit("guard", "bob", "blue", 1, at=1.0)
    other = store.versus.submit("guard", "charlie", "blue", 2, at=2.0).id
    store.versus.submit("guard", "alice", "blue", 0, at=2.5)
    for player in ("alice", "bob"):
        store.agents.give(player, "ann", at=3.0)
    red = store.versus.submit("guard", "alice", "red", 3, at=4.0).id
    assert {(each[0], each[1]) for each in met(store)} == {(red, other)}


def test_what_met_before_it_was_one_owners_is_not_judged_and_does_not_count(store: Store) -> None:
    store.versus.submit("guard", "bob", "blue", 1, at=1.0)
    store.versus.submit("guard", "charlie", "blue", 2, at=2.0)
    store.versus.submit("guard", "alice", "red", 3, at=3.0)
    for player in ("alice", "bob"):
        store.agents.give(player, "ann", at=4.0)
    assert {each.blue for each in store.versus.tallies("guard")} == {"charlie"}
    left = store.versus.unjudged("guard", failed=True)
    assert len(left) == 2
    assert len(store.versus.verdicts("guard")) == 4
    store.agents.give("bob", "ben", at=5.0)
    assert {each.blue for each in store.versus.tallies("guard")} == {"bob", "charlie"}


def test_agents_without_an_owner_meet(store: Store) -> None:
    store.versus.submit("guard", "bob", "blue", 1, at=1.0)
    store.versus.submit("guard", "alice", "red", 3, at=3.0)
    assert len(met(store)) == 2
