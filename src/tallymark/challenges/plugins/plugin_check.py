"""`check_plugin`: can a leaderboard rest on this plugin? And the attempts that it is tried on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tallymark.challenges.plugins.plugin import Plugin, PluginKind
from tallymark.challenges.plugins.plugin_report import (
    PluginReport,
    PluginTrial,
    format_score,
    twin_name,
)
from tallymark.sandbox.limits import DEFAULT_PLUGIN_TIMEOUT_S
from tallymark.scoring import Score
from tallymark.text import format_number, format_seconds

ORDINARY: dict[str, Any] = {
    "succeeded": True,
    "tokens_total": 1500,
    "elapsed_ms": 12_000,
    "rating": 8,
    "created_at": 1_760_000_000_000,
}
_NUMBERS = tuple(name for name in ORDINARY if name != "succeeded")
_LARGEST = 2**63 - 1
"""Range of a database's integers."""


def _make_succeeded() -> dict[str, dict[str, Any]]:
    return {
        "ordinary": ORDINARY,
        "excellent": ORDINARY | {"tokens_total": 200, "elapsed_ms": 900, "rating": 10},
        "poor": ORDINARY | {"tokens_total": 90_000, "elapsed_ms": 600_000, "rating": 1},
        "fractions": ORDINARY | {"tokens_total": 1500.5, "elapsed_ms": 12_000.5, "rating": 7.5},
        **{f"without {name}": _leave_out(name) for name in _NUMBERS},
        **{f"{name} 0": ORDINARY | {name: 0} for name in _NUMBERS},
        "only succeeded": {"succeeded": True},
        "all 0": {"succeeded": True, **dict.fromkeys(_NUMBERS, 0)},
        "all null": {"succeeded": True, **dict.fromkeys(_NUMBERS)},
        "huge tokens and time": ORDINARY | {"tokens_total": _LARGEST, "elapsed_ms": _LARGEST},
        "rating 1000": ORDINARY | {"rating": 1000},
        "negative numbers": {"succeeded": True, **dict.fromkeys(_NUMBERS, -5)},
    }


def _leave_out(name: str) -> dict[str, Any]:
    return {key: value for key, value in ORDINARY.items() if key != name}


SUCCEEDED: Mapping[str, Mapping[str, Any]] = _make_succeeded()
SAMPLES: Mapping[str, Mapping[str, Any]] = {
    **SUCCEEDED,
    **{twin_name(name): {**metrics, "succeeded": False} for name, metrics in SUCCEEDED.items()},
    "without succeeded": _leave_out("succeeded"),
    "nothing known": {},
}
"""By name. Each one that succeeded has a twin that failed."""

CHECK_CONTEXT = {
    **dict.fromkeys(("tenant_id", "app_id", "workflow_id", "challenge_id"), "check"),
    "end_user_id": None,
}
_MOST_TIMEOUTS = 3
"""Number of timeouts after which the check ends, because it would only take long."""


def check_plugin(
    plugin: Plugin, config: Mapping[str, Any], *, timeout_s: float = DEFAULT_PLUGIN_TIMEOUT_S
) -> PluginReport:
    """Try a plugin on every sample; the report lists what is wrong with it.

    Each sample is scored twice and must have the same score both times.
    """
    # Once ahead: the time that a guest takes to start is not the plugin's.
    plugin.score(ORDINARY, config, CHECK_CONTEXT, timeout_s)
    trials = list(_try_samples(plugin, config, timeout_s))
    return PluginReport(
        name=plugin.name,
        code_hash=plugin.code_hash,
        config=dict(config),
        timeout_s=timeout_s,
        trials=trials,
        problems=list(find_problems(trials, plugin.kind)),
        warnings=list(find_warnings(trials, plugin.kind, timeout_s)),
    )


def _try_samples(
    plugin: Plugin, config: Mapping[str, Any], timeout_s: float
) -> Iterator[PluginTrial]:
    """Score every sample twice; end early if the plugin keeps timing out."""
    timeouts = 0
    for name, metrics in SAMPLES.items():
        start = time.perf_counter()
        score = plugin.score(metrics, config, CHECK_CONTEXT, timeout_s)
        trial = PluginTrial(name, dict(metrics), score, time.perf_counter() - start)
        # A plugin that is never loaded takes as long, and is called something else.
        slow = trial.timed_out or trial.seconds > timeout_s
        timeouts += slow
        if not slow:
            trial.again = plugin.score(metrics, config, CHECK_CONTEXT, timeout_s)
        yield trial
        if timeouts == _MOST_TIMEOUTS:
            return


def find_problems(trials: Sequence[PluginTrial], kind: PluginKind) -> Iterator[str]:
    """Why a leaderboard cannot rest on it."""
    yield from _report_unscored(trial for trial in trials if not _is_excused(trial, kind))
    if len(trials) < len(SAMPLES):
        yield f"the check ended early, after {len(trials)} of {len(SAMPLES)} attempts"
    yield from _quote_first(list(_find_unsteady(trials)))
    possible = [trial for trial in trials if kind != "formula" or not _is_negative(trial)]
    yield from _quote_first(list(_find_paying_failures(possible)))


def find_warnings(
    trials: Sequence[PluginTrial], kind: PluginKind, timeout_s: float
) -> Iterator[str]:
    """Notes for the plugin's author."""
    yield from _report_unscored(trial for trial in trials if _is_excused(trial, kind))
    low = {t.name: t.score.metadata["clamped_from"] for t in trials if t.clamped}
    if low:
        least = format_score(min(low.values()))
        yield f"scores below 0, down to {least}, count as 0: {_list_names(low)}"
    values = {trial.score.value for trial in trials}
    if len(values) == 1 and None not in values:
        yield f"every attempt gets the same score, {format_score(trials[0].score.value)}"
    slowest = max(trials, key=lambda trial: trial.seconds)
    if slowest.seconds > timeout_s / 2 and not slowest.timed_out:
        took, timeout = format_seconds(slowest.seconds), format_number(timeout_s)
        yield f"{slowest.name}: took {took}, and {timeout} s is the timeout"
    said = (trial.score.metadata.get("warning") for trial in trials)
    yield from dict.fromkeys(each for each in said if each)


def _is_excused(trial: PluginTrial, kind: PluginKind) -> bool:
    """A formula cannot do without a metric that it names; a class can."""
    return kind == "formula" and any(trial.metrics.get(name) is None for name in ORDINARY)


def _is_negative(trial: PluginTrial) -> bool:
    """True if a metric is below the range that formulas assume (`METRICS`)."""
    return any((trial.metrics.get(name) or 0) < 0 for name in _NUMBERS)


def _report_unscored(trials: Iterable[PluginTrial]) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for trial in trials:
        if trial.score.error is not None:
            reasons.setdefault(trial.score.error, []).append(trial.name)
    for reason, names in reasons.items():
        yield f"no score: {reason} ({_list_names(names)})"


def _find_unsteady(trials: Iterable[PluginTrial]) -> Iterator[str]:
    for trial in trials:
        if trial.again is not None and _take_essence(trial.again) != _take_essence(trial.score):
            yield f"not deterministic: {trial.name}: {_quote_both(trial.score, trial.again)}"


def _find_paying_failures(trials: Sequence[PluginTrial]) -> Iterator[str]:
    by_name = {trial.name: trial.score.value for trial in trials}
    for name, passed in by_name.items():
        failed = by_name.get(twin_name(name))
        if passed is not None and failed is not None and failed > passed:
            yield (
                f"failing pays: {name}: {format_score(failed)} if it failed, "
                f"{format_score(passed)} if it succeeded"
            )


def _quote_first(found: list[str]) -> Iterator[str]:
    """The first as an example, and how many more there are."""
    for example in found[:1]:
        yield example + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")


def _take_essence(score: Score) -> tuple[Any, ...]:
    """The part of a score that must be the same in every call."""
    metadata = score.metadata
    return (score.value, *(metadata.get(key) for key in ("details", "clamped_from", "stopped")))


def _quote_both(one: Score, other: Score) -> str:
    more = " with other details" if one.value == other.value else ""
    return f"{format_score(one.value)} and {format_score(other.value)}{more}"


def _list_names(names: Iterable[str]) -> str:
    first, *others = names
    if len(others) < 3:
        return "; ".join([first, *others])
    return f"{first} and {len(others)} more"
