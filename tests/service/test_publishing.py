"""Challenges that are sent: checked, published by one at a time, shown to whom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.contest_samples import quick_store

from tallymark.challenges.challenge_folder import write_files
from tallymark.challenges.challenge_starters import read_starter
from tallymark.errors import Conflict, InvalidInput
from tallymark.service.publishing import Publishing
from tallymark.store import Store


@pytest.fixture
def contests(tmp_path: Path) -> Iterator[Store]:
    with quick_store(f"sqlite:///{tmp_path / 'tally.db'}") as store:
        yield store


@pytest.fixture
def publishing(contests: Store) -> Publishing:
    return Publishing(contests, clock=lambda: 100.0)


def write(folder: Path, **changes: str) -> Path:
    """A challenge of reported attempts; it takes no sandbox to check one."""
    files = read_starter("reported", "mine") | changes
    write_files({name: text.encode() for name, text in files.items()}, folder)
    return folder


def change(text: str) -> str:
    return f"{read_starter('reported', 'mine')['challenge.yaml']}{text}\n"


def test_a_check_tells_every_mistake_by_the_names_that_the_sender_knows(
    publishing: Publishing, tmp_path: Path
) -> None:
    wrong = "name: mine\ngoul: x\ntime_limit: never\nevaluator: {type: reported}\n"
    report = publishing.check(write(tmp_path / "a", **{"challenge.yaml": wrong}))
    assert not report.ok
    told = [each.detail for each in report.problems]
    assert len(told) >= 2
    assert any(each.startswith("challenge.yaml:2:1: ") for each in told)
    assert str(tmp_path) not in "".join(told)


def test_who_publishes_what_another_has_changed_meanwhile_is_refused(
    publishing: Publishing, tmp_path: Path
) -> None:
    first = publishing.publish(write(tmp_path / "a"), based_on="").challenge
    mine = write(tmp_path / "b", **{"challenge.yaml": change("title: Mine")})
    theirs = write(tmp_path / "c", **{"challenge.yaml": change("title: Theirs")})
    publishing.publish(theirs, based_on=first.version)
    with pytest.raises(Conflict, match="somebody has published 'mine' since"):
        publishing.publish(mine, based_on=first.version)
    with pytest.raises(Conflict, match="there is a challenge 'mine' already"):
        publishing.publish(mine, based_on="")
    assert publishing.publish(mine).challenge.title == "Mine"


def test_a_challenge_keeps_its_name_and_the_same_files_are_no_version(
    publishing: Publishing, tmp_path: Path
) -> None:
    first = publishing.publish(write(tmp_path / "a")).challenge
    other = read_starter("reported", "other")["challenge.yaml"]
    with pytest.raises(Conflict, match="keeps its name"):
        publishing.publish(
            write(tmp_path / "b", **{"challenge.yaml": other}), based_on=first.version
        )
    with pytest.raises(InvalidInput, match="these files already"):
        publishing.publish(tmp_path / "a", based_on=first.version)


@pytest.mark.parametrize(
    "text", ["", "visibility: private", "visibility : public # now", "tags: {visibility: x}"]
)
def test_who_may_see_it_is_changed_in_its_definition_and_in_its_files(
    publishing: Publishing, contests: Store, tmp_path: Path, text: str
) -> None:
    if text.startswith("tags"):
        text = "x-tags: {visibility: x}"
    publishing.publish(write(tmp_path / "a", **{"challenge.yaml": change(text)}), force=True)
    for visibility in ("public", "private"):
        kept = publishing.show_to("mine", visibility, "the day has come")
        assert kept.challenge.visibility == visibility
        assert publishing.find_drift(kept.challenge) == []
    entry = contests.audit_log.entries(challenge="mine", event="published")[0]
    assert entry.note == {"visibility": "private", "reason": "the day has come"}


def test_no_reason_no_change(publishing: Publishing, tmp_path: Path) -> None:
    publishing.publish(write(tmp_path / "a"))
    with pytest.raises(InvalidInput, match="needs a reason"):
        publishing.show_to("mine", "public", "  ")


def test_a_rule_that_was_changed_by_rescoring_drifts_from_the_files(
    publishing: Publishing, contests: Store, tmp_path: Path
) -> None:
    from tallymark.service.competition import Competition

    publishing.publish(write(tmp_path / "a"))
    games = Competition(contests, clock=lambda: 200.0)
    games.rescore("mine", apply=True, formula="succeeded * 2", strategy="custom")
    games.close()
    shown = publishing.show_to("mine", "public", "shown").challenge
    assert publishing.find_drift(shown) == ["scoring"]
    assert shown.scoring.formula == "succeeded * 2"
