"""Display names of cases and models, and reasons why a result is not a pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from tallymark.runs.record import CaseResult, CheckResult, RunRecord
from tallymark.text import clean_line, format_beside, format_value


def name_case(result: CaseResult, most: int = 60) -> str:
    """Display name of a case: its name or, without one, its number and prompt."""
    return name_question(result.case, result.input, most)


def show_result(result: CaseResult) -> CaseResult:
    """A result as it is shown: with the name that people call its case."""
    return replace(result, name=name_case(result))


def name_question(case: str, prompt: str, most: int = 60) -> str:
    """Display name of a case that may not have run."""
    return f"{case} {clean_line(prompt, most)}" if prompt and case.startswith("#") else case


def name_model(record: RunRecord) -> str:
    """The model, and the prompt where the suite has several: `echo/x · short`."""
    prompt = record.tags.get("prompt")
    return record.model if prompt is None else f"{record.model} · {prompt}"


def name_suite(record: RunRecord) -> str:
    """The suite, and what makes the run another thing than the whole suite: `qa (3 of 9 cases)`."""
    chosen, copied = record.tags.get("chosen"), record.tags.get("rescored_from")
    said = []
    if isinstance(chosen, dict):  # else a tag of the suite's own
        some = "some" if not chosen.get("of") else f"{chosen['cases']:,} of {chosen['of']:,}"
        said.append(f"{some} cases")
    if isinstance(copied, str):
        said.append(f"{copied} rescored")
    return f"{record.suite} ({', '.join(said)})" if said else record.suite


def describe_unrun(record: RunRecord, finished: int | None = None) -> str | None:
    """Number of cases that did not run, and the reason; None if none is missing.

    For example `2 of 4 not run (the budget is spent)`.
    """
    done = record.passed + record.failed + record.errors if finished is None else finished
    missing = record.total - done
    if missing <= 0:
        return None
    return f"{missing:,} of {record.total:,} not run ({record.error or record.status})"


def list_exchange(result: CaseResult) -> Iterator[tuple[str, str]]:
    """Prompt and answer, as far as known."""
    if result.input:
        yield "asked", result.input
    if result.output or result.status == "failed":
        yield "answered", result.output or "(nothing)"


def describe_check(check: CheckResult) -> tuple[str, str]:
    """A check, and why it passed or failed: `tone`, `0.42 (needs 0.7): too curt`.

    The value goes after the name if the reason does not contain it.
    """
    title, said = check.name or check.kind, []
    if check.value is not None and check.threshold is None:
        title += f" {format_value(check.value)}"
    if check.error is not None:
        why = check.error.removeprefix(f"{check.name}: ").removeprefix(f"{check.kind}: ")
        return title, f"could not be done: {why}"
    if check.value is not None and check.threshold is not None:
        value = format_beside(format_value, check.value, check.threshold)
        value = value if check.label is None else f"{check.label!r} is {value}"
        said = [f"{value} (needs {format_value(check.threshold)})"]
    elif check.label is not None:
        said = [f"the label {check.label!r}"]
    return title, ": ".join([*said, *([check.reason] if check.reason else [])])


def list_failures(checks: Iterable[CheckResult]) -> Iterator[tuple[str, str]]:
    """The checks that failed or could not be done, each with why; those of an `or` follow it."""
    for check in checks:
        if not check.passed:
            title, why = describe_check(check)
            yield title, why or "failed"
            for part, reason in list_failures(check.parts):
                yield f"{title} / {part}", reason


def _list_errors(checks: Iterable[CheckResult]) -> Iterator[str | None]:
    for check in checks:
        yield check.error
        yield from _list_errors(check.parts)


def list_problems(result: CaseResult) -> list[tuple[str, str]]:
    """Why a result is not a pass: an error of the case itself, and its checks."""
    found = list(list_failures(result.checks))
    if result.error is not None and result.error not in _list_errors(result.checks):
        found.insert(0, ("error", result.error))
    return found if found or result.status == "passed" else [(result.status, "no reason was given")]
