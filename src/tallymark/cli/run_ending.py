"""What is told of runs when they are over, whatever started them: text or JSON, reports, gates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.cli.report_files import print_runs, write_reports
from tallymark.errors import InvalidInput
from tallymark.text import StyledLine, Table, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tallymark.runs.comparison import Comparison
    from tallymark.runs.run import Run

Baseline = Annotated[
    str | None, typer.Option(metavar="RUN", help="A run to compare the first one with.")
]
FailOnRegression = Annotated[
    bool, typer.Option("--fail-on-regression", help="Exit with 1 when worse than --baseline.")
]
Alpha = Annotated[
    float,
    typer.Option(min=0.005, max=0.5, help="How often a run that is as good may be called worse."),
]
Tolerance = Annotated[
    float, typer.Option(min=0.0, help="How many points of the score may be lost.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Any drop is worse, whatever luck may do.")]
MaxErrors = Annotated[
    str | None,
    typer.Option(
        metavar="N|N%",
        help="How many results may fail to run before a gate fails; none unless you say so.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say only the last line.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also every case that passed, and the whole score.")
]

_WHOLE = 2
"""Of more runs than these, each shows a few cases only; `tally show` has them all."""
_FEW_CASES = 5


@dataclass(frozen=True)
class RunEnd:
    """What a user wants to have and to know of the runs of one command."""

    reports: Sequence[Path]
    before: Run | None
    """The baseline."""
    fail_on_regression: bool
    as_json: bool
    rule: tuple[float, float, bool] = (0.05, 0.0, False)
    """What is worse: alpha, tolerance, strict."""
    max_errors: str | None = None
    """How many results may fail to run; None where there is no gate at all."""
    quiet: bool = False
    verbose: bool = False

    def tell(
        self, runs: Sequence[Run], failures: Sequence[str], facts: Mapping[str, Any] | None = None
    ) -> None:
        """Writes reports, prints, and ends the command with 1 when there are failures."""
        against = None if self.before is None else self._compare(self.before, runs)
        if against is not None and self.fail_on_regression:
            failures = [*failures, *_find_regression(against)]
        if self.max_errors is not None:
            failures = [*failures, *find_unrun(runs, self.max_errors)]
            for run in runs:
                run.gates = failures
        if self.reports:
            write_reports(self.reports, runs)
        self.show(runs, facts or {}, against)
        for failure in failures:
            say(f"tally: {failure}", err=True)
        if failures:
            raise typer.Exit(1)

    def show(
        self, runs: Sequence[Run], facts: Mapping[str, Any], against: Comparison | None = None
    ) -> None:
        """Prints the runs, and their comparison with the baseline."""
        if self.as_json:
            self._print_document(runs, against, facts)
            return
        from tallymark.runs.reports.summary_report import MOST, closing_line, summary_lines

        if self.quiet:
            say(closing_line(runs))
            return
        most = MOST if len(runs) <= _WHOLE else _FEW_CASES
        folded = not self.verbose
        parts: list[StyledLine | Table] = [
            part
            for run in runs
            for part in (StyledLine(""), *summary_lines(run, most=most, folded=folded))
        ]
        # Only the runs of a group were asked the same: two suites have no case in common.
        if len(runs) > 1 and runs[0].record.group is not None:
            from tallymark.runs.reports.group_report import group_lines

            parts += [StyledLine(""), *group_lines(runs)]
        if against is not None:
            from tallymark.runs.reports.comparison_report import comparison_lines

            parts += [StyledLine(""), *comparison_lines(against)]
        say(*parts[1:], StyledLine(""), StyledLine(closing_line(runs), "bold"))

    def _compare(self, before: Run, runs: Sequence[Run]) -> Comparison:
        from tallymark.runs.comparison import RegressionRule, compare

        return compare(before, self._find_like(runs), rule=RegressionRule(*self.rule))

    def _find_like(self, runs: Sequence[Run]) -> Run:
        """The run of the baseline's suite; the first where no suite has its name."""
        wanted = self.before.record.suite if self.before is not None else None
        return next((run for run in runs if run.record.suite == wanted), runs[0])

    def _print_document(
        self, runs: Sequence[Run], against: Comparison | None, facts: Mapping[str, Any]
    ) -> None:
        from tallymark.runs.score_matrix import make_matrix

        if len(runs) > 1 and (matrix := make_matrix(runs)) is not None:
            facts = {**facts, "matrix": matrix.to_dict()}
        document = {"runs": list(runs), **facts}
        print_runs(document | ({} if against is None else {"comparison": against.to_dict()}))


def _find_regression(against: Comparison) -> list[str]:
    from tallymark.runs.comparison import verdict

    judged = verdict(against)
    worse = f"worse than the baseline {against.first.id}: {judged.reason}"
    return [worse] if judged.regression else []


def refuse_endless(**bounds: float | None) -> None:
    """Refuses bounds that are no finite numbers: nothing is under NaN, so a gate would let pass."""
    for name, bound in bounds.items():
        if bound is not None and not math.isfinite(bound):
            option = name.replace("_", "-")
            raise InvalidInput(f"--{option} {bound} is no bound", hint="give a finite number")


def check_max_errors(given: str) -> str:
    """How many results may fail to run; what is no count is refused before anything runs."""
    from tallymark.runs.gates import read_allowance

    read_allowance(given, 0)
    return given


def find_unrun(runs: Sequence[Run], max_errors: str) -> list[str]:
    """The runs of which too much could not run."""
    from tallymark.runs.gates import find_too_many_errors

    found = (find_too_many_errors(run, max_errors) for run in runs)
    return [each for each in found if each is not None]


def require_baseline(baseline: str | None, option: str = "--fail-on-regression") -> None:
    """Refuses a gate that has nothing to compare with."""
    if baseline is None:
        raise InvalidInput(f"{option} needs --baseline", hint="add --baseline RUN")
