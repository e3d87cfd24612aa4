"""Both parsers must give the same: the one in C, where it is installed, and the one in Python."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(params=["python", "c"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test that asks for it runs with either parser."""
    if request.param == "c":
        pytest.importorskip("yaml.cyaml")
    else:
        monkeypatch.setitem(sys.modules, "yaml.cyaml", None)
    return str(request.param)
