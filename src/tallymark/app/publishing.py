"""`Publishing`: challenges and tracks that are sent to a server, checked before they are seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.challenge_check import check_challenge
from tallymark.challenges.challenge_file import load_challenge
from tallymark.challenges.challenge_folder import pack
from tallymark.challenges.tracks import Track, read_track
from tallymark.documents.source import Source
from tallymark.errors import InvalidInput, Problem
from tallymark.models.reach import limit_reach
from tallymark.store.contests.challenges import StoredChallenge

if TYPE_CHECKING:
    from tallymark.models.reach import Reach
    from tallymark.sandbox import Policy
    from tallymark.store import Store

FILE = "challenge.yaml"


class Publishing:
    """What organisers do through a server."""

    def __init__(
        self,
        store: Store,
        *,
        policy: Policy | None = None,
        judge_model: str | None = None,
        clock: Callable[[], float] = time.time,
        find_reach: Callable[[], Reach | None] = lambda: None,
    ) -> None:
        """`find_reach` says what models may use that a challenge names."""
        self._store = store
        self._find_reach = find_reach
        self._policy = policy
        self._judge_model = judge_model
        self._clock = clock

    def publish(
        self, folder: Path, *, validate_only: bool = False, force: bool = False
    ) -> StoredChallenge:
        """Makes a folder a version of its challenge, unless its check says that it is not ready."""
        with limit_reach(self._find_reach()), _name_places(folder):
            challenge = load_challenge(folder)
            if not force:
                self._require_ready(folder)
        at = self._clock()
        if validate_only:
            state = dict.fromkeys(("frozen_at", "closed_at", "held_at", "unfrozen_at"))
            return StoredChallenge(0, self._store.tenant, 0, **state, challenge=challenge)
        self._store.challenges.publish(challenge, pack(folder), at=at)
        return self._store.challenges.find(challenge.name)

    def _require_ready(self, folder: Path) -> None:
        report = check_challenge(folder, policy=self._policy, judge_model=self._judge_model)
        if not report.ok:
            raise InvalidInput(Problem(f"{each.what}: {each.detail}") for each in report.problems)

    def write_reported(self, folder: Path, given: Mapping[str, Any]) -> None:
        """The folder of a challenge of reported attempts, as the plugin document sets one up."""
        plugin = given["scoring_entrypoint"] or given["scoring_plugin_id"]
        scoring = {
            "strategy": given["scoring_strategy"],
            "plugin": plugin,
            "formula": given["scoring_formula"],
            "config": given["scoring_config"] or None,
        }
        metrics = {"metrics": given["metrics"]} if given["metrics"] else {}
        names = ("name", "title", "goal", "difficulty", "visibility")
        document = {
            **{name: given[name] for name in (*names, "attempts", "attempts_per_day")},
            "evaluator": {"type": "reported", **metrics},
            "scoring": {key: value for key, value in scoring.items() if value is not None},
        }
        folder.mkdir(parents=True)
        said = {key: value for key, value in document.items() if value is not None}
        # JSON is YAML, and quotes whatever could be misread.
        (folder / FILE).write_bytes(msgspec.json.encode(said))

    def read_track(self, given: Mapping[str, Any]) -> Track:
        """A track from its fields, read as its file would be."""
        return read_track(Source(msgspec.json.encode(given).decode(), "track"))


@contextmanager
def _name_places(folder: Path) -> Iterator[None]:
    """Mistakes are told by the names that the sender knows, not by where we laid the files out."""
    try:
        yield
    except InvalidInput as error:
        here = f"{folder}/"
        parts = []
        for each in error.problems:
            place = each.place
            if place is not None and place.source is not None:
                place = replace(place, source=place.source.removeprefix(here))
            parts.append(replace(each, message=each.message.replace(here, ""), place=place))
        raise InvalidInput(parts) from None
