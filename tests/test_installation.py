from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tallymark import installation
from tallymark.installation import explain_install


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment that is not active, with pip."""
    folder = tmp_path / "envs" / "tallymark"
    folder.mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setattr(sys, "executable", str(folder / "bin" / "python"))
    monkeypatch.setattr(installation, "find_spec", lambda _: object())
    return folder


def come_from(monkeypatch: pytest.MonkeyPatch, told: dict[str, object] | None) -> None:
    """Lets direct_url.json say this, or be absent."""

    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if told is None else json.dumps(told)

    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed())


def test_pip_of_the_environment_that_runs_is_used(environment: Path) -> None:
    assert explain_install("tallymark[ray]") == (
        f'install it with: {environment}/bin/python -m pip install "tallymark[ray]"'
    )


def test_an_active_environment_needs_no_path(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (environment / "bin").mkdir()
    (environment / "bin" / "python").touch(0o755)
    monkeypatch.setenv("PATH", str(environment / "bin"))
    assert explain_install("deepeval") == 'install it with: python -m pip install "deepeval"'


def test_a_folder_with_a_space_can_be_pasted(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/my envs/bin/python")
    assert explain_install("six").endswith(""" '/my envs/bin/python' -m pip install "six\"""")


def test_without_pip_it_is_uv(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "find_spec", lambda _: None)
    assert explain_install("tallymark[ray]") == (
        f'install it with: uv pip install --python {environment}/bin/python "tallymark[ray]"'
    )


def test_pipx_has_a_pip_for_each_application(environment: Path) -> None:
    (environment / "pipx_metadata.json").write_text("{}")
    assert explain_install("tallymark[ray]") == (
        'install it with: pipx runpip tallymark install "tallymark[ray]"'
    )


RECEIPT = """
[tool]
requirements = [
    { name = "tallymark", extras = ["semantic"], directory = "/clones/tallymark" },
    { name = "six", specifier = ">=1" },
    { name = "pydantic-ai-slim", extras = ["groq"] },
]
"""
BESIDE = '--with "six>=1" --with "pydantic-ai-slim[groq]"'


@pytest.mark.parametrize(
    ("package", "told", "said"),
    [
        (
            "tallymark[models]",
            {"url": "file:///my%20clones/tallymark", "dir_info": {}},
            f'"/my clones/tallymark[models,semantic]" {BESIDE}',
        ),
        (
            "tallymark[models]",
            {"url": "https://a.example/t.git", "vcs_info": {"vcs": "git", "commit_id": "12"}},
            f'"tallymark[models,semantic] @ git+https://a.example/t.git" {BESIDE}',
        ),
        (
            "tallymark[models]",
            {
                "url": "https://a.example/t.git",
                "vcs_info": {"vcs": "git", "commit_id": "12", "requested_revision": "v1"},
            },
            f'"tallymark[models,semantic] @ git+https://a.example/t.git@v1" {BESIDE}',
        ),
        ("tallymark[models]", None, f'"tallymark[models,semantic]" {BESIDE}'),
        ("deepeval", None, f'"tallymark[semantic]" {BESIDE} --with "deepeval"'),
    ],
)
def test_a_tool_of_uv_keeps_what_it_had(
    environment: Path,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    told: dict[str, object] | None,
    said: str,
) -> None:
    (environment / "uv-receipt.toml").write_text(RECEIPT)
    come_from(monkeypatch, told)
    assert explain_install(package) == f"install it with: uv tool install {said}"
