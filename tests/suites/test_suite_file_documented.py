"""Every suite that the document shows works as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.suites.suite_texts import load, mistakes

from tallymark.suites.suite_file import load_suite
from tallymark.suites.suite_findings import validate

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").is_file())
EXAMPLES = ROOT / "examples" / "suites"


@pytest.mark.parametrize(
    ("name", "evals", "formula"),
    [
        ("my-eval-suite", ("math-question", "translation-test"), "success_pct / total_cost"),
        ("eval-naming", ("critical-eval", "secondary-eval"), "success_pct"),
        ("cost-efficient-eval", (), "success_pct / total_cost"),
        (
            "weighted-cost-eval",
            ("critical-math", "important-translation", "secondary-question"),
            "(critical-math * 3 + important-translation * 2 + secondary-question) / total_cost",
        ),
        (
            "comprehensive-scoring",
            ("accuracy-test", "speed-test"),
            "(accuracy-test * 0.6 + speed-test * 0.4) * success_pct / (avg_latency * total_cost)",
        ),
    ],
)
def test_the_examples_of_the_document(name: str, evals: tuple[str, ...], formula: str) -> None:
    suite = load_suite(EXAMPLES / f"{name}.yaml")
    assert (suite.name, suite.eval_names, suite.formula) == (name, evals, formula)


@pytest.mark.parametrize(
    "formula",
    [
        "success_pct / total_cost  # Cost efficiency",
        "(critical-eval * 2 + secondary-eval) / avg_latency  # Weighted with latency",
        "success_pct * 0.7 - (total_cost * 100)  # Success weighted, cost penalized",
        "success_pct",
    ],
)
def test_the_formulas_of_the_document(formula: str) -> None:
    naming = (EXAMPLES / "eval-naming.yaml").read_text(encoding="utf-8")
    suite = load(f"{naming}\nscore:\n  formula: {formula}\n")
    assert suite.formula == formula.partition("  #")[0]


def test_the_example_without_quotes_is_read_as_the_text_it_plainly_is() -> None:
    printed = load_suite(Path(__file__).parent / "example-3-as-printed.yaml")
    (warning,) = printed.warnings
    assert warning.place is not None
    assert (warning.place.line, warning.place.column) == (7, 13)
    assert warning.hint == 'put the text in quotes: prompt: "Solve: 2x + 5 = 15"'
    quoted = load_suite(EXAMPLES / "comprehensive-scoring.yaml")
    assert printed.hash == quoted.hash
    assert quoted.warnings == ()


def test_validate_tells_it_too() -> None:
    _, findings = validate(Path(__file__).parent / "example-3-as-printed.yaml")
    assert "quotes" in {finding.code for finding in findings}


@pytest.mark.parametrize("name", ["max_latency", "min_cost", "avg_latency", "success_pct"])
def test_protected_keywords_cannot_name_an_eval(name: str) -> None:
    assert "is reserved" in mistakes(f"evals: [{{name: {name}, prompt: a, checks: []}}]")[0]
