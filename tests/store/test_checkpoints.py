"""Blocks of bulk work: kept once, held by one process, gone when all is done."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import select, update

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.store import checkpoints, open_store
from tallymark.store.checkpoints import work_blocks
from tallymark.store.leases import leases


def test_a_block_is_kept_once(own_url: str) -> None:
    with open_store(own_url) as store, store.open_checkpoint("w") as work:
        assert work.keys == frozenset()
        work.keep("a", b"first")
        work.keep("a", b"second")
        assert work.read("a") == b"first"
        with pytest.raises(WorkFailed, match="removed meanwhile"):
            work.read("b")


def test_the_next_one_finds_what_was_done_until_all_is(own_url: str) -> None:
    with open_store(own_url) as store:
        with store.open_checkpoint("w") as work:
            work.keep("a", b"1")
            work.keep("b", b"2")
        with store.for_tenant("other").open_checkpoint("w") as work:
            assert not work.keys
        with store.open_checkpoint("w") as work:
            assert work.keys == {"a", "b"}
            work.clear()
        with store.open_checkpoint("w") as work:
            assert not work.keys


def test_the_same_work_is_done_by_one_at_a_time(own_url: str) -> None:
    with open_store(own_url) as store, store.open_checkpoint("w"):
        with (
            pytest.raises(InvalidInput, match="the same work is held by"),
            store.open_checkpoint("w"),
        ):
            pass
        with store.open_checkpoint("another"):
            pass


def test_what_nobody_came_back_for_is_removed(own_url: str) -> None:
    with open_store(own_url) as store:
        with store.open_checkpoint("old") as work:
            work.keep("a", b"1")
        aged = update(work_blocks).values(at=time.time() - 8 * 86_400)
        store._database.write(lambda c: c.execute(aged))
        with store.open_checkpoint("new"):
            pass
        with store.open_checkpoint("old") as work:
            assert not work.keys


def test_a_damaged_block_is_removed_and_told(empty_url: str) -> None:
    with open_store(empty_url) as store:
        with store.open_checkpoint("w") as work:
            work.keep("a", b"1")
            work.keep("b", b"2")
            harm = update(work_blocks).where(work_blocks.c.block == "a").values(result=b"x" * 17)
            store._database.write(lambda c: c.execute(harm))
            with pytest.raises(
                WorkFailed, match="damaged, and was removed; run the same command again"
            ):
                work.read("a")
            assert work.read("b") == b"2"
        with store.open_checkpoint("w") as work:
            assert work.keys == {"b"}


def test_work_is_held_while_a_block_takes_long(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "RENEWED_AFTER", 0.01)
    with open_store(empty_url) as store, store.open_checkpoint("w"):
        expiry = leases.c.expires_at
        store._database.write(lambda c: c.execute(update(leases).values(expires_at=0.0)))
        while store._database.write(lambda c: c.scalar(select(expiry))) == 0:
            time.sleep(0.01)
        with (
            pytest.raises(InvalidInput, match="the same work is held by"),
            store.open_checkpoint("w"),
        ):
            pass
