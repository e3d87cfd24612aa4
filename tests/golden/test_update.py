"""The corpus can fail, and says how; `make golden-update` writes only what was agreed to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.golden import corpus, update
from tests.golden.corpus import Step, Story

SAID = "▌ small\n$ tally show latest\nScore: 47.00\n! tally: no such run\n→ 2\n"
STORY = Story("topic", "small", [Step("tally show latest")])


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder where `small` is expected, with a story that is gone and a topic that is gone."""
    (tmp_path / "topic.txt").write_text(f"{SAID}\n▌ gone\n→ 0\n", "utf-8")
    (tmp_path / "past.txt").write_text("▌ past\n→ 0\n", "utf-8")
    monkeypatch.setattr(corpus, "EXPECTED", tmp_path)
    monkeypatch.setattr(update, "EXPECTED", tmp_path)
    monkeypatch.setattr(update, "stories", lambda: [STORY])
    monkeypatch.delenv("YES", raising=False)
    corpus.expected.cache_clear()
    yield tmp_path
    corpus.expected.cache_clear()


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("Score: 47.00", "Score: 47.01"),
        ("no such run", "there is no such run"),
        ("→ 2", "→ 3"),
        ("! tally: no such run\n", ""),
    ],
)
def test_any_change_is_shown_as_a_difference(before: str, now: str) -> None:
    lines = update.difference("topic", "small", SAID, SAID.replace(before, now))
    assert lines[:2] == ["--- topic: small, as expected", "+++ topic: small, as it is now"]
    assert [line[1:] for line in lines[2:] if line.startswith("-")] == [
        line for line in SAID.splitlines() if before.strip() in line
    ]


def answers(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setattr(update, "played", lambda told: {"topic": {"small": said}})


def test_without_a_yes_nothing_is_written(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, SAID.replace("47.00", "47.01"))
    before = {path.name: path.read_text("utf-8") for path in kept.iterdir()}
    assert update.main() == 1
    assert {path.name: path.read_text("utf-8") for path in kept.iterdir()} == before
    said = capsys.readouterr().out
    assert "-Score: 47.00\n+Score: 47.01\n" in said
    assert "-▌ gone\n" in said
    assert "-▌ past\n" in said
    assert said.endswith("YES=1\nleft as it was\n")


def test_with_a_yes_the_files_are_as_it_is_now(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, SAID.replace("47.00", "47.01"))
    monkeypatch.setenv("YES", "1")
    assert update.main() == 0
    assert [path.name for path in kept.iterdir()] == ["topic.txt"]
    assert (kept / "topic.txt").read_text("utf-8") == SAID.replace("47.00", "47.01")


def test_when_nothing_has_changed_it_says_so(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (kept / "past.txt").unlink()
    (kept / "topic.txt").write_text(SAID, "utf-8")
    answers(monkeypatch, SAID)
    assert update.main() == 0
    assert capsys.readouterr().out == "nothing changed\n"
