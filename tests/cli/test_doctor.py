"""`tally doctor`, as a user runs it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.cli.tally_process import Tally
from tests.sandbox.backends import SAFE

from tallymark.cli.main import main
from tallymark.sandbox.conformance import Attack
from tallymark.sandbox.machine_probe import probe


def doctor(folder: Path, *arguments: str, **changed: str) -> subprocess.CompletedProcess[str]:
    return Tally(folder)("doctor", *arguments, env={"TALLY_SANDBOX": "", **changed})


def test_it_says_what_is_here_and_exits_by_it(tmp_path: Path) -> None:
    done = doctor(tmp_path)
    safe = not (probe().missing("bubblewrap") and probe().missing("landlock"))
    assert done.returncode == (0 if safe else 3)
    assert "\x1b" not in done.stdout
    for layer in probe().layers:
        state = "have" if layer.present else "missing"
        assert f"{layer.name} {state} {layer.guards}" in " ".join(done.stdout.split())
    assert "database: .tally/tally.db (created on first use)" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_missing_layer_comes_with_what_to_install(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--backend", "bubblewrap", PATH=str(tmp_path))
    assert done.returncode == 3
    why = "bubblewrap: there is no bwrap on the PATH"
    assert f"\n{why}\n  to do: install the Debian package bubblewrap\n" in done.stdout
    assert "\n\nuntrusted code is not run: the sandbox" in done.stdout


def test_json_is_one_document(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--json", "--backend", "bubblewrap", PATH=str(tmp_path))
    report = json.loads(done.stdout)
    assert done.returncode == 3
    assert report["backend"] is None
    assert report["problem"]["hint"].startswith("install the Debian package bubblewrap")
    (layer, *_) = (each for each in report["layers"] if each["name"] == "bubblewrap")
    assert (layer["present"], layer["install"]) == (False, "install the Debian package bubblewrap")


@pytest.mark.skipif(bool(probe().missing("landlock")), reason="needs Landlock")
def test_without_bubblewrap_landlock_is_the_policy(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--json", PATH=str(tmp_path))
    assert (done.returncode, json.loads(done.stdout)["backend"]) == (0, "landlock")


@pytest.mark.skipif(bool(probe().missing("landlock")), reason="needs Landlock")
def test_a_weaker_sandbox_is_not_silent(tmp_path: Path) -> None:
    told = doctor(tmp_path, PATH=str(tmp_path)).stdout
    assert "this is the weaker sandbox, because of bubblewrap: there is no bwrap on the" in told
    assert "the weaker sandbox" not in doctor(tmp_path, "--backend", "landlock").stdout


@pytest.mark.parametrize("backend", SAFE)
def test_what_an_organiser_keeps_is_out_of_sight(tmp_path: Path, backend: str) -> None:
    (tmp_path / "challenges").mkdir()
    (tmp_path / "my.db").touch()
    done = doctor(tmp_path, "--backend", backend, "--db", "my.db")
    assert done.returncode == 0
    names = "home, folder, challenges, database, unpacked challenges"
    said = " ".join(done.stdout.split())
    assert said.endswith(f"hidden from plugins and programs: {names}")


@pytest.mark.parametrize("backend", SAFE)
def test_what_is_in_sight_is_named_and_not_safe(tmp_path: Path, backend: str) -> None:
    done = doctor(tmp_path, "--backend", backend, HOME="/usr")
    assert done.returncode == 3
    assert "VISIBLE to programs: home (/usr); move it elsewhere\n" in done.stdout
    report = json.loads(doctor(tmp_path, "--json", "--backend", backend, HOME="/usr").stdout)
    assert report["seen_from_inside"]["home"] == ["programs"]
    assert report["seen_from_inside"]["folder"] == []


def test_it_says_how_the_memory_of_programs_is_kept(tmp_path: Path) -> None:
    kept = "enforced by the kernel" if probe().has("memory groups") else "checked every 20 ms"
    assert f"the memory of programs is {kept}" in doctor(tmp_path).stdout


def test_the_sandbox_cannot_be_switched_off_by_the_environment(tmp_path: Path) -> None:
    done = doctor(tmp_path, TALLY_SANDBOX="insecure-local")
    assert done.returncode == 2
    assert "TALLY_SANDBOX" in done.stderr


def test_no_password_is_shown(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--db", "postgresql://alice:secret@localhost/tally")
    assert "database: postgresql://localhost/tally" in done.stdout
    assert "secret" not in done.stdout + done.stderr


@pytest.mark.skipif(bool(probe().missing("landlock")), reason="needs Landlock")
@pytest.mark.parametrize(("score", "exit_code"), [(7.0, 0), (8.0, 3)], ids=["held", "failed"])
def test_conformance_prints_each_attack_and_exits_by_them(
    score: float,
    exit_code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = Attack(name="an attack", body="return {'score': 7.0}", score=score)
    monkeypatch.setattr("tallymark.sandbox.conformance.load_attacks", lambda _: [case])
    command = ["tally", "doctor", "--backend", "landlock", "--conformance"]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().out
    assert ended.value.code == exit_code
    assert f"{'FAILED' if exit_code else 'blocked'}  an attack" in told
    assert told.endswith(f"{0 if exit_code else 1} of 1 attacks blocked\n")
