"""How benches are measured and told; `make bench` runs them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest
from bench import __main__ as runner
from bench import measurement
from bench.measurement import OURS, Bench, Found, Promise, Side, Sides, measure_bench
from bench.results import find_worse, is_broken, keep_results, list_broken, load_results, make_row


@pytest.fixture(autouse=True)
def _nothing_to_throw_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the collector would walk through all tests, time and again."""
    monkeypatch.setattr(measurement, "gc", Mock())


def told(cost: float, **options: Any) -> Side:
    return Side(lambda: cost, told=True, **options)


@contextmanager
def linear(size: int) -> Iterator[Sides]:
    """We cost as much as there are, a peer twice that; another is not there."""
    yield {OURS: told(size), "peer": told(2 * size), "gone": "it is not installed"}


@contextmanager
def failing(size: int) -> Iterator[Sides]:
    if size:
        raise RuntimeError("the peer\nhas gone")
    yield {}


def make_bench(**changes: Any) -> Bench:
    given: dict[str, Any] = {
        "name": "linear",
        "claim": "Half of the peer.",
        "sides": linear,
        "sizes": (1, 10, 100),
        "of": "rows",
        "promises": (Promise(0.5, "peer"), Promise(99)),
    }
    return Bench(**given | changes)


def test_each_size_has_a_ratio_and_all_of_them_an_exponent() -> None:
    found = measure_bench(make_bench())
    assert {size: each["peer"] for size, each in found.ratios.items()} == {
        1: 0.5,
        10: 0.5,
        100: 0.5,
    }
    assert found.growth == pytest.approx(1.0)
    assert found.skipped == {"gone": "it is not installed"}


def test_sides_take_turns_after_a_first_time_that_does_not_count() -> None:
    seen: list[str] = []

    @contextmanager
    def sides(_: int) -> Iterator[Sides]:
        slow = Side(lambda: seen.append("slow"), rounds=1)
        yield {OURS: lambda: seen.append("ours"), "peer": lambda: seen.append("peer"), "slow": slow}

    ticks = iter(range(1_000))
    measure_bench(make_bench(sides=sides, rounds=3, clock=lambda: next(ticks)), quick=True)
    assert seen == ["ours", "peer", "ours", "peer", "slow", "ours", "peer", "ours", "peer"]


def test_what_is_done_for_many_costs_one_of_them() -> None:
    @contextmanager
    def sides(_: int) -> Iterator[Sides]:
        yield {OURS: told(6.0, count=3), "peer": told(8.0, count=2)}

    found = measure_bench(make_bench(sides=sides), quick=True)
    assert found.costs[1] == {OURS: 2.0, "peer": 4.0}


def test_sizes_that_are_not_a_decade_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="not a decade apart"):
        make_bench(sizes=(1, 10, 1_000))


def test_a_broken_promise_is_told_with_its_page() -> None:
    row = make_row(make_bench(), measure_bench(make_bench()), None)
    assert [each["kept"] for each in row["promises"]] == [True, False]
    assert is_broken(row)
    (line,) = list_broken({"rows": [row]})
    assert line == "rows, linear: **BROKEN**: 100 s, at most 99 s"


def test_a_promise_about_a_peer_that_is_not_there_is_not_taken_for_kept() -> None:
    bench = make_bench(promises=(Promise(1.0, "gone"),))
    row = make_row(bench, measure_bench(bench), None)
    assert (row["promises"][0]["kept"], is_broken(row)) == (None, True)
    assert list(list_broken({"rows": [row]})) == [
        "rows, linear: not measured: - of gone, at most 1"
    ]
    quick = make_row(bench, measure_bench(bench, quick=True), None)
    assert not is_broken(quick)


def test_a_ratio_that_grew_is_shown_with_what_it_was() -> None:
    before = {"ratios": {"10": {"peer": 0.4, "new": 1.0}, "100": {"peer": 0.49}}}
    found = Found(ratios={10: {"peer": 0.5}, 100: {"peer": 0.5}})
    assert find_worse(found, before) == {"10": {"peer": 0.4}}
    assert find_worse(found, None) == {}


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, *benches: Bench) -> list[dict[str, Any]]:
    module = ModuleType("bench.bench_fake")
    vars(module)["BENCHES"] = benches
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert runner.main(["--alone", "fake", str(folder / "rows.json")]) == 0
    found: list[dict[str, Any]] = json.loads((folder / "rows.json").read_text("utf-8"))
    return found


def test_a_bench_that_fails_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = run(monkeypatch, tmp_path, make_bench(name="bad", sides=failing), make_bench())
    assert [row.get("error") for row in rows] == ["RuntimeError: the peer", None]
    assert is_broken(rows[0])


def test_results_are_a_page_and_numbers_that_are_read_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = run(monkeypatch, tmp_path, make_bench(), make_bench(name="bad", sides=failing))
    kept = {"date": "2026-01-01", "machine": {"cores": "2"}, "versions": {}}
    keep_results(kept | {"benches": {"fake": rows}}, tmp_path)
    assert load_results(tmp_path)["benches"]["fake"] == rows
    page = (tmp_path / "results.md").read_text("utf-8")
    assert "1 of 2 promises are kept." in page
    assert "| 100 | 100 s | 0.5 |" in page
    assert "It grows with rows to the power of 1.00." in page
    assert "- skipped: gone: it is not installed" in page
    assert "fake, bad: **DID NOT RUN**: RuntimeError: the peer" in page


def test_a_bench_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.main(["formulae"]) == 2
    assert (
        "there is no bench 'formulae'; there are boards, commands, formula"
        in capsys.readouterr().err
    )
