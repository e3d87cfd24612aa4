"""Comment on a pull request: is the score worse than on the base branch, by how much, and where.

Short, because it appears in a conversation. As in the summary of a CI job, texts of others are in
code spans.
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.runs.comparison import Comparison, verdict
from tallymark.runs.reports.comparison_markdown import write_comparison
from tallymark.runs.reports.markdown_report import markdown_report, write_code_span
from tallymark.runs.run import Run
from tallymark.text import clean_line, format_score

_LONGEST = 60_000
"""GitHub takes 65,536 characters."""


def write_mark(suite: str) -> str:
    """By which a comment of before is found again, so that there is one for each suite."""
    return f"<!-- tallymark: {clean_line(suite, 100).replace('--', '- -')} -->"


def comment_report(
    runs: Sequence[Run],
    comparison: Comparison | None,
    failures: Sequence[str] = (),
    page: str | None = None,
) -> str:
    """The comment for runs of one suite; `comparison` is with the base branch, if it has a run."""
    suite = runs[0].record.suite
    lines = [write_mark(suite), f"### {_write_headline(suite, comparison, failures)}", ""]
    if comparison is None:
        scores = ", ".join(format_score(run.record.score) for run in runs)
        lines += [f"Score: {scores}. There is no run of the base to compare with yet.", ""]
    else:
        lines += [*write_comparison(comparison, ("base", "this")), ""]
    lines += [f"- {write_code_span(clean_line(each, 500))}" for each in failures]
    if page is not None:
        lines += ["", f"[Look closer]({page})"]
    body = "\n".join(lines)
    details = ["", "<details><summary>The run</summary>", "", markdown_report(runs), "</details>"]
    whole = "\n".join([body, *details])
    return f"{whole if len(whole) <= _LONGEST else body}\n"


def _write_headline(suite: str, comparison: Comparison | None, failures: Sequence[str]) -> str:
    named = write_code_span(clean_line(suite, 100))
    said = None if comparison is None else verdict(comparison)
    if said is not None and said.outcome == "worse":
        return f"❌ {named} is worse than its base"
    if said is not None and not said.passes:
        return f"{'❌' if failures else '⚠️'} {named} may be worse than its base, or it is chance"
    if failures:
        return f"❌ {named} does not pass its gate"
    if said is None:
        return f"✅ {named}"
    if said.outcome == "inconclusive":
        return f"⚠️ {named}: inconclusive, but the drop is within the tolerance"
    return f"✅ {named} is {'better' if said.outcome == 'better' else 'not worse'} than its base"
