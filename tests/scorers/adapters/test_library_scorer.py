from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tallymark.errors import ScorerError, WorkFailed
from tallymark.installation import explain_install
from tallymark.scorers.adapters import (
    from_autoevals,
    from_deepeval,
    from_inspect,
    from_pydantic_evals,
)
from tallymark.scorers.adapters.library_scorer import (
    import_library,
    make_plain,
    pick_result,
    wrap_scorer,
)
from tallymark.scoring import Score, load_scorer
from tallymark.scoring.scorer_registry import snake_case
from tallymark.suites.checks.scorer_check import scorer_name


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("Levenshtein", "levenshtein"),
        ("ExactMatchMetric", "exact_match_metric"),
        ("JSONDiff", "json_diff"),
        ("ValidJSON", "valid_json"),
        ("PIILeakage", "pii_leakage"),
        ("Exact Match", "exact_match"),
        ("Correctness [GEval]", "correctness_g_eval"),
        ("f1", "f1"),
        ("model_graded_qa", "model_graded_qa"),
    ],
)
def test_names_become_snake_case(name: str, snake: str) -> None:
    assert snake_case(name) == snake


@pytest.mark.parametrize(
    ("adapter", "module", "package"),
    [
        (from_autoevals, "autoevals", "autoevals"),
        (from_deepeval, "deepeval", "deepeval"),
        (from_inspect, "inspect_ai", "inspect-ai"),
        (from_pydantic_evals, "pydantic_evals", "pydantic-evals"),
    ],
)
class TestWithoutTheLibrary:
    def test_it_says_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch, adapter: Any, module: str, package: str
    ) -> None:
        for name in [each for each in sys.modules if each.partition(".")[0] == module]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(WorkFailed) as caught:
            adapter("Something")
        assert str(caught.value) == (
            f"this scorer needs {package}, which is not installed; {explain_install(package)}"
        )


def test_a_library_that_is_broken_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken_library.py").write_text("import a_library_that_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(WorkFailed, match="broken-library cannot be imported: No module named"):
        import_library("broken_library", "broken-library")


def test_a_library_that_was_not_installed_as_a_package_has_no_version() -> None:
    scorer = wrap_scorer(
        lambda _: 1, _Thing(), thing_name="A Thing", package="no-such", name=None, settings={}
    )
    assert scorer.name == "a_thing"
    assert scorer.origin.config == {"wraps": "A Thing", "library": "no-such unknown"}


def test_the_adapters_import_no_library() -> None:
    code = """
import sys
import tallymark.scorers.adapters
found = {"autoevals", "deepeval", "inspect_ai", "pydantic_evals", "pydantic_ai"} & set(sys.modules)
assert not found, found
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "adapter", [from_autoevals, from_deepeval, from_inspect, from_pydantic_evals]
)
def test_nothing_to_wrap_is_an_error(adapter: Any) -> None:
    with pytest.raises(ScorerError, match="needs what it should wrap"):
        adapter()


class _Thing:
    pass


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (
            {"threshold": 0.5, "flag": True, "none": None},
            {"threshold": 0.5, "flag": True, "none": None},
        ),
        ({"api_key": "s", "apiKey": "s", "password": "s", "auth_token": "s"}, {}),
        ({"max_tokens": 3, "key": "a"}, {"max_tokens": 3, "key": "a"}),
        ({"query": {"name": "x", "secret": "s"}}, {"query": {"name": "x"}}),
        ({"many": (1, {"api_key": "s"})}, {"many": [1, {}]}),
        ({"tags": {"b", "a"}}, {"tags": ["a", "b"]}),
        ({"model": _Thing(), "kind": _Thing}, {"model": "_Thing", "kind": "_Thing"}),
    ],
)
def test_an_origin_keeps_plain_values_and_no_secrets(
    given: dict[str, Any], kept: dict[str, Any]
) -> None:
    assert make_plain(given) == kept


@pytest.mark.parametrize(
    ("results", "key", "outcome"),
    [
        ({"a": 1}, None, 1),
        ({"a": 1, "b": 0}, "b", 0),
        ({}, None, "it gave no result"),
        ({}, "a", "it gave no result"),
        ({"a": 1, "b": 0}, None, "it gave a, b; choose one with `key`"),
        ({"a": 1}, "c", "it gave a, but not 'c'"),
    ],
)
def test_one_of_several_results_is_picked(
    results: dict[str, int], key: str | None, outcome: int | str
) -> None:
    found = pick_result(results, key, "it")
    assert (found.error if isinstance(found, Score) else found) == outcome


@pytest.mark.parametrize(
    ("use", "name"),
    [
        ('autoevals(name="Levenshtein")', "levenshtein"),
        ('autoevals(scorer="Levenshtein", name="near")', "near"),
        ('deepeval(name="PatternMatchMetric", pattern="a")', "pattern_match"),
        ('inspect(name="inspect_ai/match")', "match"),
        ('pydantic_evals(evaluator="Contains", value="a")', "contains"),
        ('word_count(name="words")', "words"),
    ],
)
def test_a_reference_has_one_name_by_every_door(use: str, name: str) -> None:
    assert scorer_name({"use": use}) == load_scorer(use).name == name
