"""Whether a server can do its work: the database, the sandbox, workers and room on the disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallymark.errors import TallymarkError
from tallymark.sandbox.policy import choose_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tallymark.app.service import Service

WITHOUT_VARIABLE = "TALLY_READY_WITHOUT"
FREE_VARIABLE = "TALLY_MIN_FREE_MB"
_FREE_MB = 100


@dataclass(frozen=True, slots=True)
class Part:
    """One of the things that it takes."""

    name: str
    state: str
    """ok, off or elsewhere; else what is wrong, for anybody to read."""
    hint: str | None = None
    """What to do."""
    detail: str = ""
    """For the log alone: it may name paths and addresses."""

    @property
    def fails(self) -> bool:
        """Whether the server cannot work as it should."""
        return self.hint is not None


def find_parts(service: Service) -> list[Part]:
    """All of them, as they are now."""
    looks: tuple[Callable[[Service], Part], ...]
    looks = (_look_at_database, _look_at_sandbox, _look_at_workers, _look_at_disk)
    without = {each.strip() for each in os.environ.get(WITHOUT_VARIABLE, "").split(",")}
    found = [look(service) for look in looks]
    return [Part(each.name, "off") if each.name in without else each for each in found]


def _look_at_database(service: Service) -> Part:
    store = service.app.store
    try:
        if service.own and not store.exists:
            return Part("database", "ok")  # the first write makes it
        store.check()
    except TallymarkError as error:
        said = "it cannot be read or written"
        return Part("database", said, "see the log; bring the database back", str(error))
    return Part("database", "ok")


def _look_at_sandbox(service: Service) -> Part:
    if service.settings.policy is not None:
        return Part("sandbox", "off")  # by --insecure-local
    try:
        choose_policy()
    except TallymarkError as error:
        hint = f"run tally doctor there, or set {WITHOUT_VARIABLE}=sandbox to do without"
        return Part("sandbox", "none works on this machine", hint, str(error))
    return Part("sandbox", "ok")


def _look_at_workers(service: Service) -> Part:
    if not service.settings.workers:
        return Part("workers", "elsewhere")
    if service.own and not service.app.store.exists:
        return Part("workers", "ok")
    if not service.workers.is_alive:
        return Part("workers", "they have stopped looking for jobs", "start the server again")
    return Part("workers", "ok")


def _look_at_disk(service: Service) -> Part:
    least = read_least_free(os.environ)
    for name, free in measure_disks(service):
        if free < least:
            hint = "make room; tally admin prune removes what is old"
            detail = f"{name} has {free:,} bytes free, of {least:,} at least"
            return Part("disk", "it is nearly full", hint, detail)
    return Part("disk", "ok")


def read_least_free(environment: Mapping[str, str]) -> int:
    """Bytes that must be free; what is no number is the usual."""
    text = environment.get(FREE_VARIABLE, "")
    return (int(text) if text.isdigit() else _FREE_MB) * 1_000_000


def measure_disks(service: Service) -> Iterator[tuple[str, int]]:
    """How many bytes are free where the database is, if that is a file, and for temporary ones."""
    path: Path | None = service.app.store.folder
    for name, folder in (("database", path), ("temporary", tempfile.gettempdir())):
        if folder is not None:
            try:
                yield name, shutil.disk_usage(folder).free
            except OSError:  # a folder that is not there yet
                continue
