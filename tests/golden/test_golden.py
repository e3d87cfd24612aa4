"""Every story says what it said. `make golden-update` shows and takes over what has changed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.golden.corpus import Story, expected, stories, topics
from tests.golden.masks import MASKS, TODAY
from tests.golden.stage import Stage, opened, shared_zygote
from tests.golden.update import difference
from tests.golden.zygote import Call, Outcome

KILLED = "the sandbox could not be set up: it ended with code 137"
"""Something on the machine killed a sandbox before its program began."""
STARTED = {
    "errors-formulas: as JSON",
    "errors-suites: several mistakes at once",
    "errors-traces: not JSON on the third line",
    "errors-usage: init and validate",
    "example-challenges: bean-counter is checked",
    "help: tally",
    "python: dimensions",
    "python: gates",
    "runs: schema",
    "runs: sums are exact",
}
"""Stories that show no times, so that they are the same whatever a clock says."""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with opened(shared_zygote()) as ready:
        yield ready


@pytest.mark.parametrize("story", stories(), ids=str)
def test_a_story_says_what_it_said(story: Story, stage: Stage) -> None:
    now = stage.play(story)
    if KILLED in now and KILLED not in expected(story.topic).get(story.name, ""):
        now = stage.play(story)  # what happens on the machine is none of the command's words
    compare(story, now)


@pytest.mark.parametrize("story", [each for each in stories() if str(each) in STARTED], ids=str)
def test_a_command_that_users_start_says_the_same(story: Story, stage: Stage) -> None:
    """The zygote is no more than a quick way to start `tally`."""
    compare(story, replace(stage, command=start, masks=MASKS + TODAY).play(story))


def start(call: Call) -> Outcome:
    """The installed script, or Python, in a process of its own."""
    program = Path(sys.executable).with_name("tally") if call.argv[0] == "tally" else sys.executable
    done = subprocess.run(
        [program, *call.argv[1:]],
        cwd=call.cwd,
        env=call.env,
        input=call.stdin,
        text=True,
        capture_output=True,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def compare(story: Story, now: str) -> None:
    before = expected(story.topic).get(story.name, "")
    if now != before:
        said = difference(story.topic, story.name, before, now)
        pytest.fail("\n".join([*said, "", "if it should be so: make golden-update"]), pytrace=False)


def test_nothing_is_expected_of_a_story_that_is_gone() -> None:
    told = {(story.topic, story.name) for story in stories()}
    kept = {(topic, name) for topic in topics() for name in expected(topic)}
    assert kept <= told, "make golden-update removes them"


def test_no_two_stories_have_one_name() -> None:
    told = [(story.topic, story.name) for story in stories()]
    assert len(told) == len(set(told))
