"""Live: every listener hears of every change, in few messages, and of nothing that is hidden."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.effort import SHARED_FIXTURE, examples
from tests.store.contest_samples import an_outcome, finish, play, submitted
from tests.store.run_samples import a_result, a_run

from tallymark.challenges.attempt import Metrics
from tallymark.errors import InvalidInput
from tallymark.service import live
from tallymark.service.callers import Caller
from tallymark.service.live import HEARTBEAT, RETRY, LiveHub
from tallymark.store import Store
from tallymark.store.contests import board_changes

SOON = 0.01
PATIENCE = 60.0
"""Seconds after which a test that still waits has failed."""


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await main()

    asyncio.run(bounded())


def read(data: bytes) -> tuple[str, int, dict[str, Any]]:
    """An event's kind, number and content."""
    fields = dict(line.split(": ", 1) for line in data.decode().strip().split("\n"))
    return fields["event"], int(fields["id"]), json.loads(fields["data"])


async def next_event(stream: AsyncIterator[bytes]) -> tuple[str, int, dict[str, Any]]:
    while (data := await anext(stream)) in (RETRY, HEARTBEAT):
        pass
    return read(data)


async def begin(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A stream that has told from where on it goes."""
    assert await anext(stream) == RETRY
    assert (await next_event(stream))[0] == "ready"
    return stream


async def listen(hub: LiveHub, store: Store, view: Any = "public", **after: Any) -> Any:
    return await hub.listen(store, "sums", view, **after)


def quick_hub() -> LiveHub:
    return LiveHub(gathering_s=SOON)


@pytest.fixture
def store(contests: Any) -> Any:
    with contests() as made:
        yield made


def test_a_change_is_told_with_rank_score_and_the_rank_before(store: Store) -> None:
    play(store, "alice", an_outcome(1.0), 10.0)
    play(store, "bob", an_outcome(2.0), 11.0)

    async def main() -> None:
        hub = quick_hub()
        stream = await begin(await listen(hub, store))
        attempt = play(store, "alice", an_outcome(3.0), 12.0)
        told: list[Any] = []
        while not told or not told[-1][2].get("changed"):
            told.append(await next_event(stream))
        kind, seq, content = told[-1]
        assert (kind, content["seq"], content["agents"]) == ("board", seq, 2)
        assert content["changed"] == [
            {
                "agent": "alice",
                "rank": 1,
                "score": 3.0,
                "value": 3.0,
                "attempt": attempt.id,
                "tries": 2,
                "was": 2,
            }
        ]
        states = [each for _, _, one in told for each in one.get("attempts", ())]
        assert states[-1] == {
            "attempt": attempt.id,
            "agent": "alice",
            "number": 2,
            "state": "scored",
            "score": 3.0,
        }
        assert not any("seed" in each for each in states)
        await hub.close()

    run(main)


def test_a_commit_that_is_told_to_the_hub_is_not_waited_for(store: Store) -> None:
    """The next look by itself would be in an hour."""

    async def main() -> None:
        hub = LiveHub(gathering_s=3600.0)
        stream = await begin(await listen(hub, store))
        play(store, "alice", an_outcome(), 10.0)
        await asyncio.to_thread(hub.notify, store.challenges.find("sums").id)
        assert (await next_event(stream))[2]["changed"][0]["agent"] == "alice"
        await hub.close()

    run(main)


def test_changes_come_together_and_as_the_same_bytes_to_all(store: Store) -> None:
    async def main() -> None:
        # Looked at by hand: the hub's own looks are an hour apart.
        hub = LiveHub(gathering_s=3600.0)
        streams = [await begin(await listen(hub, store, view)) for view in live.VIEWS * 3]
        topic = next(iter(hub._topics.values()))
        for number in range(5):
            play(store, f"agent-{number}", an_outcome(float(number)), 10.0 + number)
        topic.publish(topic.look())
        got = [await anext(stream) for stream in streams]
        assert len({id(each) for each in got}) == 1
        assert len(read(got[0])[2]["changed"]) == 5
        await hub.close()

    run(main)


def test_who_comes_back_goes_on_after_the_last_event_seen(store: Store) -> None:
    play(store, "alice", an_outcome(1.0), 10.0)
    seq = store.board_changes.newest("sums").seq
    play(store, "bob", an_outcome(2.0), 11.0)

    async def main() -> None:
        hub = quick_hub()
        # From the log: nobody has listened so far.
        stream = await listen(hub, store, last_event_id=str(seq))
        _, number, content = await next_event(stream)
        assert [each["agent"] for each in content["changed"]] == ["bob"]
        assert [each["agent"] for each in content["top"]] == ["bob", "alice"]
        play(store, "dora", an_outcome(3.0), 12.0)
        told: dict[str, Any] = {}
        last = seen = 0
        while "dora" not in {each["agent"] for each in told.get("changed", ())}:
            _, last, told = await next_event(stream)
        # From what is kept: the very bytes.
        again = await listen(hub, store, last_event_id=str(number))
        content = {}
        while "dora" not in {each["agent"] for each in content.get("changed", ())}:
            _, seen, content = await next_event(again)
        assert (seen, content) == (last, told)
        await hub.close()

    run(main)


@pytest.mark.parametrize("number", ["9007199254740991", "12345678901234567"])
def test_a_number_that_is_not_ours_begins_anew(store: Store, number: str) -> None:
    async def main() -> None:
        hub = quick_hub()
        stream = await listen(hub, store, last_event_id=number)
        kind, seq, content = await next_event(stream)
        assert (kind, content) == ("reset", {"seq": seq})
        await hub.close()

    run(main)


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "²", "9" * 30])
def test_what_is_no_number_is_refused(store: Store, number: str) -> None:
    async def main() -> None:
        with pytest.raises(InvalidInput, match="Last-Event-ID"):
            await listen(quick_hub(), store, last_event_id=number)

    run(main)


def test_an_unknown_challenge_is_refused_before_anything_is_sent(store: Store) -> None:
    async def main() -> None:
        with pytest.raises(InvalidInput, match="nothing"):
            await quick_hub().listen(store, "nothing", "public")
        with pytest.raises(InvalidInput):
            await quick_hub().follow_run(store, "nothing")

    run(main)


def test_a_slow_listener_is_told_to_begin_anew_and_keeps_nothing(store: Store) -> None:
    async def main() -> None:
        hub = LiveHub(gathering_s=3600.0)
        slow = await begin(await listen(hub, store))
        topic = next(iter(hub._topics.values()))
        for number in range(live.MOST_WAITING + 1):
            play(store, "alice", an_outcome(float(number)), 10.0 + number)
            topic.publish(topic.look())
        (listener,) = topic.listeners
        assert len(listener.waiting) == 1
        kind, seq, _ = await next_event(slow)
        assert (kind, seq) == ("reset", topic.seq)
        play(store, "bob", an_outcome(), 99.0)
        topic.publish(topic.look())
        assert (await next_event(slow))[2]["changed"][0]["agent"] == "bob"
        await hub.close()

    run(main)


def test_a_listener_that_is_gone_leaves_nothing(store: Store) -> None:
    async def main() -> None:
        hub = quick_hub()
        stream = await begin(await listen(hub, store))
        never_begun = await listen(hub, store)
        assert hub.listeners == 1
        await stream.aclose()  # type: ignore[attr-defined]
        del never_begun
        gc.collect()
        assert (hub.listeners, hub._topics) == (0, {})
        waiting = await begin(await listen(hub, store))
        task = asyncio.create_task(_drain(waiting))
        await asyncio.sleep(0)
        task.cancel()  # as a server does when the client is gone
        await asyncio.gather(task, return_exceptions=True)
        assert (hub.listeners, hub._topics) == (0, {})
        await hub.close()

    run(main)


def test_heartbeats_come_while_nothing_happens(store: Store) -> None:
    async def main() -> None:
        hub = LiveHub(heartbeat_s=SOON)
        stream = await begin(await listen(hub, store))
        assert [await anext(stream), await anext(stream)] == [HEARTBEAT] * 2
        await hub.close()

    run(main)


def test_closing_ends_all_streams(store: Store) -> None:
    async def main() -> None:
        hub = quick_hub()
        streams = [await begin(await listen(hub, store)) for _ in range(3)]
        readers = [asyncio.create_task(_drain(each)) for each in streams]
        await asyncio.sleep(0)
        await hub.close()
        await asyncio.gather(*readers)
        assert [each async for each in await listen(hub, store)] == []

    run(main)


async def _drain(stream: AsyncIterator[bytes]) -> list[bytes]:
    return [each async for each in stream]


async def _events_until(stream: Any, wanted: Callable[[dict[str, Any]], bool]) -> list[Any]:
    found = [await next_event(stream)]
    while not wanted(found[-1][2]):
        found.append(await next_event(stream))
    return [content for _, _, content in found]


def test_a_frozen_board_is_frozen_for_the_public(store: Store) -> None:
    play(store, "alice", an_outcome(1.0), 10.0)
    open_attempt = submitted(store, "bob", 11.0)
    store.challenges.freeze("sums", at=20.0, reason="the last hour")

    async def main() -> None:
        hub = quick_hub()
        public = await begin(await listen(hub, store))
        organiser = await begin(await listen(hub, store, "organiser"))
        finish(store, open_attempt, an_outcome(9.0), 21.0)
        play(store, "charlie", an_outcome(10.0), 22.0)
        withdrawn = store.attempts.enter("sums", "dora", at=23.0, seed=1)
        store.attempts.withdraw(withdrawn.id, "dora", 24.0)

        def ends(content: dict[str, Any]) -> bool:
            return any(each["state"] == "withdrawn" for each in content.get("attempts", ()))

        shown, seen = await _events_until(public, ends), await _events_until(organiser, ends)
        assert not any("changed" in each or "top" in each for each in shown)
        states = {each["agent"]: each for content in shown for each in content.get("attempts", ())}
        assert {agent: each["state"] for agent, each in states.items()} == {
            "charlie": "submitted",
            "dora": "withdrawn",
        }
        assert not any("score" in each for each in states.values())
        assert all(each["frozen"] for each in shown)
        named = {each["agent"] for content in seen for each in content.get("changed", ())}
        assert named == {"bob", "charlie"}
        # Nor from the log, for who comes back.
        again = await listen(hub, store, last_event_id="0")
        content = (await next_event(again))[2]
        assert [each["agent"] for each in content["top"]] == ["alice"]
        await hub.close()

    run(main)


def test_who_is_disqualified_is_off_the_board(store: Store) -> None:
    play(store, "alice", an_outcome(1.0), 10.0)
    play(store, "bob", an_outcome(2.0), 11.0)

    async def main() -> None:
        hub = quick_hub()
        stream = await begin(await listen(hub, store))
        store.disqualifications.disqualify("bob", at=20.0, reason="copied")
        (content,) = await _events_until(stream, lambda content: "top" in content)
        assert [each["agent"] for each in content["top"]] == ["alice"]
        assert content["agents"] == 1
        await hub.close()

    run(main)


def test_of_very_many_only_the_top_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_changes, "MOST_AGENTS", 2)
    for agent in ("alice", "bob", "charlie"):
        play(store, agent, an_outcome(), 10.0)
    _, public, _ = store.board_changes.after("sums", 0)
    assert public.told is not None
    assert (public.told.many, public.told.changed) == (3, ())
    assert [each.agent for each in public.told.top or ()] == ["alice", "bob", "charlie"]


acts = st.lists(
    st.one_of(
        st.tuples(st.just("play"), st.integers(0, 7), st.integers(0, 5)),
        st.tuples(st.just("play"), st.integers(0, 7), st.integers(0, 5)),
        st.tuples(st.sampled_from(["void", "unvoid"]), st.integers(0, 20), st.just(0)),
        st.tuples(st.just("look"), st.just(0), st.just(0)),
    ),
    min_size=3,
    max_size=14,
)


@settings(
    max_examples=examples(60, 6),
    deadline=None,
    suppress_health_check=SHARED_FIXTURE,
)
@given(acts)
def test_what_is_told_patches_the_top_of_the_board(contests: Any, moves: list[Any]) -> None:
    """Rows taken out and put at their ranks give what the board shows, however much is told."""
    with contests() as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(board_changes, "TOP", 3)
        topic = live._BoardTopic.open(store, "sums")
        page: list[str] = []
        for at, (what, who, score) in enumerate([*moves, ("look", 0, 0)], 10):
            if what == "play":
                outcome = an_outcome(float(score), metrics=Metrics(succeeded=True))
                play(store, f"agent-{who}", outcome, float(at))
            elif what == "look":
                if told := topic.look():
                    page = apply(page, read(told["public"].data)[2])
                shown = store.boards.top("sums", limit=3)
                assert page[:3] == [each.agent for each in shown]
            elif known := store.attempts.of("sums", limit=None):
                attempt = known[who % len(known)]
                getattr(store.attempts, what)(attempt.id, at=float(at), reason="so")


def apply(page: list[str], content: dict[str, Any]) -> list[str]:
    """What a page does with an event: docs/api.md, "Server-sent events"."""
    if content.get("top") is not None:
        return [each["agent"] for each in content["top"]]
    changed = content.get("changed", [])
    out = {*content.get("gone", []), *(each["agent"] for each in changed)}
    page = [agent for agent in page if agent not in out]
    for each in changed:
        page.insert(each["rank"] - 1, each["agent"])
    return page[:3]


def test_a_thousand_listeners_hear_of_every_change(store: Store) -> None:
    """And what they do not read costs references only."""

    async def main() -> None:
        hub = LiveHub(gathering_s=0.2)
        streams = [await begin(await listen(hub, store)) for _ in range(1000)]
        heard: list[set[str]] = [set() for _ in streams]
        count = 20

        async def hear(stream: Any, names: set[str]) -> None:
            while len(names) < count:
                _, _, content = await next_event(stream)
                names.update(each["agent"] for each in content.get("changed", ()))

        def compete() -> None:
            for number in range(count):
                play(store, f"agent-{number}", an_outcome(float(number)), 10.0 + number)

        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(compete))
            for stream, names in zip(streams, heard, strict=True):
                group.create_task(hear(stream, names))
        assert all(len(names) == count for names in heard)
        await hub.close()

    run(main)


def test_a_run_tells_how_far_it_is_until_it_ends(store: Store) -> None:
    store.create_run(a_run("r1", status="running", total=3))
    store.add_results("r1", [a_result("a", cost=0.5)])

    async def main() -> None:
        hub = quick_hub()
        stream = await hub.follow_run(store, "r1")
        _, _, content = await next_event(stream)
        assert (content["passed"], content["cost"], content["total"]) == (1, 0.5, 3)
        store.add_results("r1", [a_result("b", status="error"), a_result("c", status="failed")])
        content = (await _events_until(stream, lambda content: content["seq"] == 2))[-1]
        assert (content["failed"], content["errors"]) == (1, 1)
        assert {each["case"] for each in content["cases"]} == {"b", "c"}
        store.add_results("r1", [a_result("b", status="passed")])
        store.update_run("r1", status="completed", score=0.5)
        rest = await _drain(stream)
        content = read([each for each in rest if each != HEARTBEAT][-1])[2]
        assert (content["passed"], content["failed"], content["errors"]) == (2, 1, 0)
        assert (content["status"], content["score"]) == ("completed", 0.5)
        # What has ended is told at once, and that is all.
        for seen in ("1", str(content["seq"])):
            again = await _drain(await hub.follow_run(store, "r1", last_event_id=seen))
            assert read(again[-1])[2]["status"] == "completed"
        await hub.close()

    run(main)


def test_who_is_signed_out_hears_nothing_more(store: Store) -> None:
    ended: set[str] = set()

    async def main() -> None:
        hub = LiveHub(
            gathering_s=SOON, checking_s=SOON, find_ended=lambda asked: ended & set(asked)
        )
        callers = [Caller("default", "viewer", each, credential=each) for each in ("old", "new")]
        gone, there = [await begin(await listen(hub, store, caller=each)) for each in callers]
        ended.add("old")
        assert await _drain(gone) == []
        assert hub.listeners == 1
        play(store, "alice", an_outcome(1.0), 10.0)
        assert (await next_event(there))[0] == "board"
        await hub.close()

    run(main)


def test_strangers_hear_nothing_more_of_a_board_that_became_private(store: Store) -> None:
    async def main() -> None:
        public = replace(store.challenges.get("sums"), visibility="public", version="2")
        store.challenges.publish(public, b"", at=5.0)
        hub = quick_hub()
        stranger = Caller("default", "anonymous", "anonymous")
        gone = await begin(await listen(hub, store, caller=stranger))
        there = await begin(await listen(hub, store))
        store.challenges.publish(replace(public, visibility="private", version="3"), b"", at=6.0)
        assert (await next_event(there))[2]["acts"] == ["published"]
        assert await _drain(gone) == []
        await hub.close()

    run(main)
