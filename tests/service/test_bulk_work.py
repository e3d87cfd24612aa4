"""Blocks that were done are not done again, and results come in the order of the blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.engine.serial_engine import SerialEngine

from tallymark.errors import WorkFailed
from tallymark.service.bulk_work import BlockCodec, BulkTask, BulkWork, hash_work
from tallymark.store import open_store
from tallymark.store.dialects import json_text


@dataclass(frozen=True)
class Doubling(BulkTask[int, int]):
    """Refuses what is negative."""

    results = list[int]

    @contextmanager
    def prepare(self) -> Iterator[Callable[[list[int]], list[int]]]:
        """Needs nothing."""

        def double(items: list[int]) -> list[int]:
            if min(items) < 0:
                raise ValueError("nothing")
            return [item + item for item in items]

        yield double


class Forgiving(Doubling):
    """The same, with a result for what cannot be doubled."""

    def fail(self, error: str) -> int:
        """Zero."""
        return 0


BLOCKS = [(f"k{number}", [number, number + 1]) for number in range(9)]
DOUBLED = [(f"k{number}", [2 * number, 2 * number + 2]) for number in range(9)]


def test_results_come_in_order_though_blocks_do_not() -> None:
    assert list(BulkWork(SerialEngine(3)).do(Doubling(), BLOCKS)) == DOUBLED


def test_results_come_as_they_are_done_where_order_is_not_asked_for() -> None:
    found = list(BulkWork(SerialEngine(3)).do(Doubling(), BLOCKS, ordered=False))
    assert found != DOUBLED
    assert sorted(found) == DOUBLED


def test_what_is_kept_is_not_done_again(tmp_path: Path) -> None:
    engine = SerialEngine()
    with open_store(str(tmp_path / "a.db")) as store:
        with store.open_checkpoint("w") as kept:
            found = BulkWork(engine, kept).do(Doubling(), BLOCKS)
            assert [next(found) for _ in range(4)] == DOUBLED[:4]
            found.close()
        before = engine.done
        with store.open_checkpoint("w") as kept:
            assert len(kept.keys) == before
            assert list(BulkWork(engine, kept).do(Doubling(), BLOCKS)) == DOUBLED
        assert engine.done == len(BLOCKS)


def test_other_items_in_the_place_of_kept_ones_are_done(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "a.db")) as store, store.open_checkpoint("w") as kept:
        list(BulkWork(SerialEngine(), kept).do(Doubling(), BLOCKS))
    with open_store(str(tmp_path / "a.db")) as store, store.open_checkpoint("w") as kept:
        changed = [("a", [7]), *BLOCKS[1:], ("b", [1]), ("c", [1])]
        found = list(BulkWork(SerialEngine(), kept).do(Doubling(), changed))
        assert found == [("a", [14]), *DOUBLED[1:], ("b", [2]), ("c", [2])]


def test_a_block_that_fails_says_why() -> None:
    with pytest.raises(WorkFailed, match="ValueError: nothing"):
        list(BulkWork(SerialEngine()).do(Doubling(), [("a", [1]), ("b", [-1])]))


def test_each_item_of_a_block_that_fails_may_have_a_result() -> None:
    found = BulkWork(SerialEngine()).do(Forgiving(), [("a", [1]), ("b", [-1, 2])])
    assert list(found) == [("a", [2]), ("b", [0, 0])]


class Thing(msgspec.Struct):
    text: str
    more: dict[str, Any] = {}


@pytest.mark.parametrize(
    "thing",
    [
        Thing("plain", {"a": [1, 2.5, None], "b": {"c": True}}),
        Thing("more than 64 bits", {"a": 2**80}),
        Thing("half \ud800 of a pair", {"\udfff": "\ud83d"}),
    ],
)
def test_values_come_back_as_they_were(thing: Thing) -> None:
    codec = BlockCodec(Thing)
    assert codec.decode(codec.encode(thing)) == thing


@pytest.mark.parametrize("more", [{}, {"more than 64 bits": 2**80}], ids=["quick", "escaped"])
@pytest.mark.parametrize(
    ("key", "name"),
    [(1, "1"), (1.5, "1.5"), (True, "True"), (None, "None"), ((1, 2), "(1, 2)"), (b"x", "eA==")],
)
def test_keys_that_are_no_texts_come_back_as_json_has_them(
    key: Any, name: str, more: dict[str, Any]
) -> None:
    codec = BlockCodec(list[Thing])
    sent = [Thing("plain", {"a": 1}), Thing("odd", {key: {"b": [2]}, **more})]
    (plain, odd) = codec.decode(codec.encode(sent))
    assert plain == sent[0]
    assert odd.more == {name: {"b": [2]}, **more}
    assert odd.more == msgspec.json.decode(json_text(sent[1].more))


def test_what_is_something_else_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        BlockCodec(Thing).decode(BlockCodec(list[int]).encode([1]))


def test_the_name_of_work_is_that_of_its_facts() -> None:
    assert hash_work("a", {"x": 1, "y": 2}) == hash_work("a", {"y": 2, "x": 1})
    assert hash_work("a", {"x": 1}) != hash_work("a", {"x": 2})
