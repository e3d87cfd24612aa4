"""What holds for all tests: how hard laws are tried, and what may be skipped."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings
from tests.effort import USUAL
from tests.rewritten_tests import compile_once
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that are known to fail until the redesign has moved their subjects."""
    listed = (Path(__file__).parent / "open_failures.txt").read_text(encoding="utf-8")
    known = {line for line in listed.splitlines() if not line.startswith("#")}
    reason = "open since its subject moved to operations: tests/open_failures.txt"
    for item in items:
        if item.nodeid in known:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=False))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Before workers start who will load all tests."""
    config = session.config
    everything = config.args_source is config.ArgsSource.TESTPATHS
    if everything and config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        compile_once(config)


def pytest_collection_finish() -> None:
    if "tallymark.store.database" in sys.modules:
        from tests.compiled_statements import share_statements

        share_statements()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: nobody need look for circles among it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return refuse_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return refuse_skip((yield))
