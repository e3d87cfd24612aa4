"""Output of runs that have ended: text, JSON, reports, gates and the exit code."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.errors import InvalidInput, Problem, TallymarkError, WorkFailed
from tallymark.runs.gates import find_too_many_errors, read_allowance, read_tolerance
from tallymark.runs.problems import name_model
from tallymark.runs.report_formats import REPORT_FORMATS, load_report
from tallymark.text import StyledLine, Table, clean_line, complete_command, escape, say, wrap_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tallymark.cli.workplace import Work
    from tallymark.runs.comparison import Comparison
    from tallymark.runs.record import RunRecord
    from tallymark.runs.run import Run


def _describe_endings() -> str:
    """Such as `.html, .xml (JUnit) or .json`, what people read first."""
    words = [
        f"{ending} ({each.called})" if each.called else ending
        for ending, each in REPORT_FORMATS.items()
    ]
    first, *others = words
    return f"{', '.join(reversed(others))} or {first}"


ReportPaths = Annotated[
    list[Path] | None,
    typer.Option("--report", "-r", help=f"Write a report: {_describe_endings()}."),
]
"""The option of every command that writes reports."""


def check_reports(paths: Sequence[Path]) -> None:
    """Refuse unknown report formats and invalid paths before any work is done."""
    for path in paths:
        if path.suffix not in REPORT_FORMATS:
            called = ", ".join(f"{k} is {v.called}" for k, v in REPORT_FORMATS.items() if v.called)
            hint = f"end it with one of {', '.join(REPORT_FORMATS)} ({called})"
            raise InvalidInput(f"--report {path} has no ending that names a report", hint=hint)
        from tallymark.runs.result_files import check_place  # noqa: PLC0415 (loads the scorers)

        check_place(path)


def print_runs(document: Any) -> None:
    """Print one JSON document that contains runs, written result by result."""
    from tallymark.runs.reports.json_report import stream_document  # noqa: PLC0415 (only for JSON)

    for piece in stream_document(document):
        sys.stdout.write(escape(piece))
    sys.stdout.write("\n")


def write_reports(
    paths: Sequence[Path], runs: Sequence[Run], comparisons: Sequence[Comparison] = ()
) -> None:
    """Writes each report whole or not at all; the places were checked before."""
    problems: list[Problem] = []
    for path in paths:
        from tallymark.runs.result_files import open_whole_file  # noqa: PLC0415 (loads the scorers)

        kind = load_report(path.suffix)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open_whole_file(path) as file:
                for piece in kind.list_pieces(runs, comparisons):
                    file.write(piece.encode())
        except TallymarkError as error:
            problems += error.problems
        except OSError as error:
            problems.append(Problem(f"cannot write {path}: {error.strerror or error}"))
        else:
            say(f"wrote {path}", err=True)
    if problems:
        raise WorkFailed(problems)


Baseline = Annotated[str | None, typer.Option(metavar="RUN", help="Run to compare with.")]
FailOnRegression = Annotated[
    bool,
    typer.Option(
        "--fail-on-regression",
        help="Exit with 1 if the score is worse than --baseline, or fell by more than --tolerance"
        " and the results are inconclusive.",
    ),
]
Alpha = Annotated[
    float,
    typer.Option(
        min=0.005,
        max=0.5,
        help="False-alarm rate: how often a run that is as good may be called worse.",
    ),
]
Tolerance = Annotated[
    str,
    typer.Option(
        metavar="N|N%", help="Largest drop of the score to accept: points, or % of the baseline."
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Fail on any drop of the score or of a case, however small."),
]
MaxErrors = Annotated[
    str | None,
    typer.Option(
        metavar="N|N%",
        help="Fail if more than N (or N %) results are errors. Default with another gate: 0.",
        show_default=False,
    ),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Also print the cases that passed and the whole score."),
]

EXIT_CODES = (
    "Exit code: 0 success, even if cases failed; 1 a gate failed (--fail-under,"
    " --fail-on-regression, --max-errors); 2 wrong usage or input; 3 the work could not be done."
)
"""Shown below the options of the commands that have gates."""


@dataclass(frozen=True)
class Gates:
    """Gates that a run must pass, as set by the options."""

    fail_under: float | None
    fail_on_regression: bool
    alpha: float
    tolerance: str
    strict: bool
    max_errors: str | None

    def check(self, baseline: str | None) -> None:
        """Refuse invalid gates before anything runs."""
        for option, asked in (
            ("--strict", self.strict),
            ("--fail-on-regression", self.fail_on_regression),
        ):
            if asked and baseline is None:
                raise InvalidInput(f"{option} needs --baseline", hint="add --baseline RUN")

        if self.max_errors is not None:
            read_allowance(self.max_errors, 0)
        read_tolerance(self.tolerance, 0.0)
        # Nothing is under NaN, so such a gate would let everything pass.
        bounds = {"fail-under": self.fail_under, "alpha": self.alpha}
        for option, bound in bounds.items():
            if bound is not None and not math.isfinite(bound):
                raise InvalidInput(
                    f"--{option} {bound} is not a valid bound", hint="give a finite number"
                )

    @property
    def allowed(self) -> str | None:
        """Number of results that may be errors; None without any gate."""
        if self.max_errors is None and (self.fail_on_regression or self.fail_under is not None):
            return "0"  # a gate never passes on what did not run
        return self.max_errors

    def find_unrun(self, run: Run) -> list[str]:
        """List the gate failures because of results that are errors."""
        if (allowed := self.allowed) is None:
            return []
        found = find_too_many_errors(run, allowed)
        return [] if found is None else [found]


@dataclass(frozen=True)
class RunEnd:
    """Output of the runs of one command, as set by the options."""

    reports: Sequence[Path]
    before: Run | None
    """The baseline."""
    gates: Gates
    as_json: bool
    quiet: bool = False
    verbose: bool = False
    there: str | None = None
    """The `--server` option for hints, if the runs are on a server."""

    def tell(
        self,
        runs: Sequence[Run],
        refusals: Sequence[Sequence[str]],
        facts: Mapping[str, Any] | None = None,
        also: Callable[[Sequence[Run], Comparison | None, Sequence[str]], None] | None = None,
        undone: Sequence[Sequence[str]] = (),
        whole: Sequence[Run] = (),
    ) -> None:
        """Write reports, print the runs, notify others, and exit with 1 if a gate failed.

        `refusals` are the failed gates of each run. `undone` lists work that could not be done: the
        exit code is then 3, as for a run without any result. `whole` are the same runs with all
        results, if `runs` hold only some of them.
        """
        whole = whole or runs
        against = None if self.before is None else self._compare(self.before, whole)
        refused = [
            self._judge(*each, against)
            for each in zip(whole, refusals, undone or [[] for _ in runs], strict=True)
        ]
        failures = [failure for each in refused for failure in each]
        if self.gates.allowed is not None:
            for shown, run, reasons in zip(runs, whole, refused, strict=True):
                shown.gates = run.gates = reasons
        unwritten = self._write_reports(whole, against)
        self.show(runs, facts or {}, against)
        for failure in failures:
            say(f"tally: {failure}", err=True)
        if also is not None:
            also(runs, against, failures)
        if unwritten is not None:
            raise unwritten
        if any(undone):
            raise typer.Exit(3)
        if all(run.record.status == "failed" for run in runs):
            errors = (each.error for run in whole for each in run.results if each.error)
            first = next(errors, None) or next((run.record.error for run in runs), None)
            why = f": {clean_line(first, 300)}" if first else ""
            raise WorkFailed(f"no case could be run{why}")
        if failures:
            raise typer.Exit(1)

    def _judge(
        self,
        run: Run,
        refusal: Sequence[str],
        undone: Sequence[str],
        against: Comparison | None,
    ) -> list[str]:
        """Every reason why gates refuse a run."""
        worse: list[str] = []
        if against is not None and against.second.id == run.record.id:
            worse = _find_regression(against) if self.gates.fail_on_regression else []
        return [*refusal, *undone, *worse, *self.gates.find_unrun(run)]

    def _write_reports(self, runs: Sequence[Run], against: Comparison | None) -> WorkFailed | None:
        """Write reports; return an error instead of raising it, as results are shown first."""
        try:
            write_reports(self.reports, runs, () if against is None else (against,))
        except WorkFailed as error:
            return error
        return None

    def show(
        self, runs: Sequence[Run], facts: Mapping[str, Any], against: Comparison | None = None
    ) -> None:
        """Prints the runs, and their comparison with the baseline."""
        if self.as_json:
            self._print_document(runs, against, facts)
            return
        from tallymark.runs.reports.summary_report import closing_line, summary_lines  # noqa: PLC0415 (a list of runs does without it)

        if self.quiet:
            say(closing_line(runs, self.there))
            return
        # Only runs of a group have the same cases: two suites have none in common.
        grouped = len(runs) > 1 and runs[0].record.group is not None
        parts: list[StyledLine | Table] = []
        if self.verbose or not grouped:
            for run in runs:
                parts += [StyledLine(""), *summary_lines(run, folded=not self.verbose)]
        if grouped:
            from tallymark.runs.reports.group_report import group_lines  # noqa: PLC0415 (loads numpy)

            parts += [StyledLine(""), *group_lines(runs, brief=not self.verbose)]
        if against is not None:
            from tallymark.runs.reports.comparison_report import comparison_lines  # noqa: PLC0415 (loads numpy)

            parts += [StyledLine(""), *comparison_lines(against)]
        closing = wrap_lines(complete_command(closing_line(runs, self.there)), "bold")
        say(*parts[1:], StyledLine(""), *closing)

    def _compare(self, before: Run, runs: Sequence[Run]) -> Comparison:
        from tallymark.runs.comparison import RegressionRule, compare  # noqa: PLC0415 (loads numpy)

        rule = RegressionRule(self.gates.alpha, self.gates.tolerance, self.gates.strict)
        return compare(before, _find_like(before.record, runs), rule=rule)

    def _print_document(
        self, runs: Sequence[Run], against: Comparison | None, facts: Mapping[str, Any]
    ) -> None:
        from tallymark.runs.score_matrix import make_matrix  # noqa: PLC0415 (only for several runs)

        if len(runs) > 1 and (matrix := make_matrix(runs)) is not None:
            facts = {**facts, "matrix": matrix.to_dict()}
        document = {"runs": list(runs), **facts}
        print_runs(document | ({} if against is None else {"comparison": against.to_dict()}))


def _find_like(before: RunRecord, runs: Sequence[Run]) -> Run:
    """The run to compare with a baseline: of its suite, and of its model and prompt."""

    def rank(run: Run) -> tuple[bool, bool]:
        same_model = name_model(run.record) == name_model(before)
        return run.record.suite == before.suite, same_model

    return max(runs, key=rank)


def hand_over(work: Work, runs: Sequence[Run]) -> bool:
    """Store the runs; on failure, print how to send them later, and return False."""
    try:
        for note in work.hand_over(runs):
            say(f"tally: {note}", err=True)
    except TallymarkError as error:
        say(f"tally: {error.render()}", err=True)
        for run in runs:
            say(f"tally: {run.record.id} is not sent; {work.tell_rest(run.record.id)}", err=True)
        return False
    return True


def _find_regression(against: Comparison) -> list[str]:
    from tallymark.runs.comparison import verdict  # noqa: PLC0415 (loads numpy)

    judged = verdict(against)
    if judged.passes:
        return []
    if judged.outcome == "worse":
        return [f"worse than the baseline {against.first.id}: {judged.reason}"]
    return [f"inconclusive against the baseline {against.first.id}: {judged.reason}"]
