"""Checkpoints of bulk work: the result of each block, stored until all blocks are done.

One process at a time does the same work. When it dies, the next one continues from the checkpoint.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Self

from sqlalchemy import Column, Index, LargeBinary, Table, delete, select
from sqlalchemy import PrimaryKeyConstraint as PrimaryKey

from tallymark.errors import TallymarkError, WorkFailed
from tallymark.store.dialects import CodePointText, FiniteFloat, insert_once, metadata
from tallymark.store.leases import RENEWED_AFTER, Lease

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

    from tallymark.store.database import Database


work_blocks = Table(
    "work_blocks",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    # A hash of all that the results follow from but the blocks themselves.
    Column("work", CodePointText, nullable=False),
    # A hash of the block: the same for the same input, at any position.
    Column("block", CodePointText, nullable=False),
    Column("result", LargeBinary, nullable=False),
    Column("at", FiniteFloat, nullable=False),
    PrimaryKey("tenant", "work", "block", name="pk_work_blocks"),
    Index("ix_work_blocks_age", "tenant", "at"),
)
KIND = "work"
_DIGEST = 16
"""Bytes of a digest before each result: a corrupt disk must not change the results of work."""
_PATIENCE = 5.0
"""Seconds for a renewal that is under way."""
_KEPT_S = 7 * 86_400.0
"""Seconds for which blocks of abandoned work are stored."""


class Checkpoint:
    """Context manager that holds the lease of a work and stores the results of its blocks."""

    def __init__(self, database: Database, tenant: str, work: str) -> None:
        self._database = database
        self._tenant = tenant
        self._work = work
        self._lease = Lease(tenant, KIND, work)
        self.keys: frozenset[str] = frozenset()
        """The blocks that were done before."""
        self._ended = threading.Event()
        self._renewer = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> Self:
        old = (work_blocks.c.tenant == self._tenant, work_blocks.c.at < time.time() - _KEPT_S)

        def begin(connection: Connection) -> frozenset[str]:
            self._lease.claim(connection)
            connection.execute(delete(work_blocks).where(*old))
            return frozenset(connection.scalars(select(work_blocks.c.block).where(*self._mine())))

        self.keys = self._database.write(begin)
        self._renewer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        self._renewer.join(_PATIENCE)
        with suppress(*([TallymarkError] if kind else [])):
            self._database.write(lambda c: self._lease.hold(c, seconds=0))

    def _renew(self) -> None:
        """Renew the lease while a block takes long. A lost lease shows when the next block is
        stored.
        """
        with suppress(TallymarkError):
            while not self._ended.wait(RENEWED_AFTER):
                self._database.write(self._lease.hold)

    def keep(self, block: str, result: bytes) -> None:
        """Store the result of a block, unless there is one."""
        row = {
            "tenant": self._tenant,
            "work": self._work,
            "block": block,
            "result": _digest(result) + result,
            "at": time.time(),
        }

        def work(connection: Connection) -> None:
            self._lease.hold(connection)
            insert_once(connection, work_blocks, row)

        self._database.write(work)

    def read(self, block: str) -> bytes:
        """Read the stored result of a block."""
        query = select(work_blocks.c.result).where(*self._mine(), work_blocks.c.block == block)
        with self._database.read() as connection:
            found = connection.scalar(query)
        if found is None:
            raise WorkFailed("what was done of this work was removed meanwhile", hint="try again")
        digest, result = bytes(found[:_DIGEST]), bytes(found[_DIGEST:])
        if _digest(result) != digest:
            self._remove(work_blocks.c.block == block)
            said = "a checkpoint of this work was damaged, and was removed"
            raise WorkFailed(said, hint="run the same command again: that part is repeated")
        return result

    def clear(self) -> None:
        """Delete the blocks of finished work."""
        self._remove()
        self.keys = frozenset()

    def _remove(self, *which: ColumnElement[bool]) -> None:
        def work(connection: Connection) -> None:
            self._lease.hold(connection)
            connection.execute(delete(work_blocks).where(*self._mine(), *which))

        self._database.write(work)

    def _mine(self) -> tuple[ColumnElement[bool], ...]:
        return (work_blocks.c.tenant == self._tenant, work_blocks.c.work == self._work)


def _digest(result: bytes) -> bytes:
    return blake2b(result, digest_size=_DIGEST).digest()
