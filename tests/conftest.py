"""What holds for all tests: how hard laws are tried, and what may be skipped."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from hypothesis import settings
from tests.effort import USUAL
from tests.skips import refuse_skip

# Before the options are read: `--hypothesis-profile` takes another.
settings.load_profile(USUAL)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return refuse_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return refuse_skip((yield))
