"""What a program does once it runs never looks like a failure of ours, which would cost nothing."""

from __future__ import annotations

import pytest
from tests.sandbox.backends import FIRST, run_python

from tallymark.sandbox.machine_probe import SafeBackend
from tallymark.sandbox.programs.process_usage import _sum_lines

NAMED = """
import ctypes, sys, time
libc = ctypes.CDLL(None)
libc.prctl(15, {name!r}, 0, 0, 0)
print("answer", flush=True)
time.sleep(0.3)
"""


@pytest.mark.parametrize("backend", FIRST)
@pytest.mark.parametrize(
    "name", [b"\x0bRssAnon: x", b"\x0cRssAnon: x", b"\rRssAnon:x", b") R 1 2 3"]
)
def test_a_name_of_its_own_choice_breaks_nothing(backend: SafeBackend, name: bytes) -> None:
    done = run_python(backend, NAMED.format(name=name), wall_s=20.0)
    assert done.stdout == b"answer\n"
    assert done.stopped is None


def test_a_line_within_a_name_is_not_counted() -> None:
    status = "Name:\t\x0bRssAnon: -99 kB\rRssAnon: 5 kB\nRssAnon:\t     100 kB\nRssShmem:\t 4 kB\n"
    assert _sum_lines(status, "RssAnon:", "RssShmem:") == 104 * 1024
