"""What `import tallymark` gives, and what it does not load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tallymark

NAMES = [
    "EvalContext",
    "Score",
    "Span",
    "Suite",
    "Test",
    "Trace",
    "arun",
    "composite",
    "run",
    "scorer",
]
HEAVY = [
    *("numpy", "sqlalchemy", "altair", "aiohttp", "pydantic_ai", "opentelemetry"),
    *("pyarrow", "asyncio", "msgspec", "rich", "typer", "mcp", "httpx2", "pydantic"),
]


def test_the_names_are_these() -> None:
    assert sorted(NAMES) == tallymark.__all__
    assert set(NAMES) <= set(dir(tallymark))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_what_its_home_has(name: str) -> None:
    exported = getattr(tallymark, name)
    assert exported.__module__.startswith("tallymark.")
    assert exported.__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'tallymark' has no attribute 'scoer'"):
        _ = tallymark.scoer


def loaded_by(code: str) -> set[str]:
    """Which of the heavy modules some code loads, in a new interpreter."""
    print_them = f"import sys; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{print_them}"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_it_loads_nothing_heavy() -> None:
    assert loaded_by("import tallymark") == set()


@pytest.mark.parametrize(
    "code",
    [
        "from tallymark import EvalContext, Score, Span, Trace, composite, scorer",
        "from tallymark import Suite, Test",
        "import tallymark.cli.score",
        "from tallymark.suites import ScoredTraces",
    ],
)
def test_what_a_scorers_author_needs_loads_little(code: str) -> None:
    assert loaded_by(code) <= {"msgspec", "typer", "rich"}


def test_a_server_loads_the_sdk_of_tools_with_the_first_call_of_one() -> None:
    assert "mcp" not in loaded_by("import tallymark.server, tallymark.cli.serve")


def test_a_command_on_a_database_loads_nothing_that_speaks_to_servers(tmp_path: Path) -> None:
    given = (str(tmp_path / "tally.db"), None)
    code = "from tallymark.cli.session import open_resources"
    code += f"\nwith open_resources(*{given!r}) as tally: tally.runs"
    assert not {"httpx2", "pydantic"} & loaded_by(code)


def test_the_pytest_plugin_loads_nothing_heavy() -> None:
    assert loaded_by("import tallymark.pytest_plugin") <= {"asyncio"}  # pytest's own
