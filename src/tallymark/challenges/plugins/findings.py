"""What the trials of a plugin show: problems, which fail its check, and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tallymark.challenges.plugins.plugin import Kind
from tallymark.challenges.plugins.report import Trial, number
from tallymark.challenges.plugins.samples import ORDINARY, SAMPLES, twin
from tallymark.scoring import Score


def problems(trials: Sequence[Trial], kind: Kind) -> Iterator[str]:
    """Why a leaderboard cannot rest on it."""
    yield from _unscored(trial for trial in trials if not _excused(trial, kind))
    if len(trials) < len(SAMPLES):
        yield f"the check ended early, after {len(trials)} of {len(SAMPLES)} attempts"
    yield from _first(list(_unsteady(trials)) or list(_depending(trials)))
    yield from _first(list(_upside_down(trials)))


def warnings(trials: Sequence[Trial], kind: Kind, timeout_s: float) -> Iterator[str]:
    """What its author may want to know."""
    yield from _unscored(trial for trial in trials if _excused(trial, kind))
    low = {t.name: t.score.metadata["clamped_from"] for t in trials if t.clamped}
    if low:
        least = number(min(low.values()))
        yield f"scores below 0, down to {least}, count as 0: {_listed(low)}"
    values = {trial.score.value for trial in trials}
    if len(values) == 1 and None not in values:
        yield f"every attempt gets the same score, {number(trials[0].score.value)}"
    slowest = max(trials, key=lambda trial: trial.seconds)
    if slowest.seconds > timeout_s / 2 and not slowest.timed_out:
        yield f"{slowest.name}: took {slowest.seconds:.2g} s, and {timeout_s:g} s is the timeout"
    said = (trial.score.metadata.get("warning") for trial in trials)
    yield from dict.fromkeys(each for each in said if each)


def _excused(trial: Trial, kind: Kind) -> bool:
    """A formula cannot do without a metric that it names; a class can."""
    return kind == "formula" and any(trial.metrics.get(name) is None for name in ORDINARY)


def _unscored(trials: Iterable[Trial]) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for trial in trials:
        if trial.score.error is not None:
            reasons.setdefault(trial.score.error, []).append(trial.name)
    for reason, names in reasons.items():
        yield f"no score: {reason} ({_listed(names)})"


def _unsteady(trials: Iterable[Trial]) -> Iterator[str]:
    for trial in trials:
        if trial.again is not None and _essence(trial.again) != _essence(trial.score):
            yield f"not deterministic: {trial.name}: {_both(trial.score, trial.again)}"


def _depending(trials: Iterable[Trial]) -> Iterator[str]:
    said = "what was scored before makes a difference"
    scores = [(trial, trial.batched) for trial in trials if trial.batched is not None]
    for trial, batched in scores:
        if _essence(batched) != _essence(trial.score):
            yield f"{said}: {trial.name}: {_both(trial.score, batched)} in a batch"
    if any(batched.metadata.get("stateful") for _, batched in scores):
        yield f"{said}: the sandbox saw it in a batch"


def _upside_down(trials: Sequence[Trial]) -> Iterator[str]:
    by_name = {trial.name: trial.score.value for trial in trials}
    for name, passed in by_name.items():
        failed = by_name.get(twin(name))
        if passed is not None and failed is not None and failed > passed:
            yield (
                f"failing pays: {name}: {number(failed)} if it failed, "
                f"{number(passed)} if it succeeded"
            )


def _first(found: list[str]) -> Iterator[str]:
    """The first as an example, and how many more there are."""
    for example in found[:1]:
        yield example + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")


def _essence(score: Score) -> tuple[Any, ...]:
    """What must not change from call to call."""
    metadata = score.metadata
    return (score.value, *(metadata.get(key) for key in ("details", "clamped_from", "stopped")))


def _both(one: Score, other: Score) -> str:
    more = " with other details" if one.value == other.value else ""
    return f"{number(one.value)} and {number(other.value)}{more}"


def _listed(names: Iterable[str]) -> str:
    first, *others = names
    if len(others) < 3:
        return "; ".join([first, *others])
    return f"{first} and {len(others)} more"
