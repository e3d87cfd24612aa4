"""`Publishing`: challenges and tracks that are sent to a server, checked before they are seen."""

from __future__ import annotations

import hashlib
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.challenge_check import check_challenge
from tallymark.challenges.challenge_file import NAMES, load_challenge
from tallymark.challenges.challenge_folder import pack, pack_files, read_packed, write_files
from tallymark.errors import InvalidInput, NotReady, Problem
from tallymark.models.reach import limit_reach
from tallymark.store.contests.audit_log import check_reason
from tallymark.store.contests.challenges import StoredChallenge

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge, Visibility
    from tallymark.challenges.challenge_check.challenge_report import ChallengeReport
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

    def check(self, folder: Path) -> ChallengeReport:
        """Everything that `tally challenge check` says of a folder."""
        with limit_reach(self._find_reach()):
            report = check_challenge(folder, policy=self._policy, judge_model=self._judge_model)
        here = f"{folder}/"
        told = tuple(
            replace(each, detail=each.detail.replace(here, "").replace(str(folder), "the folder"))
            for each in report.findings
        )
        return replace(report, folder="", findings=told)

    def publish(
        self,
        folder: Path,
        *,
        validate_only: bool = False,
        force: bool = False,
        based_on: str | None = None,
    ) -> StoredChallenge:
        """Makes a folder a version of its challenge, unless its check says that it is not ready.

        `based_on` is as `Challenges.publish` says: what others have done meanwhile is not undone.
        """
        with limit_reach(self._find_reach()), name_places(folder):
            challenge = load_challenge(folder)
            if not force:
                self._require_ready(folder)
        at = self._clock()
        if validate_only:
            state = dict.fromkeys(("frozen_at", "closed_at", "held_at", "unfrozen_at"))
            return StoredChallenge(0, self._store.tenant, 0, 0, **state, challenge=challenge)
        if based_on == challenge.version:
            raise InvalidInput(f"{challenge.name} is published with these files already")
        self._store.challenges.publish(challenge, pack(folder), at=at, based_on=based_on)
        return self._store.challenges.find(challenge.name)

    def show_to(self, name: str, visibility: Visibility, reason: str) -> StoredChallenge:
        """Says who may see a challenge: anybody, or those with a key. Scores stay as they are."""
        kept = self._store.challenges.find(name)
        old = kept.challenge
        if old.visibility == visibility:
            return kept
        files = _change_visibility(self.read_files(old), visibility)
        # Of what it was and what it becomes, as rescoring does: the files may say another rule.
        version = hashlib.sha256(f"{old.version} {visibility}".encode()).hexdigest()
        new = msgspec.structs.replace(old, visibility=visibility, version=version)
        note = {"visibility": visibility, "reason": check_reason(reason)}
        packed = pack_files(files)
        self._store.challenges.publish(
            new, packed, at=self._clock(), based_on=old.version, note=note
        )
        return self._store.challenges.find(name)

    def read_files(self, challenge: Challenge) -> dict[str, bytes]:
        """The files that a version was published with."""
        packed = self._store.challenges.packed(challenge.name, challenge.version)
        return read_packed(packed) if packed else {}

    def find_drift(self, challenge: Challenge) -> list[str]:
        """What counts otherwise than the version's files say: by a rescoring, since they came."""
        written = _load_files(self.read_files(challenge))
        if written is None:  # by a version of ours that knew other keys
            return []
        names = (name for name in challenge.__struct_fields__ if name != "version")
        return [name for name in names if getattr(written, name) != getattr(challenge, name)]

    def _require_ready(self, folder: Path) -> None:
        report = check_challenge(folder, policy=self._policy, judge_model=self._judge_model)
        if not report.ok:
            raise NotReady(Problem(f"{each.what}: {each.detail}") for each in report.problems)

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


def _change_visibility(files: dict[str, bytes], visibility: Visibility) -> dict[str, bytes]:
    """The files with another visibility in the challenge's own; as they were where it has none.

    What counts is the definition; this is for whoever edits the files next.
    """
    name = next((each for each in NAMES if each in files), "")
    text = files.get(name, b"").decode("utf-8", "replace")
    said = f"visibility: {visibility}"
    # Nothing but a key of the document itself begins at the margin.
    text, found = re.subn(r"^visibility[ \t]*:.*$", said, text, count=1, flags=re.MULTILINE)
    if not found:
        text = f"{text.rstrip()}\n{said}\n"
    changed = {**files, name: text.encode()}
    read = _load_files(changed)
    return files if read is None or read.visibility != visibility else changed


def _load_files(files: Mapping[str, bytes]) -> Challenge | None:
    """What files say that lie in no folder; None where they say nothing that can be read."""
    with tempfile.TemporaryDirectory(prefix="tally-files-") as scratch:
        try:
            write_files(files, Path(scratch))
            return load_challenge(Path(scratch))
        except InvalidInput:
            return None


@contextmanager
def name_places(folder: Path) -> Iterator[None]:
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
        kind = NotReady if isinstance(error, NotReady) else InvalidInput
        raise kind(parts) from None
