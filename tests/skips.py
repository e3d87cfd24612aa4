"""Which tests may be left out, and why: a skip that is not on this list fails.

So a package that is not installed, or a part that has moved, is seen where it happens.
"""

from __future__ import annotations

from typing import TypeVar

import pytest

SKIPS = {
    # A table of backends, crossed with tests that concern one of them.
    "needs bubblewrap": "Landlock alone hides no folders and no network",
    "a program has one process here": "Landlock alone cannot end a tree, so it allows none",
    "it may have several here": "bubblewrap ends the tree with its first process",
    # What a kernel or a container lacks; `tally doctor` says the same, and what to install.
    "nothing hides from root": "the test is of what an ordinary user cannot see",
    "needs bwrap": "it is not installed",
    "no seccomp here": "the kernel lacks it",
    "no Landlock here": "the kernel lacks it",
    "needs Landlock": "the kernel lacks it",
    "no bubblewrap here": "it is not installed, or may not make namespaces",
    "no cgroup of version 2 to write to": "it is not delegated to an ordinary user",
    "may not make a namespace of processes": "an ordinary user where the kernel forbids it",
    "no sandbox works on this machine": "none of the above",
    "this user may open too few descriptors": "its hard limit is below 4,096",
    "chromium is not installed": "a report is opened in a browser only where there is one",
    "this Python is not installed": "a wheel is tried with those that are",
    "measures through /proc": "only Linux has it",
}
"""The reason that a test gives, and what is behind it."""

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def refuse_skip(report: Report) -> Report:
    """The same report, but a failed one where something was skipped for no reason of the list."""
    if report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason not in SKIPS:
            report.outcome = "failed"
            report.longrepr = f"skipped for a reason that tests/skips.py does not list: {reason}"
    return report
