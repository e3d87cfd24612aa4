from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from tallymark.scoring.code_hashes import code_hash
from tallymark.scoring.scorer import Scorer


def one(ctx: object) -> float:
    return 0.5


def two(ctx: object) -> float:
    return 0.6


class Callable:
    def __call__(self, ctx: object) -> float:
        return 0.5


def _without_source(text: str) -> Any:
    names: dict[str, Any] = {}
    exec(text, names)
    return names["f"]


def test_the_same_code_has_the_same_hash_and_other_code_another() -> None:
    assert code_hash([one]) == code_hash([one]) != code_hash([two])


@pytest.mark.parametrize("source", [one, Callable, Callable(), partial(one), len, int])
def test_everything_callable_has_a_hash_of_twelve_digits(source: object) -> None:
    digest = code_hash([source])
    assert len(digest) == 12
    int(digest, 16)


def test_code_without_a_source_file_is_told_apart_by_its_bytecode() -> None:
    half = "def f(ctx):\n    return [0.5 for _ in ctx]"
    assert code_hash([_without_source(half)]) == code_hash([_without_source(half)])
    assert code_hash([_without_source(half)]) != code_hash(
        [_without_source(half.replace("0.5", "0.6"))]
    )


def test_a_class_without_a_source_file_is_told_apart_by_its_methods() -> None:
    text = "class f:\n    def evaluate(self, ctx):\n        return 0.5"
    assert code_hash([_without_source(text)]) == code_hash([_without_source(text)])
    assert code_hash([_without_source(text)]) != code_hash(
        [_without_source(text.replace("0.5", "0.6"))]
    )


def test_order_and_number_of_sources_count() -> None:
    assert len({code_hash([one, two]), code_hash([two, one]), code_hash([one])}) == 3


def test_threads_may_hash_at_once() -> None:
    """The collector runs Python code in the middle of a syntax tree, so that threads change."""
    expected = code_hash([Scorer])
    threshold = gc.get_threshold()
    yield_to_others = lambda phase, info: time.sleep(0.0001)  # noqa: E731
    gc.callbacks.append(yield_to_others)
    gc.set_threshold(200)
    try:
        with ThreadPoolExecutor(4) as pool:
            hashes = list(pool.map(lambda _: code_hash([Scorer]), range(8)))
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(yield_to_others)
    assert hashes == [expected] * 8
