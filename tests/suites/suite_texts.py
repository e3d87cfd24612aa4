"""Short suites for tests."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

from tallymark.documents.source import Source
from tallymark.errors import InvalidInput
from tallymark.suites.suite_file import load_source

if TYPE_CHECKING:
    from tallymark.suites.suite_definition import SuiteDefinition


def load(text: str, folder: Path | None = None) -> SuiteDefinition:
    """The suite of an indented text."""
    return load_source(Source(dedent(text).lstrip("\n"), "suite.yaml", folder or Path()))


def mistakes(text: str, folder: Path | None = None) -> list[str]:
    """Every mistake of a suite, as a user reads it; none for a suite that is fine."""
    try:
        load(text, folder)
    except InvalidInput as error:
        return [str(problem) for problem in error.problems]
    return []
