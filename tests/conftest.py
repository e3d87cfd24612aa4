"""What holds for all tests: how hard laws are tried, and what may be skipped."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings
from tests.effort import USUAL
from tests.skips import refuse_skip

# A shell starts its background commands with SIGINT ignored, and nohup with SIGHUP ignored; what
# they start inherits that, and tests that send these signals would wait for ever.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

# Each worker has one core; before numpy is loaded, whose threads would wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


# Before the options are read: `--hypothesis-profile` takes another.
settings.load_profile(USUAL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: nobody need look for circles among it.

    Among what tests make, looking rarely saves a tenth of their time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return refuse_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return refuse_skip((yield))
