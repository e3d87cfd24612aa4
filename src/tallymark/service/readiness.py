"""Readiness of a server: database, sandbox, workers and disk space."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tallymark.abandonable_calls import call_in_thread
from tallymark.errors import TallymarkError
from tallymark.sandbox.policy import choose_policy
from tallymark.store.engines import limit_statements
from tallymark.store.schema import SchemaChanged
from tallymark.text import format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tallymark.service.service import Service

WITHOUT_VARIABLE = "TALLY_READY_WITHOUT"
FREE_VARIABLE = "TALLY_MIN_FREE_MB"
_FREE_MB = 100
DEADLINES_S = {"database": 3.0, "sandbox": 10.0, "workers": 3.0, "disk": 3.0}
"""Time limit of a check. The first check of a sandbox starts one."""
_FRESH_S = 1.0


@dataclass(frozen=True, slots=True)
class Part:
    """One of the things that it takes."""

    name: str
    state: str
    """ok, off or elsewhere; else what is wrong, for anybody to read."""
    hint: str | None = None
    """Suggested action."""
    detail: str = ""
    """For the log alone: it may name paths and addresses."""

    @property
    def fails(self) -> bool:
        """True if the server cannot work as it should."""
        return self.hint is not None


class Readiness:
    """Checks of a server's requirements, on demand.

    They run in their own threads, so that requests waiting for a database do not delay the report
    that it does not answer.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._looks: dict[str, asyncio.Task[Part]] = {}
        """Checks in progress: concurrent callers get their result."""
        self._written = -math.inf
        """Time of the last test write: anyone may ask often, and writing is costly."""

    def forget(self) -> None:
        """Run all checks."""
        self._written = -math.inf

    async def find_parts(self) -> list[Part]:
        """All of them, as they are now."""
        without = {each.strip() for each in os.environ.get(WITHOUT_VARIABLE, "").split(",")}
        found = await asyncio.gather(*(self._look(name) for name in _LOOKS))
        return [Part(each.name, "off") if each.name in without else each for each in found]

    async def _look(self, name: str) -> Part:
        if name == "database" and time.monotonic() - self._written < _FRESH_S:
            return Part(name, "ok")
        look = self._looks.get(name)
        if look is None or look.done() or look.get_loop() is not asyncio.get_running_loop():
            work = call_in_thread(partial(_LOOKS[name], self._service))
            look = self._looks[name] = asyncio.create_task(work)
        done, _ = await asyncio.wait({look}, timeout=DEADLINES_S[name])
        if not done:
            said = f"no answer within {format_seconds(DEADLINES_S[name])}"
            return Part(name, said, "check what blocks it", said)
        found = look.result()
        if name == "database" and not found.fails:
            self._written = time.monotonic()
        return found


def _look_at_database(service: Service) -> Part:
    store = service.app.store
    try:
        if service.own and not store.exists:
            return Part("database", "ok")  # the first write makes it
        with limit_statements(DEADLINES_S["database"]):
            store.check()
    except SchemaChanged as error:
        said = "another version of Tallymark changed the tables"
        return Part("database", said, "end this server and start that version", str(error))
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
            hint = "make room on that disk; what is pruned leaves an SQLite file as large as it was"
            detail = f"{name} has {free:,} bytes free, of {least:,} at least"
            return Part("disk", "it is nearly full", hint, detail)
    return Part("disk", "ok")


_LOOKS: dict[str, Callable[[Service], Part]] = {
    "database": _look_at_database,
    "sandbox": _look_at_sandbox,
    "workers": _look_at_workers,
    "disk": _look_at_disk,
}


def read_least_free(environment: Mapping[str, str]) -> int:
    """Bytes that must be free; what is no number is the usual."""
    text = environment.get(FREE_VARIABLE, "")
    return (int(text) if text.isdigit() else _FREE_MB) * 1_000_000


def measure_disks(service: Service) -> Iterator[tuple[str, int]]:
    """Free bytes where the database is, if it is a file, and for temporary files."""
    path: Path | None = service.app.store.folder
    for name, folder in (("database", path), ("temporary", tempfile.gettempdir())):
        if folder is not None:
            try:
                yield name, shutil.disk_usage(folder).free
            except OSError:  # a folder that is not there yet
                continue
