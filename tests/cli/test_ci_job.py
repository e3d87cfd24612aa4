"""The action of GitHub and the template of GitLab, their scripts run as either would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from tests.container_file import copy_sources
from tests.models.provider_server import ProviderServer
from tests.service.test_pull_requests import Forge, forge

__all__ = ["forge"]
ROOT = Path(__file__).parents[2]
CASES = 12
SUITE = "metadata: {name: smoke, model: replay/answers.jsonl}\nevals:\n" + "".join(
    f'  - {{name: greets-{n}, prompt: Say hello {n}., checks: [{{match: "*hello*"}}]}}\n'
    for n in range(CASES)
)
HELLO, RUDE = (
    "".join(f'{{"prompt": "Say hello {n}.", "output": "{word}"}}\n' for n in range(CASES))
    for word in ("hello", "go away")
)


def read_script(kind: str) -> str:
    """What runs the suite there."""
    if kind == "github":
        action = yaml.safe_load((ROOT / "action.yml").read_text())
        script: str = action["runs"]["steps"][-1]["run"]
        return script
    (script,) = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text())[".tallymark"]["script"]
    return script


def read_install(kind: str) -> str:
    """What installs Tallymark there."""
    if kind == "github":
        steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
        (script,) = [each["run"] for each in steps[:-1] if "run" in each]
    else:
        template = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text())[".tallymark"]
        (script,) = template["before_script"]
    return str(script)


def install(kind: str, source: Path, programs: Path, folder: Path) -> None:
    """Runs that, with the `pip` of a folder, for a checkout of ours."""
    known = {"GITHUB_ACTION_PATH": str(source), "TALLY_SOURCE": source.as_uri()}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash" if kind == "github" else "sh", "-e", "-c", read_install(kind)],
        cwd=folder,
        env=read_variables(kind) | known | {"PATH": path, "HOME": str(folder)},
        check=True,
    )


def make_repository(folder: Path) -> Path:
    """A clone of ours as a job finds it."""
    folder.mkdir()
    copy_sources(folder)
    words = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], [*words, "commit", "-qm", "all"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def read_variables(kind: str) -> dict[str, str]:
    """What is set where nothing is said."""
    if kind == "github":
        inputs = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
        step = {
            name.upper().replace("-", "_"): str(each.get("default", ""))
            for name, each in inputs.items()
        }
        return {**step, "BASE": "main", "GITHUB_TOKEN": "word", "TALLY_SERVER": "", "TALLY_KEY": ""}
    found: dict[str, str] = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text())[".tallymark"][
        "variables"
    ]
    return {**found, "GITLAB_TOKEN": "word", "CI_DEFAULT_BRANCH": "main"}


def run_job(kind: str, forge: Forge, folder: Path, branch: str, **more: Any) -> Any:
    """A job for a branch: of a request to merge it into main, unless it is main."""
    event = folder / "event.json"
    asked = branch != "main"
    event.write_text('{"pull_request": {"number": 7}}' if asked else "{}")
    known = {
        "github": {
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_HEAD_REF": branch if asked else "",
            "GITHUB_REF_NAME": branch,
            "GITHUB_BASE_REF": "main" if asked else "",
            "GITHUB_SHA": "abc",
            "GITHUB_REPOSITORY": "us/agent",
            "GITHUB_API_URL": forge.url,
            "GITHUB_GRAPHQL_URL": f"{forge.url}/graphql",
            "GITHUB_STEP_SUMMARY": str(folder / "steps.md"),
        },
        "gitlab": {
            "GITLAB_CI": "true",
            "CI_COMMIT_REF_NAME": branch,
            "CI_COMMIT_SHA": "abc",
            "CI_PROJECT_ID": "42",
            "CI_API_V4_URL": forge.url,
        }
        | (
            {
                "CI_MERGE_REQUEST_IID": "7",
                "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": branch,
                "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            }
            if asked
            else {}
        ),
    }[kind]
    forge.kind = kind
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(folder), **read_variables(kind), **known, **more}
    return subprocess.run(
        ["bash" if kind == "github" else "sh", "-e", "-c", read_script(kind)],
        cwd=folder,
        env=environment | {"SUITE": "suite.yaml"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_pull_request_that_is_worse_is_told_so_in_one_comment_and_fails(
    kind: str, forge: Forge, tmp_path: Path
) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "answers.jsonl").write_text(HELLO)
    first = run_job(kind, forge, tmp_path, "main")
    assert first.returncode == 0, first.stderr
    assert "there is no run of smoke for the branch main yet" in first.stderr
    assert forge.comments == {}
    same = run_job(kind, forge, tmp_path, "warmer")
    assert same.returncode == 0, same.stderr
    assert forge.comments[1].startswith("<!-- tallymark: smoke -->\n### ⚠️ `smoke`: inconclusive")
    (tmp_path / "answers.jsonl").write_text(HELLO.replace(': "hello"', ': "off"', 1))
    unsure = run_job(kind, forge, tmp_path, "warmer")
    assert unsure.returncode == 1, unsure.stderr
    assert "### ❌ `smoke` may be worse than its base, or it is chance" in forge.comments[1]
    assert "**Inconclusive**: the score fell by 8.33" in forge.comments[1]
    (tmp_path / "answers.jsonl").write_text(RUDE)
    worse = run_job(kind, forge, tmp_path, "warmer")
    assert worse.returncode == 1, worse.stderr
    (comment,) = forge.comments.values()
    assert "### ❌ `smoke` is worse than its base" in comment
    # The score with its interval, by hand: all answers were right, now none is.
    assert "| Score | 100.00 | 0.00 | -100.00 |" in comment
    assert "95 % interval" in comment
    assert "- `greets-0`" in comment
    assert "- and 2 more" in comment
    if kind == "github":
        assert "`smoke`" in (tmp_path / "steps.md").read_text()


def test_what_stands_in_inputs_is_no_code(forge: Forge, tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "answers.jsonl").write_text(HELLO)
    hostile = {
        "MODEL": "$(touch broken)",
        "OPTIONS": "--quiet;touch broken",
        "BASE": "`touch broken`",
    }
    run_job("github", forge, tmp_path, "main", **hostile)
    assert not (tmp_path / "broken").exists()


def test_a_comment_that_cannot_be_written_changes_no_verdict(forge: Forge, tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "answers.jsonl").write_text(HELLO)
    done = run_job("github", forge, tmp_path, "warmer", GITHUB_TOKEN="another")
    assert done.returncode == 0
    assert "tally: the comment could not be written: it answered 401" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_job_installs_the_checkout_that_its_script_comes_from(kind: str, tmp_path: Path) -> None:
    """In the versions of its own constraints, and with what models of providers need."""
    programs = tmp_path / "bin"
    programs.mkdir()
    words = tmp_path / "words"
    copied = f'cat "$4" "${{5%[*}}/pyproject.toml" > {words}.read'
    (programs / "pip").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {words}\n{copied}\n')
    (programs / "pip").chmod(0o755)
    source = make_repository(tmp_path / "source")
    install(kind, source, programs, tmp_path)
    *first, pins, wanted = words.read_text().splitlines()
    assert first == ["install", "--quiet", "--constraint"]
    assert pins == f"{wanted.removesuffix('[models]')}/constraints.txt"
    read = (tmp_path / "words.read").read_text()
    assert (
        read == (source / "constraints.txt").read_text() + (source / "pyproject.toml").read_text()
    )


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_what_a_job_installs_asks_models_of_providers(
    kind: str, forge: Forge, tmp_path: Path
) -> None:
    programs = tmp_path / "venv" / "bin"
    subprocess.run([sys.executable, "-m", "venv", programs.parent], check=True)
    install(kind, make_repository(tmp_path / "source"), programs, tmp_path)
    (tmp_path / "suite.yaml").write_text("evals: [{prompt: hello, checks: [match: hello]}]")
    with ProviderServer() as server:
        done = run_job(
            kind,
            forge,
            tmp_path,
            "warmer",
            MODEL="openai/gpt-5-mini",
            OPENAI_API_KEY="none",
            OPENAI_BASE_URL=f"{server.url}/v1",
            PATH=f"{programs}{os.pathsep}{os.environ['PATH']}",
        )
        assert done.returncode == 0, done.stderr
        assert server.count["hello"] == 1
    assert len(forge.comments) == 1


def test_the_documented_jobs_say_only_what_the_scripts_take() -> None:
    page = (ROOT / "docs" / "ci.md").read_text()
    workflow, job = (
        yaml.safe_load(page.partition(f"```yaml {name}\n")[2].partition("```")[0])
        for name in (".github/workflows/evals.yml", ".gitlab-ci.yml")
    )
    inputs = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    (step,) = [each for each in workflow["jobs"]["evals"]["steps"] if "with" in each]
    assert {name for name, each in inputs.items() if each.get("required")} <= step["with"].keys()
    assert step["with"].keys() <= inputs.keys()
    # YAML reads `on` as true. `pull_request_target` would run strangers' code with our secrets.
    assert workflow[True].keys() == {"push", "pull_request"}
    assert job["evals"]["variables"].keys() <= read_variables("gitlab").keys()
    assert job["include"]["file"] == "ci/gitlab.yml"
