"""Page that compares two to six runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tallymark.charts.frame import Chart
from tallymark.charts.score_cost import RunPoint, draw_score_cost
from tallymark.errors import InvalidInput, NeedsJob, NotFound
from tallymark.runs.comparison import (
    CHANGE_KINDS,
    ComparedMeasure,
    Comparison,
    RegressionVerdict,
    VerdictOutcome,
    score_alike,
    verdict,
)
from tallymark.runs.problems import name_model, show_result
from tallymark.runs.record import CaseResult, RunRecord
from tallymark.runs.reports.html_page import html_report
from tallymark.runs.run import CaseOutcome, CaseView, Run
from tallymark.runs.score_matrix import find_best
from tallymark.service.runs import show_record
from tallymark.text import format_score
from tallymark.web.page import File, Page, View
from tallymark.web.page_request import PageRequest
from tallymark.web.pages.run import MOST_RESULTS
from tallymark.web.run_facts import list_labels
from tallymark.web.word_diff import WordDiff, compare_words

if TYPE_CHECKING:
    from tallymark.service.runs import Runs

FEWEST, MOST = 2, 6
_LETTERS = "ABCDEF"
_MOST_CHANGES = 300
_MOST_TEXT = 20_000
"""Characters of an answer compared word by word."""
Tone = Literal["good", "bad", "", "quiet"]
_MEASURES = (
    ("score", "Score", True),
    ("success_pct", "Success, %", True),
    ("total_cost", "Cost", False),
    ("avg_latency", "Latency", False),
)
_VERDICT_WORDS: dict[VerdictOutcome, tuple[Tone, str]] = {
    "better": ("good", "better"),
    "worse": ("bad", "worse"),
    "not_worse": ("quiet", "not worse"),
    "inconclusive": ("quiet", "inconclusive"),
}
_WORSE = ("broken", "worse", "error_now")


class MeasureLine(msgspec.Struct, frozen=True, kw_only=True):
    """A number of both runs with the interval of its difference."""

    key: str
    title: str
    first: float | None
    second: float | None
    change: float | None
    low: float | None
    high: float | None
    least: float
    most: float
    """Ends of the axis, with zero in the middle."""
    p_value: float | None
    tone: Tone
    word: str


class ChangeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A case that differs between two runs."""

    case: str
    name: str
    kind: str
    before: str
    now: str
    first: str
    """Passes before and now, such as `2/3`; empty if each ran once."""
    second: str
    reason: str


class SideOfCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case in one of the runs."""

    letter: str
    run: str
    case: CaseResult | None


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """A run under its letter, compared with the first."""

    letter: str
    run: RunRecord
    change: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    broken: int = 0
    fixed: int = 0
    verdict: RegressionVerdict | None = None


class MatrixCell(msgspec.Struct, frozen=True, kw_only=True):
    """The newest run of a prompt and a model."""

    run: str
    score: float | None
    passed: int
    ran: int
    best: bool
    tone: str


class PromptMatrix(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts across, models down."""

    prompts: list[str]
    models: list[str]
    cells: list[list[MatrixCell | None]]


class DifferenceLine(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that differs between runs."""

    title: str
    values: list[str]


class FlippedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A case with different outcomes in several runs."""

    case: str
    name: str
    outcomes: list[str]
    """Outcome in each run; `none` if it was not run."""


class CompareView(View, frozen=True, kw_only=True):
    """Runs side by side."""

    runs: list[RunLine]
    suite: str
    differences: list[DifferenceLine]
    measures: list[MeasureLine]
    """Only for two runs."""
    verdict: RegressionVerdict | None
    shared: int
    unchanged: int
    formula: str
    warnings: list[str]
    changes: list[ChangeLine]
    """Only for two runs."""
    flipped: list[FlippedLine]
    """Only for three or more runs."""
    counts: dict[str, int]
    kind: str
    chosen: str
    sides: list[SideOfCase]
    diff: WordDiff | None
    points: list[RunRecord]
    """Runs of the suite for the chart."""
    matrix: PromptMatrix | None

    @property
    def chart(self) -> Chart:
        """Score against cost with the Pareto frontier."""
        letters = {line.run.id: line.letter for line in self.runs}
        return draw_score_cost(
            [
                RunPoint(
                    f"{letters.get(each.id, '')} {name_model(each)}".lstrip(),
                    each.cost,
                    each.score,
                    (each.score_low, each.score_high)
                    if each.score_low is not None and each.score_high is not None
                    else None,
                    letters.get(each.id, ""),
                )
                for each in self.points
            ]
        )

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each case that changed."""
        if self.flipped:
            letters = [line.letter for line in self.runs]
            return (
                {"case": each.case, **dict(zip(letters, each.outcomes, strict=True))}
                for each in self.flipped
            )
        return (msgspec.structs.asdict(each) for each in self.changes)


def gather(request: PageRequest) -> CompareView:
    """Gather the runs in the URL."""
    request.visitor.require_runs()
    tally = request.tally.runs
    records = _read_records(request)
    runs, compared = tally.load_compared(
        [each.id for each in records], request.get("formula") or None
    )
    pair = compared[0] if len(runs) == FEWEST else None
    changes = _list_changes(pair) if pair is not None else []
    kind = request.choose("kind", ("flipped", "worse", "better", "other"))
    shown = [each for each in changes if _fits(each.kind, kind)]
    flipped = _list_flipped(runs) if pair is None else []
    cases = [*(each.case for each in shown), *(each.case for each in flipped)]
    chosen = request.get("case") or next(iter(cases), "")
    sides = _list_sides(runs, chosen) if chosen else []
    suite = records[0].suite
    others = tally.newest(40, suite)
    return CompareView(
        title=_write_heading(pair, compared),
        runs=_list_runs(runs, compared),
        suite=suite,
        differences=_list_differences(records),
        measures=_list_measures(pair) if pair is not None else [],
        verdict=None if pair is None else verdict(pair),
        shared=compared[0].shared,
        unchanged=compared[0].unchanged,
        formula=compared[0].formula,
        warnings=list(dict.fromkeys(said for each in compared for said in each.warnings)),
        changes=shown[:_MOST_CHANGES],
        flipped=flipped[:_MOST_CHANGES],
        counts={
            each: sum(_fits(change.kind, each) for change in changes)
            for each in ("flipped", "worse", "better", "other")
        },
        kind=kind,
        chosen=chosen,
        sides=sides,
        diff=_diff(sides),
        points=[*{each.id: each for each in (*records, *others)}.values()],
        matrix=_make_matrix(tally, suite),
    )


def _read_records(request: PageRequest) -> list[RunRecord]:
    """Read two to six runs, small enough to compare within a request."""
    tally = request.tally.runs
    records = [tally.brief(each) for each in dict.fromkeys(request.get_all("run"))]
    if not FEWEST <= len(records) <= MOST:
        hint = "choose them in the list of runs"
        raise InvalidInput(f"two to six runs are compared, not {len(records)}", hint=hint)
    large = [each.id for each in records if each.passed + each.failed > MOST_RESULTS]
    if large:
        typed = f"tally compare {' '.join(each.id for each in records)}"
        message = f"the run {large[0]} has too many results to compare on a page"
        raise NeedsJob(message, hint=f"compare them in a terminal: {typed}")
    return records


def _list_differences(records: Sequence[RunRecord]) -> list[DifferenceLine]:
    """List settings that differ: model, prompt, suite, formula, epochs, tags."""
    tags = [list_labels(each) for each in records]
    versions = list(dict.fromkeys(each.definition_hash for each in records))
    said: dict[str, list[str]] = {
        "Model": [each.model for each in records],
        "Prompt": [str(each.tags.get("prompt", "")) for each in records],
        "Suite": [each.suite for each in records],
        "Version of the suite": [
            f"{versions.index(each.definition_hash) + 1}, {each.definition_hash[:8]}"
            for each in records
        ],
        "Formula": [each.score_formula for each in records],
        "Epochs": [str(each.epochs) for each in records],
        "State": [each.status.replace("_", " ") for each in records],
    }
    said |= {
        f"Tag {name}": [each.get(name, "") for each in tags]
        for name in dict.fromkeys(name for each in tags for name in each)
    }
    return [
        DifferenceLine(title=title, values=values)
        for title, values in said.items()
        if len(set(values)) > 1
    ]


def _list_flipped(runs: Sequence[Run]) -> list[FlippedLine]:
    """List cases with different outcomes, those in most runs first."""
    found = []
    for case in dict.fromkeys(case for run in runs for case in run.outcomes):
        outcomes = [_name_result(run.outcomes.get(case)) for run in runs]
        if len(set(outcomes)) > 1:
            found.append(FlippedLine(case=case, name=case, outcomes=outcomes))
    return sorted(found, key=lambda each: (each.outcomes.count("none"), each.case))


def _name_result(outcome: CaseOutcome | CaseView | None) -> str:
    if outcome is None:
        return "none"
    ran = outcome.statuses - {"error"}
    return "flaky" if len(ran) > 1 else next(iter(ran), "error")


def _fits(kind: str, wanted: str) -> bool:
    groups = {"worse": _WORSE, "better": ("fixed", "better", "recovered")}
    other = kind.startswith("only_")
    if wanted == "flipped":
        return not other
    return other if wanted == "other" else kind in groups[wanted]


def _list_changes(pair: Comparison) -> list[ChangeLine]:
    return [
        ChangeLine(
            case=each.case,
            name=each.name or each.case,
            kind=each.kind,
            before=_name_outcome(each.first),
            now=_name_outcome(each.second),
            first="" if each.first.endswith("/1") else each.first,
            second="" if each.second.endswith("/1") else each.second,
            reason=each.reason or CHANGE_KINDS[each.kind],
        )
        for each in pair.changes
    ]


def _name_outcome(passes: str) -> str:
    """Name the outcome of `2/3` passes."""
    if not passes:
        return "none"
    passed, _, ran = passes.partition("/")
    return "passed" if passed == ran else "failed" if passed == "0" else "flaky"


def _list_measures(pair: Comparison) -> list[MeasureLine]:
    found = []
    for key, title, higher_is_better in _MEASURES:
        measure: ComparedMeasure = getattr(pair, key)
        if key == "success_pct" and pair.formula == "success_pct":
            continue
        change, ends = measure.difference.value, measure.difference.interval
        low, high = (None, None) if ends is None else (ends.low, ends.high)
        reach = max((abs(each) for each in (change, low, high) if each is not None), default=1.0)
        tone, word = _judge(change, low, high, higher_is_better, key)
        if key == "score" and change:  # page, command and exit code agree
            tone, word = _VERDICT_WORDS[verdict(pair).outcome]
        found.append(
            MeasureLine(
                key=key,
                title=title,
                first=measure.first,
                second=measure.second,
                change=change,
                low=low,
                high=high,
                least=-1.15 * reach or -1.0,
                most=1.15 * reach or 1.0,
                p_value=pair.p_value if key == "score" else measure.difference.p_value,
                tone=tone,
                word=word,
            )
        )
    return found


def _judge(
    change: float | None, low: float | None, high: float | None, up: bool, key: str
) -> tuple[Tone, str]:
    """Judge a difference: tone and word."""
    if change is None:
        return "quiet", "unknown in one"
    if not change:
        return "quiet", "the same"
    if low is None or high is None:
        return "quiet", "no interval"
    if low <= 0 <= high:
        return "quiet", "may be chance"
    words = {
        "total_cost": ("cheaper", "more expensive"),
        "avg_latency": ("faster", "slower"),
    }.get(key, ("better", "worse"))
    good = (change > 0) == up
    return ("good", words[0]) if good else ("bad", words[1])


def _write_heading(pair: Comparison | None, compared: Sequence[Comparison]) -> str:
    """Write the heading: the verdict, if there is one."""
    if pair is None:
        known = [each for each in compared if each.second.score is not None]
        best = max(known, key=lambda each: each.second.score or 0.0, default=None)
        run, letter = compared[0].first, "A"
        if best is not None and (run.score is None or run.score < (best.second.score or 0.0)):
            run, letter = best.second, _LETTERS[list(compared).index(best) + 1]
        cut = ", though it was cut short" if run.missing else ""
        return f"{letter} scored highest of {len(compared) + 1}{cut}"
    change = pair.score.difference.value
    if change is None:
        return "A and B have no score in common"
    if not change:
        return "A and B scored the same"
    size = format_score(abs(change))
    word = "lower" if change < 0 else "higher"
    outcome = verdict(pair).outcome
    if outcome == "inconclusive":
        return f"Inconclusive: B scored {size} {word}"
    if outcome == "not_worse":
        return f"B is not worse: it scored {size} {word}"
    return f"B is {outcome}, by {size}"


def _list_runs(runs: Sequence[Run], compared: Sequence[Comparison]) -> list[RunLine]:
    lines = [RunLine(letter="A", run=show_record(runs[0].record))]
    for letter, run, each in zip(_LETTERS[1:], runs[1:], compared, strict=False):
        difference = each.score.difference
        ends = difference.interval
        lines.append(
            RunLine(
                letter=letter,
                run=show_record(run.record),
                change=difference.value,
                low=None if ends is None else ends.low,
                high=None if ends is None else ends.high,
                p_value=each.p_value,
                broken=sum(len(each.of_kind(kind)) for kind in ("broken", "worse")),
                fixed=sum(len(each.of_kind(kind)) for kind in ("fixed", "better")),
                verdict=verdict(each),
            )
        )
    return lines


def _list_sides(runs: Sequence[Run], case: str) -> list[SideOfCase]:
    """Find a case in each run; of several epochs, the first that did not pass."""
    found = []
    for letter, run in zip(_LETTERS, runs, strict=False):
        view = run.read_cases([case]).get(case)
        results = [] if view is None else view.results
        result = next((each for each in results if each.status != "passed"), None)
        result = result or next(iter(results), None)
        shown = None if result is None else show_result(result)
        found.append(SideOfCase(letter=letter, run=run.record.id, case=shown))
    if not any(side.case for side in found):
        raise NotFound(f"none of the runs has the case {case[:80]!r}")
    return found


def _diff(sides: Sequence[SideOfCase]) -> WordDiff | None:
    texts = [side.case.output[:_MOST_TEXT] for side in sides if side.case is not None]
    return compare_words(*texts) if len(texts) == len(sides) == FEWEST else None


def _make_matrix(tally: Runs, suite: str) -> PromptMatrix | None:
    """Make a matrix of the newest runs by prompt and model; None without prompts."""
    newest: dict[tuple[str, str], Any] = {}
    for record in tally.newest(500, suite):
        prompt = record.tags.get("prompt")
        if prompt is not None:
            newest.setdefault((record.model, str(prompt)), record)
    if len(newest) < FEWEST:
        return None
    models, prompts = (list(dict.fromkeys(names)) for names in zip(*newest, strict=True))
    best = find_best([Run(record, []) for record in newest.values()])
    scores = [each.score for each in newest.values() if each.score is not None]
    middle = (min(scores) + max(scores)) / 2 if scores else 0.0

    def make(record: Any) -> MatrixCell:
        score = record.score
        tone = "" if score is None or len(set(scores)) < 2 else "good" if score > middle else "bad"
        return MatrixCell(
            run=record.id,
            score=score,
            passed=record.passed,
            ran=record.passed + record.failed,
            best=record.id in best,
            tone=tone,
        )

    cells = [
        [make(found) if (found := newest.get((model, prompt))) else None for prompt in prompts]
        for model in models
    ]
    return PromptMatrix(prompts=prompts, models=models, cells=cells)


def _make_report(request: PageRequest) -> File:
    """Make a self-contained report of the runs."""
    request.visitor.require_runs()
    records = _read_records(request)
    runs, compared = request.tally.runs.load_compared(
        [each.id for each in records], request.get("formula") or None
    )
    runs = score_alike(runs, compared[0].formula)
    return File(f"{records[0].suite} compared", html_report(runs, compared))


PAGE = Page("/compare", "compare.html", gather, files={"html": _make_report})
