"""Briefs are written inside their folder, even with hostile file names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallymark.challenges import challenge_folder
from tallymark.client.competing.brief import Brief, lay_brief, read_brief, save_answer
from tallymark.errors import WorkFailed


def make(folder: Path, data: dict[str, Any], form: str = "json") -> Brief:
    rules = {"name": "sums", "submission": {"format": form}}
    return Brief(
        attempt="a1", challenge="sums", agent="bob", goal="Add.", rules=rules, data=data,
        seconds=60.0, folder=str(folder),
    )  # fmt: skip


def test_what_is_laid_is_read_again(tmp_path: Path) -> None:
    laid = make(tmp_path / "new", {"a/numbers.json": [6, 7], "log.txt": "x"})
    lay_brief(laid)
    assert read_brief(tmp_path / "new") == laid
    assert (tmp_path / "new/data/a/numbers.json").read_text() == "[\n  6,\n  7\n]"
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "name", ["../../x", "/etc/x", "a/../../x", "..", "", ".bashrc", "a\x1b[2J", "a\\b", "x" * 999]
)
def test_no_file_leaves_the_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "deep" / "folder"
    with pytest.raises(WorkFailed, match="is not written") as caught:
        lay_brief(make(folder, {name: "gone"}))
    assert "\x1b" not in str(caught.value)
    with pytest.raises(WorkFailed):
        save_answer(make(folder, {}, "files"), {name: "gone"})
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == []


def test_more_than_a_disk_should_hold_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(challenge_folder, "MAX_RECEIVED_BYTES", 1_000_000)
    with pytest.raises(WorkFailed, match="more than"):
        lay_brief(make(tmp_path, {"a": "x" * 600_000, "b": "x" * 600_000}))
    monkeypatch.setattr(challenge_folder, "MAX_RECEIVED_FILES", 2)
    with pytest.raises(WorkFailed, match="more than 2 files"):
        lay_brief(make(tmp_path, dict.fromkeys("abc", "")))


def test_a_link_that_lies_there_is_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    folder = tmp_path / "folder"
    (folder / "elsewhere").mkdir(parents=True)
    for name in ("goal.md", "brief.json"):
        (folder / name).symlink_to(kept)
    (folder / "data").symlink_to(folder / "elsewhere")
    with pytest.raises(WorkFailed):
        lay_brief(make(folder, {"a": "x"}))
    (folder / "data").unlink()
    lay_brief(make(folder, {"a": "x"}))
    assert kept.read_text() == "mine"
    assert list((folder / "elsewhere").iterdir()) == []


def test_an_earlier_answer_is_kept_under_another_name(tmp_path: Path) -> None:
    laid = make(tmp_path, {})
    lay_brief(laid)
    save_answer(laid, {"sum": 1})
    lay_brief(laid)
    assert not laid.answer_path.exists()
    assert (tmp_path / "earlier-1-answer.json").exists()
