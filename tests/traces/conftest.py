"""What the tests of traces share: the fixture files, and a list of what a file holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallymark.traces import Trace, read_traces

FIXTURES = Path(__file__).parents[1] / "fixtures" / "traces"


@pytest.fixture
def fixtures() -> Path:
    return FIXTURES


@pytest.fixture
def read() -> Callable[..., list[Trace]]:
    """All traces of a fixture file by its name, or of any path."""

    def read_all(name: str | Path, **options: Any) -> list[Trace]:
        return list(read_traces(FIXTURES / name, **options))

    return read_all
