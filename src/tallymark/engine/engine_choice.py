"""Choice of an engine by an option or a variable; it is opened when it is first needed."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tallymark.errors import InvalidInput, WorkFailed, suggest
from tallymark.installation import explain_install

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.engine.engine import Engine

ENGINES = ("local", "ray")
MOST_WORKERS = 1_000
"""Most workers of a cluster: the driver holds a few blocks in memory for each."""
MOST_FOR_CORE = 4
"""Most worker processes per core of one machine."""
_HINT = "write local, ray, or ray:ADDRESS such as ray:10.0.0.5:6379"


@dataclass(frozen=True)
class EngineChoice:
    """An engine by name."""

    kind: str = "local"
    address: str | None = None
    """Address of a Ray cluster; without one, Ray is started on this machine."""
    workers: int | None = None
    """Number of workers; by default one per core."""

    @contextmanager
    def open(self) -> Iterator[Engine]:
        """Open the engine for the duration of the context."""
        if self.kind == "ray":
            from tallymark.engine.ray_engine import RayEngine  # noqa: PLC0415 (Ray is heavy)

            count = self.workers if self.address else self._count_here()
            made: Engine = RayEngine(self.address, count)
        else:
            from tallymark.engine.local_engine import LocalEngine  # noqa: PLC0415 (few need it)

            made = LocalEngine(self._count_here())
        with made as engine:
            yield engine

    def _count_here(self) -> int:
        cores = os.cpu_count() or 1
        return min(self.workers or cores, MOST_FOR_CORE * cores)


def choose_engine(named: str | None, workers: int | None) -> EngineChoice | None:
    """Choose the engine of an option, or else of TALLY_ENGINE and TALLY_RAY_ADDRESS.

    None is this process: no engine was named, or one worker of this machine.
    """
    by = "--engine" if named else "TALLY_ENGINE"
    said = named or os.environ.get("TALLY_ENGINE") or ("local" if workers else "")
    if not said:
        return None
    kind, _, address = said.partition(":")
    wrong = ":" in said and (kind == "local" or not _is_address(address))
    if kind not in ENGINES or wrong:
        close = suggest(kind, ENGINES) if kind not in ENGINES else None
        hint = f"did you mean {close!r}?" if close else _HINT
        raise InvalidInput(f"{by} {said} names no engine", hint=hint)
    if kind == "local":
        only_one = (workers or os.cpu_count() or 1) == 1
        return None if only_one else EngineChoice(workers=workers)
    if find_spec("ray") is None:
        hint = explain_install("tallymark[ray]")
        raise WorkFailed("the engine ray is not installed", hint=hint)
    address = address or os.environ.get("TALLY_RAY_ADDRESS", "")
    if address and not _is_address(address):
        message = f"TALLY_RAY_ADDRESS {address} is no address of a cluster"
        raise InvalidInput(message, hint="write HOST:PORT such as 10.0.0.5:6379")
    return EngineChoice("ray", address or None, workers)


def _is_address(text: str) -> bool:
    """Check for HOST:PORT, or `auto` for the cluster of this machine.

    An address with two slashes is of Ray's own client, which is another protocol.
    """
    host, _, port = text.rpartition(":")
    return text == "auto" or (bool(host) and "/" not in host and port.isdecimal())
