"""`tally load traces`: what is kept, what is broken, and that the same again adds nothing."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.tally_process import Tally


def write(path: Path, *lines: object) -> None:
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")


def make_line(number: int) -> dict[str, object]:
    span = {"span_id": "1", "span_type": "generation", "input": "Why?", "output": str(number)}
    return {"trace_id": f"t{number}", "spans": [span]}


def test_the_same_again_adds_nothing(tmp_path: Path) -> None:
    tally = Tally(tmp_path)
    write(tmp_path / "a.jsonl", make_line(1), make_line(2))
    counts = {"traces": 2, "new": 2, "changed": 0, "known": 0}
    assert tally.json("load", "traces", "a.jsonl") == {**counts, "broken": []}
    counts = {"traces": 2, "new": 0, "changed": 0, "known": 2}
    assert tally.json("load", "traces", "a.jsonl") == {**counts, "broken": []}
    kept = tally.json("traces", "list")["traces"]
    assert sorted((each["id"], each["version"]) for each in kept) == [("t1", 1), ("t2", 1)]


def test_what_is_new_what_changed_and_what_was_there_is_said(tmp_path: Path) -> None:
    tally = Tally(tmp_path)
    write(tmp_path / "a.jsonl", make_line(1), make_line(2))
    tally("load", "traces", "a.jsonl")
    more = make_line(2) | {"name": "renamed"}
    write(tmp_path / "b.jsonl", make_line(1), more, make_line(3), make_line(3))
    said = "loaded 1 trace and 1 new version of what was there; 2 were there already"
    assert tally("load", "traces", "b.jsonl").stdout.startswith(said)
    for name in ("a.jsonl", "b.jsonl"):  # a part of what is there is no new version
        assert tally.json("load", "traces", name)["new"] == 0
        assert tally.json("load", "traces", name)["changed"] == 0


def test_what_is_broken_is_told_and_the_rest_is_kept(tmp_path: Path) -> None:
    tally = Tally(tmp_path)
    write(tmp_path / "a.jsonl", make_line(1), {"spans": 7}, make_line(2))
    assert tally("load", "traces", "a.jsonl").returncode == 2
    done = tally("load", "traces", "a.jsonl", "--skip-broken")
    assert done.returncode == 0
    assert "a.jsonl:2" in done.stderr
    assert done.stdout.startswith("loaded 2 traces")
    write(tmp_path / "b.jsonl", {"spans": 7})
    none = tally("load", "traces", "b.jsonl", "--skip-broken")
    assert (none.returncode, none.stdout) == (2, "")
    assert none.stderr.endswith("nothing could be loaded\n")


def test_redaction_holds_for_what_is_loaded(tmp_path: Path) -> None:
    tally = Tally(tmp_path)
    write(tmp_path / "a.jsonl", make_line(4111_1111_1111_1111))
    assert tally("traces", "settings", "--redact-pattern", "[0-9]{16}").returncode == 0
    assert tally("load", "traces", "a.jsonl").returncode == 0
    shown = json.dumps(tally.json("traces", "list"))
    assert '"answered": "[redacted]"' in shown
