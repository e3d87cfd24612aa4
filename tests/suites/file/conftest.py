"""Both parsers must give the same: the one in C, where it is installed, and the one in Python."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from tallymark.suites.file import parsing


@pytest.fixture(params=["python", "c"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test that asks for it runs with either parser."""
    if request.param == "c":
        pytest.importorskip("yaml.cyaml")
    else:
        monkeypatch.setattr(parsing, "import_module", without("yaml.cyaml"))
    return str(request.param)


def without(missing: str) -> Callable[[str], Any]:
    def load(name: str) -> Any:
        if name == missing:
            raise ModuleNotFoundError(name)
        return import_module(name)

    return load
