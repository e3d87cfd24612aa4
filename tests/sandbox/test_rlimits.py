"""Limits that the kernel keeps, put up around a child of the test."""

from __future__ import annotations

import errno
import resource

import pytest
from tests.sandbox.forked_child import in_a_child

from tallymark.sandbox import Limits, rlimits


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (resource.RLIMIT_AS, (64 * 2**20, 64 * 2**20)),
        (resource.RLIMIT_FSIZE, (2**19, 2**19)),
        (resource.RLIMIT_NOFILE, (20, 20)),
        (resource.RLIMIT_CORE, (0, 0)),
    ],
    ids=["memory", "file size", "open files", "core"],
)
def test_rlimits(which: int, expected: tuple[int, int]) -> None:
    def confined() -> None:
        rlimits.apply(Limits(memory_mb=64, disk_mb=0.5))
        rlimits.apply_to_files(20)
        if resource.getrlimit(which) != expected:
            raise OSError(errno.EDOM, "another limit")

    assert in_a_child(confined) == 0


def test_a_tighter_limit_stays() -> None:
    def confined() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))
        rlimits.apply_to_files(20)
        if resource.getrlimit(resource.RLIMIT_NOFILE) != (10, 10):
            raise OSError(errno.EDOM, "a looser limit")

    assert in_a_child(confined) == 0
