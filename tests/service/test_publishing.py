"""Challenges that are sent: checked, published by one at a time, shown or hidden."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.contest_samples import quick_store

from tallymark.challenges.challenge import Visibility
from tallymark.challenges.challenge_folder import pack, write_files
from tallymark.challenges.challenge_starters import read_starter
from tallymark.errors import Conflict, InvalidInput
from tallymark.service.challenges import Challenges
from tallymark.service.resources import Resources
from tallymark.store import Store


@pytest.fixture
def contests(tmp_path: Path) -> Iterator[Store]:
    with quick_store(f"sqlite:///{tmp_path / 'tally.db'}") as store:
        yield store


@pytest.fixture
def challenges(contests: Store) -> Challenges:
    return Resources.over(contests, clock=lambda: 100.0).challenges


def write(folder: Path, **changes: str) -> bytes:
    """A challenge of reported attempts; it takes no sandbox to check one."""
    files = read_starter("reported", "mine") | changes
    write_files({name: text.encode() for name, text in files.items()}, folder)
    return pack(folder)


def change(text: str) -> str:
    return f"{read_starter('reported', 'mine')['challenge.yaml']}{text}\n"


def test_a_check_tells_every_mistake_by_the_names_that_the_sender_knows(
    challenges: Challenges, tmp_path: Path
) -> None:
    wrong = "name: mine\ngoul: x\ntime_limit: never\nevaluator: {type: reported}\n"
    report = challenges.check(write(tmp_path / "a", **{"challenge.yaml": wrong}))
    assert not report.ok
    told = [each.detail for each in report.problems]
    assert len(told) >= 2
    assert any(each.startswith("challenge.yaml:2:1: ") for each in told)
    assert str(tmp_path) not in "".join(told)


def test_who_publishes_what_another_has_changed_meanwhile_is_refused(
    challenges: Challenges, tmp_path: Path
) -> None:
    first = challenges.publish(write(tmp_path / "a"), based_on="")
    mine = write(tmp_path / "b", **{"challenge.yaml": change("title: Mine")})
    theirs = write(tmp_path / "c", **{"challenge.yaml": change("title: Theirs")})
    challenges.publish(theirs, based_on=first.version)
    with pytest.raises(Conflict, match="'mine' has been published since"):
        challenges.publish(mine, based_on=first.version)
    with pytest.raises(Conflict, match="there is a challenge 'mine' already"):
        challenges.publish(mine, based_on="")
    assert challenges.publish(mine).title == "Mine"


def test_a_challenge_keeps_its_name_and_the_same_files_are_no_version(
    challenges: Challenges, tmp_path: Path
) -> None:
    first = challenges.publish(write(tmp_path / "a"))
    other = read_starter("reported", "other")["challenge.yaml"]
    with pytest.raises(Conflict, match="create a new challenge"):
        challenges.publish(
            write(tmp_path / "b", **{"challenge.yaml": other}), based_on=first.version
        )
    with pytest.raises(InvalidInput, match="these files already"):
        challenges.publish(pack(tmp_path / "a"), based_on=first.version)


@pytest.mark.parametrize(
    "text", ["", "visibility: private", "visibility : public # now", "tags: {visibility: x}"]
)
def test_who_may_see_it_is_changed_in_its_definition_and_in_its_files(
    challenges: Challenges, contests: Store, tmp_path: Path, text: str
) -> None:
    if text.startswith("tags"):
        text = "x-tags: {visibility: x}"
    challenges.publish(write(tmp_path / "a", **{"challenge.yaml": change(text)}), force=True)
    both: tuple[Visibility, ...] = ("public", "private")
    for visibility in both:
        shown = challenges.change("mine", "the day has come", visibility=visibility)
        assert shown.visibility == visibility
        assert challenges.files("mine").drift == []
    entry = contests.audit_log.entries(challenge="mine", event="published")[0]
    assert entry.note == {"visibility": "private", "reason": "the day has come"}


PLUGIN = """
from services.challenge_scorer_protocol import ScoringResult

class Mine:
    def score(self, metrics, config, ctx):
        return ScoringResult(score=700.0 if metrics.get("succeeded") else 0.0)
"""


@pytest.mark.parametrize("own", [False, True], ids=["ours", "its own"])
def test_a_plugin_of_the_plugin_document_is_published_unchanged(
    challenges: Challenges, tmp_path: Path, *, own: bool
) -> None:
    starter = read_starter("reported", "mine")["challenge.yaml"]
    text = (
        starter.partition("scoring:")[0] + "scoring: {strategy: custom, plugin: 'mine.py:Mine'}\n"
    )
    files = {"challenge.yaml": text + "reference: reference.json\n", "mine.py": PLUGIN}
    if own:
        types = "class ScoringResult(dict):\n    pass\n"
        files["services/challenge_scorer_protocol.py"] = types
    report = challenges.check(write(tmp_path / "a", **files))
    assert report.ok, report.problems
    assert challenges.publish(pack(tmp_path / "a"), based_on="").name == "mine"


def test_no_reason_no_change(challenges: Challenges, tmp_path: Path) -> None:
    challenges.publish(write(tmp_path / "a"))
    with pytest.raises(InvalidInput, match="needs a reason"):
        challenges.change("mine", "  ", visibility="public")


def test_a_rule_that_was_changed_by_rescoring_drifts_from_the_files(
    challenges: Challenges, contests: Store, tmp_path: Path
) -> None:
    from tallymark.service.competition import Competition

    challenges.publish(write(tmp_path / "a"))
    games = Competition(contests, clock=lambda: 200.0)
    games.rescore("mine", apply=True, formula="succeeded * 2", strategy="custom")
    games.close()
    shown = challenges.change("mine", "shown", visibility="public")
    assert challenges.files("mine").drift == ["scoring"]
    assert shown.scoring.formula == "succeeded * 2"
