from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tallymark import importing
from tallymark.errors import ScorerError
from tallymark.scoring import EvalContext, Registry, Scorer, load_scorer, scorer
from tallymark.scoring.scorer_registry import ScorerReference, build_scorer, import_scorer
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


def test_a_second_thread_waits_for_the_search_for_packages(
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
    with pytest.raises(ScorerError, match=r"there is no scorer 'zzz'; list the names with"):
        registry.get("zzz")


def test_an_installed_packages_scorer_is_loaded_with_options(install: Install) -> None:
    install("words", MODULE, "has_word = words_scorers:HasWord")
    registry = Registry()
    assert "has_word" in registry.names()
    assert "words_scorers" not in sys.modules
    made = registry.load('has_word(word="refund", name="refunds")')
    assert (made.name, made.score(CTX).value) == ("refunds", 1.0)
    assert registry.load("has_word", word="credit").score(CTX).value == 0.0


def test_a_broken_package_fails_only_when_its_scorer_is_loaded(install: Install) -> None:
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


@scorer
def fixed(ctx: EvalContext) -> float:
    return 0.5


class AtLeast:
    def __init__(self, words: int, threshold: float = 0.5) -> None:
        if words < 0:
            raise ValueError("words must be 0 or more")
        self.words = words
        self.threshold = threshold

    def evaluate(self, ctx: EvalContext) -> bool:
        return len(ctx.output.split()) >= self.words


at_least = scorer(name="at_least")(AtLeast)


def at_most(words: int, unit: str = "words") -> Scorer:
    @scorer(name="at_most")
    def made(ctx: EvalContext) -> bool:
        return len(ctx.output.split()) <= words

    return made


def plain(ctx: EvalContext) -> float:
    return 0.5


def gives_text() -> str:
    return "scorer"


def test_a_scorer_without_options_is_itself() -> None:
    assert build_scorer(fixed, "fixed", {}) is fixed


@pytest.mark.parametrize(
    ("entry", "options", "config"),
    [
        (at_least, {"words": 3}, {"words": 3, "threshold": 0.5}),
        (at_most, {"words": 3}, {"words": 3, "unit": "words"}),
    ],
)
def test_a_built_scorer_remembers_all_its_options(
    entry: Any, options: dict[str, Any], config: dict[str, Any]
) -> None:
    assert build_scorer(entry, "x", options).origin.config == config


@pytest.mark.parametrize(
    ("entry", "options"), [(fixed, {}), (at_least, {"words": 1}), (at_most, {"words": 1})]
)
def test_every_scorer_takes_a_name_and_a_threshold(entry: Any, options: dict[str, Any]) -> None:
    made = build_scorer(entry, "x", {**options, "name": "mine", "threshold": 0.9})
    assert (made.name, made.threshold) == ("mine", 0.9)


@pytest.mark.parametrize(
    ("entry", "options", "message"),
    [
        (fixed, {"words": 1}, "x takes no options, but 'words' was given"),
        (fixed, {"name": 3}, "3 cannot name a scorer"),
        (at_least, {}, "x needs the option 'words'"),
        (at_least, {"word": 1}, "x has no option 'word'; did you mean 'words'?"),
        (at_least, {"words": "3"}, "x: the option 'words' is '3'"),
        (at_least, {"words": -1}, "x refuses its options: ValueError: words must be 0 or more"),
        (at_most, {"words": 1.5}, "x: the option 'words' is 1.5"),
        (at_most, {"words": 1, "threshold": 7}, "at_most: threshold is 7"),
        (plain, {}, "x is a plain function; put @scorer above it"),
        (gives_text, {}, "x gave 'scorer', not a scorer"),
        (int, {}, "x is <class 'int'> (type), not a scorer"),
        (0.5, {}, "x is 0.5, not a scorer"),
    ],
)
def test_what_cannot_be_built_is_refused(entry: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as caught:
        build_scorer(entry, "x", options)
    assert message in str(caught.value)


SCORERS = """
from tallymark.scoring import scorer
from beside import ANSWER

@scorer
def half(ctx):
    return ANSWER
"""


@pytest.mark.parametrize(
    ("text", "home", "name", "options"),
    [
        ("word_count", None, "word_count", {}),
        ("my-scorer", None, "my-scorer", {}),
        ("word_count()", None, "word_count", {}),
        ("checks.py:half", "checks.py", "half", {}),
        ("./a b/checks.py:half", "./a b/checks.py", "half", {}),
        ("package.module:half", "package.module", "half", {}),
        (
            'keyword_match(keywords=["a", "b"], min_match=2)',
            None,
            "keyword_match",
            {"keywords": ["a", "b"], "min_match": 2},
        ),
        ("checks.py:half(x=-1.5)", "checks.py", "half", {"x": -1.5}),
        (
            "a(x=true, y=false, z=null, w=None)",
            None,
            "a",
            {"x": True, "y": False, "z": None, "w": None},
        ),
        ('a(x={"k": [1, true]})', None, "a", {"x": {"k": [1, True]}}),
        (r'regex_match(pattern="\d+")', None, "regex_match", {"pattern": r"\d+"}),
        (r'regex_match(pattern=r"\bx\b")', None, "regex_match", {"pattern": r"\bx\b"}),
        ('a(text="x)y(z:w.py:v")', None, "a", {"text": "x)y(z:w.py:v"}),
    ],
)
def test_a_reference_is_taken_apart(
    text: str, home: str | None, name: str, options: dict[str, Any]
) -> None:
    assert ScorerReference.parse(text) == ScorerReference(name, home, options)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("contains(text=hello)", 15, "write text in quotes: 'hello'"),
        ("contains(äöü='é', text=hello)", 24, "write text in quotes: 'hello'"),
        ("contains('hello')", 10, "an option is written key=value"),
        ("contains(**{'a': 1})", 10, "an option is written key=value"),
        ("contains(a=1, a=2)", 15, "the option 'a' is given twice"),
        ("contains(a=1", 9, "the options cannot be read: '(' was never closed"),
        ("contains(a=1) or x", 9, "something follows the closing bracket"),
        ("contains(a=open('x'))", 12, "write text in quotes: 'open'"),
        ("contains(a=(1).real)", 12, "only literal values can be options"),
        ("contains(a=2 ** 99)", 12, "only literal values can be options"),
        ("contains(a=f'{1}')", 12, "only literal values can be options"),
    ],
)
def test_options_that_cannot_be_read_are_pointed_at(text: str, column: int, message: str) -> None:
    with pytest.raises(ScorerError) as caught:
        ScorerReference.parse(text)
    problem = caught.value.problems[0]
    assert message in problem.message
    assert problem.place is not None
    assert (problem.place.column, problem.place.text) == (column, text)


@pytest.mark.parametrize("text", ["", "  ", "checks.py:", ":half", "(a=1)", "x:(a=1)"])
def test_a_text_without_a_name_is_refused(text: str) -> None:
    with pytest.raises(ScorerError, match=r"does not name a scorer; write a name, file.py:name"):
        ScorerReference.parse(text)


def test_brackets_without_end_are_refused_and_do_not_crash() -> None:
    with pytest.raises(ScorerError, match="the options cannot be read"):
        ScorerReference.parse("a(x=" + "[" * 100_000)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "checks.py").write_text(SCORERS)
    (tmp_path / "beside.py").write_text("ANSWER = 0.5")
    (tmp_path / "broken.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "unfinished.py").write_text("def f(:\n")
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    return tmp_path


@pytest.mark.parametrize("home", ["checks.py", "./checks.py", "checks"])
def test_a_scorer_is_found_in_a_file_or_a_module_of_the_current_folder(
    folder: Path, home: str
) -> None:
    before = list(sys.path)
    found = import_scorer(home, "half")
    assert isinstance(found, Scorer)
    assert found.name == "half"
    assert sys.path == before


def test_a_file_is_executed_once(folder: Path) -> None:
    assert import_scorer("checks.py", "half") is import_scorer(str(folder / "checks.py"), "half")


@pytest.mark.parametrize(
    ("home", "name", "message"),
    [
        ("checks.py", "hlaf", "checks.py has no scorer 'hlaf'; did you mean 'half'?"),
        ("absent.py", "half", "there is no file absent.py"),
        ("absent.module", "half", "absent.module cannot be imported: ModuleNotFoundError"),
        (
            "broken.py",
            "half",
            "broken.py cannot be imported: ZeroDivisionError: division by zero (at broken.py:2)",
        ),
        ("broken", "half", "broken cannot be imported: ZeroDivisionError"),
        ("unfinished.py", "f", "unfinished.py cannot be imported: SyntaxError"),
        ("leaves.py", "f", "leaves.py cannot be imported: SystemExit: 3"),
    ],
)
def test_a_missing_file_or_name_is_reported(
    folder: Path, home: str, name: str, message: str
) -> None:
    for _ in range(2):  # a broken file is not remembered as a good one
        with pytest.raises(ScorerError) as caught:
            import_scorer(home, name)
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r'"\bfoo\b"', r"\bfoo\b"),
        (r'"\\bfoo"', r"\bfoo"),
        (r'r"\bfoo"', r"\bfoo"),
        (r'"(a)\1\d\f"', r"(a)\1\d\f"),
        (r'"a\nb\tc\x41\u00e9"', "a\nb\tcA\xe9"),
        (r'"it\'s \"so\""', 'it\'s "so"'),
    ],
)
def test_escapes_that_mean_something_in_patterns_stay_as_they_are_typed(
    written: str, text: str
) -> None:
    assert ScorerReference.parse(f"x(p={written}, q=[{written}])").options == {
        "p": text,
        "q": [text],
    }
