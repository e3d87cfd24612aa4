"""What all workers load, compiled before they start: in a fresh clone each would do all of it."""

from __future__ import annotations

import compileall
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "tallymark"


def compile_once(config: pytest.Config) -> None:
    """Leaves out what is compiled already, which is all of it the second time."""
    if sys.dont_write_bytecode or config.getoption("assertmode") != "rewrite":
        return
    compileall.compile_dir(PACKAGE, quiet=2)
    for path in TESTS.rglob("*.py"):
        if TESTS / "fixtures" in path.parents:  # to be read, not run
            continue
        if path.name.startswith("test_") or path.name == "conftest.py":
            with suppress(SyntaxError):  # whoever wants it will say so
                _rewrite(path, config)
        else:
            compileall.compile_file(path, quiet=2)


def _rewrite(path: Path, config: pytest.Config) -> None:
    """As pytest does, with asserts that tell what they compared."""
    kept = rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(path, kept) is None and rewrite.try_makedirs(kept.parent):
        digest, code = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, digest, kept)
