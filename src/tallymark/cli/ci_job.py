"""`tally run` in a CI job: labels, the baseline of a branch, comments, webhooks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.errors import InvalidInput, NothingStored, TallymarkError
from tallymark.text import say

if TYPE_CHECKING:
    from tallymark.runs.comparison import Comparison
    from tallymark.runs.run import Run
    from tallymark.service.resources import Resources

Baseline = Annotated[
    str | None,
    typer.Option(
        metavar="RUN", help="Run to compare the first one with; in CI jobs also branch:NAME."
    ),
]
Comment = Annotated[
    bool,
    typer.Option(
        "--comment", help="In a CI job: post the comparison on the pull or merge request."
    ),
]
BRANCH = "branch:"
"""Before the name of a branch, as a baseline: the newest run of the suite for it."""
_LOOKED_THROUGH = 200
"""Runs of a suite, the newest first, in search of a branch's."""
_JOBS = ("GITHUB_ACTIONS", "GITLAB_CI")


def read_labels() -> dict[str, str]:
    """Read the branch and the commit of a CI job, which label its runs."""
    if not any(os.environ.get(name) == "true" for name in _JOBS):
        return {}
    from tallymark.service.pull_requests import find_job  # noqa: PLC0415 (loads httpx, and only in a CI job)

    job = find_job(os.environ)
    return {
        name: value
        for name, value in (("branch", job.branch), ("commit", job.commit))
        if value is not None
    }


def find_branch_run(tally: Resources, wanted: str, suite: str) -> str | None:
    """Find the newest ended run of a suite for a branch; reports it if there is none."""
    branch = wanted.removeprefix(BRANCH)
    if not branch:
        raise InvalidInput("--baseline branch: names no branch", hint="as in branch:main")
    try:
        newest = tally.runs.list(suite, limit=_LOOKED_THROUGH).items
    except NothingStored:
        newest = []
    for each in newest:
        ended = each.status in ("completed", "partial_failure")
        if ended and each.tags.get("branch") == branch:
            return each.id
    said = f"there is no run of {suite} for the branch {branch} yet: nothing to compare with"
    say(f"tally: {said}", err=True)
    return None


@dataclass(frozen=True)
class CiEnd:
    """Notifications about ended runs. An error is reported, and does not change the exit code."""

    tally: Resources
    comment: bool

    def tell(
        self, runs: Sequence[Run], against: Comparison | None, failures: Sequence[str]
    ) -> None:
        """Write the comment, and notify webhooks of failed gates."""
        try:
            if failures:
                self.tally.webhooks.report_failed_gate(runs[0].record.id, [*failures])
            if self.comment:
                _write_comment(runs, against, failures)
        except TallymarkError as error:
            say(f"tally: {error}", err=True)


def _write_comment(
    runs: Sequence[Run], against: Comparison | None, failures: Sequence[str]
) -> None:
    from tallymark.runs.reports.comment_report import comment_report, write_mark  # noqa: PLC0415 (loads numpy)
    from tallymark.service.pull_requests import find_job  # noqa: PLC0415 (loads httpx, and only in a CI job)

    job = find_job(os.environ)
    if job.comments is None:
        say(f"tally: no comment is written: {job.why_silent}", err=True)
        return
    body = comment_report(runs, against, failures)
    done = job.comments.put(write_mark(runs[0].record.suite), body)
    say(f"the comment is {done}", err=True)
