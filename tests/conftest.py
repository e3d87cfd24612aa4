"""What holds for all tests: how hard laws are tried, and what may be skipped."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import settings
from tests.effort import USUAL
from tests.skips import refuse_skip

# Each worker has one core; before numpy is loaded, whose threads would wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Before the options are read: `--hypothesis-profile` takes another.
settings.load_profile(USUAL)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return refuse_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return refuse_skip((yield))
