"""The rules by which a framework counts as pushed back; the resolver itself needs a network."""

from __future__ import annotations

import pytest
from packaging.version import Version
from scripts import check_frameworks
from scripts.check_frameworks import Resolved, read_version

RESOLVED = """\
# made by a resolver
--index-strategy first-index
pydantic-ai==2.62.0
Pydantic_AI_Slim[openai]==2.61.1 ; python_full_version >= '3.12'
strands-agents==1.62.0  # newest
"""


@pytest.mark.parametrize(
    ("name", "version"),
    [("strands-agents", "1.62.0"), ("pydantic-ai-slim", "2.61.1"), ("pydantic.ai", "2.62.0")],
)
def test_the_version_that_was_resolved(name: str, version: str) -> None:
    assert read_version(RESOLVED, name) == Version(version)


def test_what_was_not_resolved_has_no_version() -> None:
    assert read_version(RESOLVED, "strands") is None


@pytest.mark.parametrize(
    ("alone", "beside", "verdict"),
    [
        ("1.62.0", "1.62.0", "ok"),
        ("1.62.3", "1.62.0", "ok"),
        ("2", "2.0.1", "ok"),
        ("1.62.0", "1.61.9", "PUSHED BACK"),
        ("2.0.0", "1.99.0", "PUSHED BACK"),
        ("1.62.0", "0.0.1", "PUSHED BACK"),
        ("1.62.0", None, "cannot be installed beside us: why"),
        (None, None, "cannot be resolved alone: why"),
    ],
)
def test_an_older_minor_is_pushed_back(alone: str | None, beside: str | None, verdict: str) -> None:
    older, newer = (None if each is None else Version(each) for each in (alone, beside))
    assert Resolved("x", older, newer, "why").verdict == verdict


@pytest.mark.parametrize(("beside", "status"), [("2.0.5", 0), ("1.9.0", 1)])
def test_one_that_is_pushed_back_fails(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    beside: str,
    status: int,
) -> None:
    def resolve(_: str, *, beside_us: bool) -> tuple[Version, str]:
        return Version(beside if beside_us else "2.0.7"), ""

    monkeypatch.setattr(check_frameworks, "resolve", resolve)
    monkeypatch.setattr(check_frameworks, "find_spec", lambda _: object())
    assert check_frameworks.main(["one"]) == status
    assert capsys.readouterr().out.startswith("one ")
