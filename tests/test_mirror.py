"""`tests/` mirrors `src/tallymark/`: whoever knows a module's name knows where its tests are."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "tallymark"

# Tests of something other than one module or folder, and why.
EXCEPTIONS = {
    "cli/test_both_ways.py": "every command, on a database and against a server",
    "engine/test_conformance.py": "both engines, by one suite",
    "examples/test_challenges.py": "the examples lie outside the package",
    "examples/test_dimensions.py": "the examples lie outside the package",
    "examples/test_trace_scorers.py": "the examples lie outside the package",
    "golden/test_golden.py": "the command and the public names, whatever lies behind them",
    "examples/test_operations.py": "what operators copy, which is no Python",
    "golden/test_masks.py": "what the golden corpus leaves out of its comparisons",
    "golden/test_update.py": "how the golden corpus is brought up to date",
    "test_corpus.py": "parsers of strangers' bytes, wherever they are",
    "test_dependencies.py": "what the package needs, and how it is built",
    "test_frameworks.py": "the check of agent frameworks, which is a script",
    "test_proof.py": "when a proof by tests holds",
    "test_bench.py": "how benches are measured and told",
    "test_doors.py": "all doors together",
    "test_docs.py": "the documents, which show users what to write",
    "test_exports.py": "what `import tallymark` gives",
    "test_layers.py": "all rooms together",
    "test_mirror.py": "the tests themselves",
    "test_mutants.py": "the tests themselves",
    "test_skips.py": "the tests themselves",
    "test_tour.py": "every page and route, whatever lies behind",
    "test_wheel.py": "the package as it is installed",
}


def modules(folder: Path) -> set[str]:
    """The names of the modules and rooms that lie in a folder of the source."""
    found = {path.stem for path in folder.glob("*.py")} | {
        path.name for path in folder.iterdir() if path.is_dir()
    }
    return found - {"__init__", "__pycache__"}


def subject(path: Path) -> str | None:
    """What a test file is about: `test_b.py` and `test_b_aspect.py` are about `b`, and about the
    folder that it lies in when they are named after it.
    """
    folder = SOURCE / path.parent.relative_to(TESTS)
    if not folder.is_dir():
        return None
    stem = path.stem.removeprefix("test_")
    # Routes come from the operations of the service.
    operations = modules(SOURCE / "service") if folder.name == "http" else set()
    names = sorted({*modules(folder), *operations, folder.name}, key=len, reverse=True)
    return next((name for name in names if f"{stem}_".startswith(f"{name}_")), None)


def files() -> list[str]:
    return sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py"))


REFUSED = "refused/"
"""Ways to bend a board, each tried through the whole house; the files are named for the way."""


@pytest.mark.parametrize(
    "name", sorted(name for name in {*files()} - {*EXCEPTIONS} if not name.startswith(REFUSED))
)
def test_a_test_file_is_named_after_what_it_tests(name: str) -> None:
    assert subject(TESTS / name), f"tests/{name} is named after no module of the same folder"


def test_an_exception_exists_and_needs_to_be_one() -> None:
    for name in EXCEPTIONS:
        assert (TESTS / name).exists(), f"tests/{name} is gone: take it out of the list"
        assert not subject(TESTS / name), f"tests/{name} mirrors a module: take it out of the list"
