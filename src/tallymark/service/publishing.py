"""Publishing of challenges: files are checked, then become a version that counts."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tallymark.challenges.challenge_check import check_challenge
from tallymark.challenges.challenge_file import NAMES, load_challenge
from tallymark.challenges.challenge_folder import pack_files, read_packed, write_files
from tallymark.errors import InvalidInput, NotReady, Problem
from tallymark.models.egress_policy import limit_egress
from tallymark.store.contests.audit_log import check_reason

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge, Visibility
    from tallymark.challenges.challenge_report import ChallengeReport
    from tallymark.service.tenant import TenantServices


def check_files(services: TenantServices, files: Mapping[str, bytes]) -> ChallengeReport:
    """Check files as `tally challenge check` does a folder."""
    with lay_out(files) as folder:
        report = _check(services, folder)
        here = f"{folder}/"
        findings = tuple(
            msgspec.structs.replace(
                each, detail=each.detail.replace(here, "").replace(str(folder), "the folder")
            )
            for each in report.findings
        )
    return msgspec.structs.replace(report, folder="", findings=findings)


def publish_files(
    services: TenantServices, files: Mapping[str, bytes], *, force: bool, based_on: str | None
) -> Challenge:
    """Publish files as a version of their challenge, unless a check fails.

    `based_on` is that of the store's `Challenges.publish`: it prevents lost updates.
    """
    with lay_out(files) as folder, limit_egress(services.find_egress()):
        challenge = load_challenge(folder)
        if not force:
            report = _check(services, folder)
            if not report.ok:
                raise NotReady(Problem(f"{each.what}: {each.detail}") for each in report.problems)
    if based_on == challenge.version:
        raise InvalidInput(f"{challenge.name} is published with these files already")
    packed, at = pack_files(files), services.now
    services.store.challenges.publish(challenge, packed, at=at, based_on=based_on)
    return challenge


def change_visibility(
    services: TenantServices, name: str, visibility: Visibility, reason: str
) -> None:
    """Show a challenge to everybody, or to those with a key. Scores stay as they are."""
    old = services.store.challenges.get(name)
    if old.visibility == visibility:
        return
    files = _write_visibility(read_files(services, old), visibility)
    # Of the old version and the change, as in rescoring: the files may have another rule.
    version = hashlib.sha256(f"{old.version} {visibility}".encode()).hexdigest()
    new = msgspec.structs.replace(old, visibility=visibility, version=version)
    note = {"visibility": visibility, "reason": check_reason(reason)}
    services.store.challenges.publish(
        new, pack_files(files), at=services.now, based_on=old.version, note=note
    )


def read_files(services: TenantServices, challenge: Challenge) -> dict[str, bytes]:
    """Read the files that a version was published with."""
    packed = services.store.challenges.packed(challenge.name, challenge.version)
    return read_packed(packed) if packed else {}


def find_drift(services: TenantServices, challenge: Challenge) -> list[str]:
    """Fields that a rescoring changed from the version's files."""
    written = _load_files(read_files(services, challenge))
    if written is None:  # by a version of Tallymark with other keys
        return []
    names = (name for name in challenge.__struct_fields__ if name != "version")
    return [name for name in names if getattr(written, name) != getattr(challenge, name)]


def _check(services: TenantServices, folder: Path) -> ChallengeReport:
    settings = services.settings
    with limit_egress(services.find_egress()):
        return check_challenge(folder, policy=settings.policy, judge_model=settings.judge_model)


def _write_visibility(files: dict[str, bytes], visibility: Visibility) -> dict[str, bytes]:
    """The files with another visibility in the challenge file; unchanged if it has none.

    The definition counts; the files are for later editing.
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
    """Read a challenge from files without a folder; None if unreadable."""
    with tempfile.TemporaryDirectory(prefix="tally-files-") as scratch:
        try:
            write_files(files, Path(scratch))
            return load_challenge(Path(scratch))
        except InvalidInput:
            return None


@contextmanager
def lay_out(files: Mapping[str, bytes]) -> Iterator[Path]:
    """Write files into a folder for a while; mistakes name them as the sender knows them."""
    with tempfile.TemporaryDirectory(prefix="tally-sent-") as scratch:
        folder = Path(scratch) / "challenge"
        write_files(files, folder)
        with _name_places(folder):
            yield folder


@contextmanager
def _name_places(folder: Path) -> Iterator[None]:
    """Name files in messages as the sender knows them."""
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
