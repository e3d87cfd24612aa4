"""Every story says what it said. `make golden-update` shows and takes over what has changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.golden.corpus import Story, expected, stories, topics
from tests.golden.stage import Stage, opened
from tests.golden.update import difference


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    with opened() as ready:
        yield ready


@pytest.mark.parametrize("story", stories(), ids=str)
def test_a_story_says_what_it_said(story: Story, stage: Stage) -> None:
    before, now = expected(story.topic).get(story.name, ""), stage.play(story)
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
