from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tallymark import importing
from tallymark.errors import ScorerError
from tallymark.scoring import EvalContext, Registry, Scorer, load_scorer, scorer
from tallymark.traces import Span, Trace

if TYPE_CHECKING:
    from pathlib import Path

CTX = EvalContext(Trace(spans=[Span(span_type="generation", output="a refund")]))
MODULE = """
from tallymark.scoring import scorer

@scorer
class HasWord:
    def __init__(self, word: str):
        self.word = word

    def evaluate(self, ctx):
        return self.word in ctx.output
"""
Install = Callable[..., None]


@scorer
def polite(ctx: EvalContext) -> float:
    return 0.5


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a package on the path as an installer would, with its entry points."""
    monkeypatch.setattr(sys, "modules", sys.modules.copy())

    def put(package: str, module: str, *points: str) -> None:
        site = tmp_path / package
        info = site / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("\n".join(["[tallymark.scorers]", *points]))
        (site / f"{package}_scorers.py").write_text(module)
        monkeypatch.syspath_prepend(str(site))

    return put


def test_who_asks_while_another_looks_for_packages_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looking, found = threading.Event(), threading.Event()

    def find_slowly(group: str) -> list[object]:
        looking.set()
        assert found.wait(30)
        return list(importing.find_entry_points(group))

    monkeypatch.setattr("tallymark.scoring.scorer_registry.find_entry_points", find_slowly)
    registry = Registry()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(registry.names)
        assert looking.wait(30)
        second = threads.submit(registry.names)
        assert not second.done() or second.result()
        found.set()
        assert "contains" in second.result()
        assert first.result() == second.result()


def test_a_registered_scorer_is_found_by_name() -> None:
    registry = Registry(group=None)
    assert registry.register(polite) is polite
    assert registry.names() == ["polite"]
    assert registry.get("polite") is polite
    assert registry.load("polite") is polite


def test_registering_the_same_scorer_again_changes_nothing() -> None:
    registry = Registry(group=None)
    registry.register(polite)
    registry.register(polite)
    assert registry.names() == ["polite"]


def test_a_name_taken_by_another_scorer_is_refused_and_both_are_named() -> None:
    registry = Registry(group=None)
    registry.register(polite)
    with pytest.raises(ScorerError) as caught:
        registry.register(Scorer(len, name="polite"))
    assert "more than one scorer is named 'polite': " in str(caught.value)
    assert ":polite and builtins:len" in str(caught.value)


def test_another_name_may_be_given() -> None:
    registry = Registry(group=None)
    registry.register(polite, name="kind")
    assert registry.get("kind") is polite


def test_a_thing_without_a_name_is_refused() -> None:
    with pytest.raises(ScorerError, match="needs a name to be registered under"):
        Registry(group=None).register(3)  # type: ignore[type-var]


def test_an_unknown_name_gets_the_nearest_one_suggested() -> None:
    registry = Registry(group=None)
    registry.register(polite)
    with pytest.raises(ScorerError, match="there is no scorer 'polit'; did you mean 'polite'"):
        registry.get("polit")
    with pytest.raises(ScorerError, match=r"there is no scorer 'zzz'; write a name, file.py:name"):
        registry.get("zzz")


def test_an_installed_packages_scorer_is_loaded_with_options(install: Install) -> None:
    install("words", MODULE, "has_word = words_scorers:HasWord")
    registry = Registry()
    assert "has_word" in registry.names()
    assert "words_scorers" not in sys.modules
    made = registry.load('has_word(word="refund", name="refunds")')
    assert (made.name, made.score(CTX).value) == ("refunds", 1.0)
    assert registry.load("has_word", word="credit").score(CTX).value == 0.0


def test_a_broken_package_matters_only_to_who_asks_for_its_scorer(install: Install) -> None:
    install("broken", "1 / 0", "bad = broken_scorers:Bad")
    install("words", MODULE, "has_word = words_scorers:HasWord", "gone = words_scorers:Gone")
    registry = Registry()
    assert registry.load("has_word", word="x").name == "HasWord"
    with pytest.raises(ScorerError) as caught:
        registry.load("bad")
    assert "the scorer 'bad', broken_scorers:Bad of the package broken," in str(caught.value)
    assert "cannot be imported: ZeroDivisionError: division by zero" in str(caught.value)
    with pytest.raises(ScorerError, match="words_scorers:Gone of the package words, cannot be"):
        registry.load("gone")


def test_two_packages_with_one_name_are_an_error_only_for_that_name(install: Install) -> None:
    install("words", MODULE, "has_word = words_scorers:HasWord")
    install("other", MODULE, "has_word = other_scorers:HasWord", "fine = other_scorers:HasWord")
    registry = Registry()
    assert registry.load("fine", word="x").name == "HasWord"
    with pytest.raises(ScorerError) as caught:
        registry.get("has_word")
    assert "words_scorers:HasWord of the package words" in str(caught.value)
    assert "other_scorers:HasWord of the package other" in str(caught.value)


def test_a_registered_scorer_may_not_hide_an_installed_one(install: Install) -> None:
    install("words", MODULE, "polite = words_scorers:HasWord")
    with pytest.raises(ScorerError, match="more than one scorer is named 'polite'"):
        Registry().register(polite)


def test_a_file_reference_is_loaded_with_options(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MODULE)
    assert load_scorer(f'{path}:HasWord(word="refund")').score(CTX).value == 1.0


def test_an_option_given_in_two_places_is_refused() -> None:
    with pytest.raises(ScorerError, match="polite: the option 'name' is given twice"):
        load_scorer('polite(name="a")', name="b")
