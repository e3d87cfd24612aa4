"""The unit, the compose file and the alert rules name what there is."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from tests.cli.tally_process import Tally
from tests.http.test_health import GAUGES

from tallymark.service.environment_variables import VARIABLES
from tallymark.service.metrics import Metrics
from tallymark.service.workers import KINDS

FOLDER = Path(__file__).parents[2] / "examples" / "operations"
FROM_JOBS = {"tally_jobs", "tally_job_oldest_seconds", "tally_job_waiting_seconds"}
"""These have no samples where no job waits."""


def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def read_rules() -> list[Any]:
    (group,) = read("alerts.yaml")["groups"]
    return list(group["rules"])


@pytest.mark.parametrize("rule", read_rules(), ids=lambda rule: rule["alert"])
def test_alerts_ask_for_metrics_that_there_are(rule: Any) -> None:
    text = Metrics().render().decode()
    known = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)) | GAUGES | FROM_JOBS | {"up"}
    asked = set(re.findall(r"\b(?:tally|process)_\w+|\bup\b", rule["expr"]))
    assert asked
    assert asked <= known
    assert set(re.findall(r'kind="(\w+)"', rule["expr"])) <= {*KINDS, "waiting"}
    assert rule["annotations"]["summary"]


def list_commands() -> list[list[str]]:
    unit = (FOLDER / "tally.service").read_text(encoding="utf-8")
    commands = [shlex.split(each) for each in re.findall(r"^ExecStart=(.+)", unit, re.MULTILINE)]
    services = read("compose.yaml")["services"].values()
    return [*commands, *(each["command"] for each in services if "command" in each)]


@pytest.mark.parametrize("command", list_commands(), ids=" ".join)
def test_commands_have_the_options_that_they_are_given(command: list[str], tmp_path: Path) -> None:
    assert Path(command[0]).name == "tally"
    shown = Tally(tmp_path)(command[1], "--help").stdout
    options = {each for each in command[2:] if each.startswith("--")}
    assert options <= set(re.findall(r"--[a-z-]+", shown))


def test_variables_are_known() -> None:
    known = {each.name for each in VARIABLES}
    for name in ("tally.service", "compose.yaml"):
        text = (FOLDER / name).read_text(encoding="utf-8")
        assert set(re.findall(r"\bTALLY_[A-Z_]+\b", text)) <= known


def test_there_is_time_to_stop() -> None:
    unit = (FOLDER / "tally.service").read_text(encoding="utf-8")
    assert int(re.findall(r"TimeoutStopSec=(\d+)", unit)[0]) >= 10
    for service in ("server", "worker"):
        assert read("compose.yaml")["services"][service]["stop_grace_period"] == "15s"
