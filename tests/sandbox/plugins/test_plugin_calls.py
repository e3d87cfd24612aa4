"""`score_many`: the scores that each attempt would have alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.backends import FIRST
from tests.sandbox.processes import children, guests
from tests.sandbox.sample_plugins import BY_WISH, ORDINARY, plugin

from tallymark.sandbox import DeadlyCalls, PluginCode, Policy, Sandbox
from tallymark.scoring import Score


@pytest.fixture(scope="module", params=FIRST)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox(Policy(request.param)) as made:
        yield made


@pytest.fixture(scope="module")
def by_wish(tmp_path_factory: pytest.TempPathFactory) -> PluginCode:
    return plugin(tmp_path_factory.mktemp("by-wish"), BY_WISH)


def rated(count: int) -> list[dict[str, Any]]:
    return [{"rating": at % 11} for at in range(count)]


def ends(scores: list[Score]) -> list[object]:
    """The value, or how it was stopped."""
    return [s.metadata.get("stopped") if s.value is None else s.value for s in scores]


@pytest.mark.parametrize("count", [0, 1, 2, 600])
def test_every_attempt_has_its_own_score(sandbox: Sandbox, tmp_path: Path, count: int) -> None:
    code = plugin(tmp_path, ORDINARY)
    scores = sandbox.score_many(code, rated(count), {"factor": 2}, {})
    assert [score.value for score in scores] == [2.0 * (at % 11) for at in range(count)]


@pytest.mark.parametrize(
    ("wish", "end"),
    [
        ("loop", "timeout"),
        ("exit", "crashed"),
        ("crash", "crashed"),
        ("raise", "raised"),
        ("memory", "memory"),
        ("fork", "raised"),
        ("nan", "bad answer"),
        ("negative", 0.0),
    ],
)
@pytest.mark.parametrize("at", [0, 99])
def test_what_goes_wrong_costs_one_attempt(
    sandbox: Sandbox, by_wish: PluginCode, wish: str, end: object, at: int
) -> None:
    attempts = rated(100)
    attempts[at]["wish"] = wish
    timeout_s = 0.5 if wish == "loop" else 20
    scores = sandbox.score_many(by_wish, attempts, {}, {}, timeout_s=timeout_s)
    expected: list[object] = [float(number % 11) for number in range(100)]
    expected[at] = end
    assert ends(scores) == expected
    alone = sandbox.score(by_wish, attempts[at], {}, {}, timeout_s=timeout_s)
    assert alone == scores[at]


def test_the_process_of_an_attempt_ends_with_its_batch(
    sandbox: Sandbox, by_wish: PluginCode
) -> None:
    attempts: list[dict[str, Any]] = [{"rating": 1}, {"rating": 1, "wish": "loop"}]
    scores = sandbox.score_many(by_wish, attempts, {}, {}, timeout_s=0.3)
    assert ends(scores) == [1.0, "timeout"]
    waiting = children(guests(sandbox.policy.backend))
    assert not children(waiting)


def test_each_attempt_has_its_own_time_limit(sandbox: Sandbox, by_wish: PluginCode) -> None:
    attempts = [{"rating": at, "wish": "slow"} for at in range(12)]
    scores = sandbox.score_many(by_wish, attempts, {}, {}, timeout_s=1.0)
    assert ends(scores) == [float(at) for at in range(12)]


def test_several_crashes_in_one_batch(sandbox: Sandbox, by_wish: PluginCode) -> None:
    attempts = rated(60)
    for at in (3, 4, 20, 59):
        attempts[at]["wish"] = "exit"
    scores = sandbox.score_many(by_wish, attempts, {}, {})
    assert [at for at, score in enumerate(scores) if score.value is None] == [3, 4, 20, 59]


def test_an_agent_that_ends_processes_is_paused_without_cost_to_others(
    sandbox: Sandbox, by_wish: PluginCode
) -> None:
    """Hundreds of attempts that loop take the time of six, and all neighbours have their score."""
    attempts, users = rated(400), [f"agent-{at % 10}" for at in range(400)]
    for at in range(50, 350):
        attempts[at]["wish"], users[at] = "loop", "mallory"
    deadly = DeadlyCalls()
    scores = sandbox.score_many(
        by_wish, attempts, {}, {}, users=users, timeout_s=0.2, deadly=deadly
    )
    honest = [at for at, user in enumerate(users) if user != "mallory"]
    assert [scores[at].value for at in honest] == [float(at % 11) for at in honest]
    ended = [end for end, user in zip(ends(scores), users, strict=True) if user == "mallory"]
    assert sorted(map(str, ended)) == ["paused"] * 295 + ["timeout"] * 5
    assert deadly.deaths == {"mallory": (5, "the plugin took longer than 0.2 s")}


def test_attempts_before_the_last_death_count_sent_or_not(
    sandbox: Sandbox, by_wish: PluginCode
) -> None:
    attempts = rated(12)
    attempts[6]["wish"] = "exit"
    deadly = DeadlyCalls({"mallory": (4, "before")})
    users = ["mallory"] * 12
    scores = sandbox.score_many(by_wish, attempts, {}, {}, users=users, deadly=deadly)
    done = [float(number) for number in range(6)]
    assert ends(scores) == [*done, "crashed", *["paused"] * 5]


def test_a_plugin_that_ends_for_everybody_is_given_up(
    sandbox: Sandbox, by_wish: PluginCode
) -> None:
    attempts = [{"rating": 1, "wish": "exit"} for _ in range(300)]
    deadly = DeadlyCalls()
    users = [f"agent-{at // 10}" for at in range(300)]
    scores = sandbox.score_many(by_wish, attempts, {}, {}, users=users, deadly=deadly)
    assert ends(scores).count("crashed") == 10
    # Which ones are tried is left to chance.
    assert sum("given up" in str(each.error) for each in scores) == 290
    assert {count for count, _ in deadly.deaths.values()} == {1}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            """
            seen = []
            class Plugin:
                def score(self, metrics, config, ctx):
                    seen.append(1)
                    return {"score": len(seen)}
            """,
            id="counts calls",
        ),
        pytest.param(
            """
            import os
            seen = []
            class Plugin:
                def score(self, metrics, config, ctx):
                    seen.append(1)
                    if len(seen) > 5: os._exit(1)
                    return {"score": 1}
            """,
            id="crashes at the sixth",
        ),
        pytest.param(
            """
            seen = []
            class Plugin:
                def score(self, metrics, config, ctx):
                    seen.append(bytearray(2**23))
                    return {"score": 1}
            """,
            id="hoards memory",
        ),
        pytest.param(
            """
            import os, tempfile
            class Plugin:
                def score(self, metrics, config, ctx):
                    tempfile.mkstemp()
                    os.makedirs("a/b", 0o000, exist_ok=True)
                    return {"score": len(os.listdir(".")) - 1}
            """,
            id="leaves files",
        ),
    ],
)
def test_a_plugin_that_remembers_has_nothing_to_remember(
    sandbox: Sandbox, tmp_path: Path, source: str
) -> None:
    scores = sandbox.score_many(plugin(tmp_path, source), rated(60), {}, {})
    assert ends(scores) == [1.0] * 60


# In the frames and objects that its process was forked with.
LOOKS_AROUND = """
    import gc, os, sys

    def look():
        found, frame = [], sys._getframe(2)
        while frame is not None:
            found += frame.f_locals.items()
            frame = frame.f_back
        for each in gc.get_objects():
            if type(each).__module__.startswith("tallymark.sandbox.plugins"):
                names = getattr(type(each), "__slots__", None) or getattr(each, "__dict__", {})
                found += [(name, getattr(each, name)) for name in names]
        return found

    class Plugin:
        def score(self, metrics, config, ctx):
            word = bytes([110, 111, 116, 101])
            numbers = {name: value for name, value in look() if type(value) is int}
            numbers["own"] = os.getpid()
            notes = [name for name, value in look()
                     if isinstance(value, (bytes, bytearray)) and word * 5 in value]
            return {"score": 1, "details": {
                "numbers": {name: str(value) for name, value in numbers.items()},
                "notes": notes, "left": word.decode() * 5,
            }}
"""


@pytest.mark.parametrize("together", [True, False])
def test_no_memory_of_the_guest_counts_attempts_or_holds_their_answers(
    sandbox: Sandbox, tmp_path: Path, together: bool
) -> None:
    code = plugin(tmp_path, LOOKS_AROUND)
    attempts = rated(40)
    if together:
        scores = sandbox.score_many(code, attempts, {}, {})
    else:
        scores = [sandbox.score(code, attempt, {}, {}) for attempt in attempts]
    details = [score.metadata["details"] for score in scores]
    assert [each["notes"] for each in details] == [[]] * len(attempts)
    numbers = [{name: int(value) for name, value in each["numbers"].items()} for each in details]
    counts = [
        name
        for name in numbers[-1]
        if all(
            early.get(name, 0) < late.get(name, 0) for early, late in itertools.pairwise(numbers)
        )
    ]
    # Without namespaces of processes its own number is one of the host's, as `sandbox.md` says.
    assert set(counts) <= (
        set() if sandbox.policy.backend == "bubblewrap" else {"own", "pid", "_group"}
    )


def test_one_attempt_among_many_changes_no_other_score(sandbox: Sandbox, tmp_path: Path) -> None:
    """One that is as rare as it takes to be in no sample."""
    source = """
        SEEN = []
        class Plugin:
            def score(self, metrics, config, ctx):
                if metrics["rating"] == 77: SEEN.append(1)
                return {"score": 0.0 if SEEN and metrics["rating"] == 7 else 100.0}
    """
    attempts = [{"rating": 1} for _ in range(200)]
    attempts[50]["rating"], attempts[150]["rating"] = 77, 7
    for order in (attempts, attempts[::-1]):
        scores = sandbox.score_many(plugin(tmp_path, source), order, {}, {})
        assert ends(scores) == [100.0] * 200


def test_no_attempt_sees_what_another_did_to_its_arguments(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    source = """
        class Plugin:
            def score(self, metrics, config, ctx):
                found = len(metrics) + len(config) + len(ctx) + len(config["list"])
                for each in (metrics, config, ctx): each["left"] = 1
                config["list"].append(1)
                return {"score": found}
    """
    shared = {"rating": 1}
    scores = sandbox.score_many(plugin(tmp_path, source), [shared] * 50, {"list": []}, {"a": 1})
    assert ends(scores) == [3.0] * 50


def test_no_attempt_reaches_the_page_of_progress(sandbox: Sandbox, tmp_path: Path) -> None:
    source = """
        import os, sys
        class Plugin:
            def score(self, metrics, config, ctx):
                frame = sys._getframe()
                while "progress" not in frame.f_locals: frame = frame.f_back
                if metrics["rating"] == 5:
                    try: frame.f_locals["progress"][:8] = b"x" * 8
                    finally: os._exit(0)
                return {"score": metrics["rating"]}
    """
    attempts = [{"rating": at} for at in range(12)]
    scores = sandbox.score_many(plugin(tmp_path, source), attempts, {}, {})
    assert [at for at, score in enumerate(scores) if score.value != at] == [5]


def test_no_attempt_answers_for_another(sandbox: Sandbox, tmp_path: Path) -> None:
    """It finds the nonce in its memory, and writes more answers than its own."""
    source = """
        import os, struct, sys
        class Plugin:
            def score(self, metrics, config, ctx):
                if metrics["rating"] == 5:
                    frame = sys._getframe()
                    while "call" not in frame.f_locals: frame = frame.f_back
                    nonce = frame.f_locals["call"].nonce
                    answer = b"\\x92\\x00\\x81\\xa5score\\x63"
                    os.write(3, (nonce + struct.pack("!I", len(answer)) + answer) * 3)
                return {"score": metrics["rating"]}
    """
    attempts = [{"rating": at} for at in range(12)]
    scores = sandbox.score_many(plugin(tmp_path, source), attempts, {}, {})
    assert ends(scores) == [*map(float, range(5)), 99.0, *map(float, range(6, 12))]


@pytest.mark.parametrize("source", ["import nowhere", "import os; os._exit(1)", "while True: pass"])
def test_a_plugin_that_cannot_be_loaded_counts_for_no_agent(
    sandbox: Sandbox, tmp_path: Path, source: str
) -> None:
    code, deadly = plugin(tmp_path, source), DeadlyCalls()
    for count in (1, 200):
        users = ["alice"] * count
        scores = sandbox.score_many(
            code, rated(count), {}, {}, users=users, timeout_s=0.5, deadly=deadly
        )
        assert set(ends(scores)) == {"not loaded"}
    assert not deadly.deaths


def test_large_attempts_and_answers_flow_both_ways(sandbox: Sandbox, tmp_path: Path) -> None:
    source = """
        class Plugin:
            def score(self, metrics, config, ctx):
                return {"score": len(metrics["text"]), "details": {"text": metrics["text"]}}
    """
    attempts = [{"text": "x" * 40_000} for _ in range(60)]
    scores = sandbox.score_many(plugin(tmp_path, source), attempts, {}, {})
    assert ends(scores) == [40_000.0] * 60
    assert scores[-1].metadata["details"]["text"] == attempts[-1]["text"]
