from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tallymark.errors import ScorerError
from tallymark.scoring.plain_copies import copy_plain, freeze

PLAIN: dict[str, Any] = {"a": [1, {"b": "c"}], "d": {}, "e": None}


def test_a_copy_shares_nothing_that_can_be_changed() -> None:
    copied = copy_plain(PLAIN)
    copied["a"][1]["b"] = "changed"
    assert PLAIN["a"] == [1, {"b": "c"}]


def test_what_is_not_plain_or_too_deep_is_shared() -> None:
    client = object()
    assert copy_plain({"client": client})["client"] is client
    deep: list[Any] = []
    deep.append(deep)
    assert copy_plain(deep) is deep
    assert freeze(deep) is deep


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(x=1),
        lambda data: data.pop("a"),
        lambda data: data.clear(),
        lambda data: data.setdefault("x", 1),
        lambda data: data.__setitem__("x", 1),
        lambda data: data.__delitem__("a"),
        lambda data: data.__ior__({"x": 1}),
        lambda data: data["a"].append(1),
        lambda data: data["a"].sort(),
        lambda data: data["a"].__iadd__([1]),
        lambda data: data["a"].__setitem__(0, 2),
        lambda data: data["a"][1].popitem(),
        lambda data: data["d"].update(x=1),
    ],
)
def test_what_is_frozen_says_that_it_cannot_be_changed(change: Callable[[Any], Any]) -> None:
    frozen = freeze(PLAIN)
    with pytest.raises(ScorerError, match="what a scorer sees cannot be changed"):
        change(frozen)
    assert frozen == PLAIN


def test_what_is_frozen_is_read_and_written_like_any_data() -> None:
    frozen = freeze(PLAIN)
    assert json.loads(json.dumps(frozen)) == PLAIN
    assert msgspec.json.decode(msgspec.json.encode(frozen)) == PLAIN
    for made in (copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen)), dict(frozen)):
        made["x"] = 1
        assert made == {**PLAIN, "x": 1}
    thawed = copy.deepcopy(frozen)
    thawed["a"][1]["b"] = "changed"
    assert frozen == PLAIN
