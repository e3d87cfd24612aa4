"""A test lies in the folder of what it tests: `tests/` has the folders of `src/tallymark/`."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "tallymark"

OTHER_FOLDERS = {
    "examples": "the examples lie outside the package",
    "golden": "frozen output of commands and pages",
    "refused": "attacks that must fail, whatever module stops them",
}
FOLDERS = sorted({path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")})


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_tests_is_a_folder_of_the_source(folder: str) -> None:
    assert (SOURCE / folder).is_dir() or folder in OTHER_FOLDERS


def test_a_folder_with_a_reason_exists() -> None:
    assert set(OTHER_FOLDERS) <= set(FOLDERS)
