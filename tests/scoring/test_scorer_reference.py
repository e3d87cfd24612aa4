from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from tallymark.errors import ScorerError
from tallymark.scoring import Scorer
from tallymark.scoring.scorer_reference import ScorerReference, import_scorer

if TYPE_CHECKING:
    from pathlib import Path

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
def test_what_cannot_be_found_is_said(folder: Path, home: str, name: str, message: str) -> None:
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
