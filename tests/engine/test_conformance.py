"""Conformance of engines: one suite for both."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.engine.block_work import Doing, NeverReady

from tallymark.engine.engine import Engine
from tallymark.engine.engine_choice import EngineChoice
from tallymark.errors import WorkFailed

ENGINES = [
    EngineChoice("local", workers=2),
    pytest.param(EngineChoice("ray", workers=2), marks=pytest.mark.proof),
]


@pytest.fixture(scope="module", params=ENGINES, ids=["local", "ray"])
def choice(request: pytest.FixtureRequest) -> EngineChoice:
    chosen: EngineChoice = request.param
    return chosen


@pytest.fixture(scope="module")
def engine(choice: EngineChoice) -> Iterator[Engine]:
    with choice.open() as opened:
        yield opened


def do(engine: Engine, folder: Path, *blocks: tuple[str, Any]) -> list[Any]:
    """Run blocks; return the result or error of each, in order."""
    found = sorted(engine.map(Doing(folder), enumerate(blocks)), key=lambda each: each.about)
    return [each.result if each.error is None else each.error for each in found]


def test_every_block_is_told_of_once(engine: Engine, tmp_path: Path) -> None:
    blocks = (("square", number) for number in range(50))
    found = [(each.about, each.result) for each in engine.map(Doing(tmp_path), enumerate(blocks))]
    assert sorted(found) == [(number, number * number) for number in range(50)]


def test_nothing_to_do_is_done_at_once(engine: Engine, tmp_path: Path) -> None:
    assert do(engine, tmp_path) == []
    assert not list(tmp_path.iterdir())  # no worker was started


def test_a_block_that_fails_leaves_the_others_alone(engine: Engine, tmp_path: Path) -> None:
    said = "a worker failed: ValueError: no such thing"
    assert do(engine, tmp_path, ("square", 2), ("fail", "no such thing"), ("square", 3)) == [
        4,
        said,
        9,
    ]


def test_what_cannot_be_sent_back_is_a_failed_block(engine: Engine, tmp_path: Path) -> None:
    first, second = do(engine, tmp_path, ("unsendable", None), ("square", 3))
    assert (isinstance(first, str) or callable(first), second) == (True, 9)  # Ray can send it


def test_a_worker_that_dies_costs_time(engine: Engine, tmp_path: Path) -> None:
    assert do(engine, tmp_path, ("square", 2), ("die", 2), ("square", 3)) == [4, "after 2", 9]


def test_a_block_that_kills_every_worker_is_given_up(engine: Engine, tmp_path: Path) -> None:
    _, said, _ = do(engine, tmp_path, ("square", 2), ("die", 99), ("square", 3))
    assert said.startswith("3 workers died over the same block of work; the last ")


@pytest.mark.parametrize("name", ["SystemExit", "KeyboardInterrupt", "_Wordless"])
def test_whatever_is_raised_is_told_at_once(engine: Engine, tmp_path: Path, name: str) -> None:
    assert do(engine, tmp_path, ("stop", name)) == [f"a worker failed: {name}"]


def test_a_copy_that_work_makes_of_its_worker_answers_nobody(tmp_path: Path) -> None:
    with EngineChoice("local", workers=1).open() as engine:
        blocks = [("square", 2), ("fork", 7), *(("square", number) for number in range(3, 9))]
        assert do(engine, tmp_path, *blocks) == [4, 7, 9, 16, 25, 36, 49, 64]
    wait_for_sleepers(tmp_path)


@pytest.mark.parametrize("how", ["fork and die", "start and die"])
def test_nobody_waits_for_what_a_worker_left_behind(how: str, tmp_path: Path) -> None:
    with EngineChoice("local", workers=1).open() as engine:
        assert do(engine, tmp_path, (how, 7), ("square", 2)) == [7, 4]
    wait_for_sleepers(tmp_path)


def test_work_that_nobody_gets_ready_for_says_why(engine: Engine) -> None:
    (outcome,) = engine.map(NeverReady(), [(0, 1)])
    assert outcome.error == "a worker failed: ValueError: there is no scorer here"
    with pytest.raises(WorkFailed, match="no scorer here"):
        outcome.require()


def test_no_more_blocks_are_begun_than_can_be_held(engine: Engine, tmp_path: Path) -> None:
    size, asked = 200_000, 0

    def cut() -> Iterator[tuple[int, tuple[str, Any]]]:
        nonlocal asked
        for number in range(200):
            asked = number + 1
            yield number, ("fill", size) if number else ("sleep", 0.3)

    left = set(range(200))
    for each in engine.map(Doing(tmp_path), cut(), ahead=4):
        left.remove(each.about)
        assert asked - min(left, default=200) <= 4 * engine.workers
        assert each.about == 0 or len(each.require()) == size
    assert not left


def test_who_stops_listening_ends_the_work(engine: Engine, tmp_path: Path) -> None:
    blocks = [("square", 1), *[("sleep", 600.0)] * 20]
    with closing(engine.map(Doing(tmp_path), enumerate(blocks))) as outcomes:
        assert next(outcomes).result == 1
        while not (asleep := list(tmp_path.glob("asleep-*"))):
            time.sleep(0.01)
    assert asleep
    wait_for_sleepers(tmp_path)
    assert do(engine, tmp_path, ("square", 5)) == [25]


def test_the_same_in_another_order_comes_to_the_same(engine: Engine, tmp_path: Path) -> None:
    blocks = [("square", number) for number in range(12)]
    assert do(engine, tmp_path, *reversed(blocks)) == do(engine, tmp_path, *blocks)[::-1]


DRIVER = """
import sys
from pathlib import Path
from tests.engine.block_work import Doing
from tallymark.engine.engine_choice import EngineChoice

folder, kind = Path(sys.argv[1]), sys.argv[2]
done = {path.name for path in folder.glob("done-*")}
blocks = [number for number in range(12) if f"done-{number}" not in done]
acts = [("square", n) if n < 6 or done else ("sleep", 600.0) for n in blocks]
with EngineChoice(kind, workers=2).open() as engine:
    for each in engine.map(Doing(folder), zip(blocks, acts)):
        (folder / f"done-{each.about}").write_text(str(each.require()))
"""


def test_a_driver_that_is_killed_leaves_nobody_and_can_be_started_again(
    choice: EngineChoice, engine: Engine, tmp_path: Path
) -> None:
    del engine  # Ray is started by then, and each driver starts its own
    words = [sys.executable, "-c", DRIVER, str(tmp_path), choice.kind]
    driver = subprocess.Popen(words, cwd=Path(__file__).parents[2])
    while len(list(tmp_path.glob("asleep-*"))) < 2:
        assert driver.poll() is None
        time.sleep(0.01)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    wait_for_sleepers(tmp_path)
    assert len(list(tmp_path.glob("done-*"))) == 6
    subprocess.run(words, check=True, cwd=Path(__file__).parents[2])
    found = {path.name: path.read_text("ascii") for path in tmp_path.glob("done-*")}
    assert found == {f"done-{number}": str(number * number) for number in range(12)}


def wait_for_sleepers(folder: Path) -> None:
    for note in folder.glob("asleep-*"):
        wait_for_end(int(note.name.partition("-")[2]))


def wait_for_end(process: int) -> None:
    """Until there is no such process."""
    deadline = time.monotonic() + 60
    with suppress(ProcessLookupError, FileNotFoundError):
        while "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text("ascii", "replace"):
            os.kill(process, 0)
            assert time.monotonic() < deadline, f"{process} goes on"
            time.sleep(0.01)
