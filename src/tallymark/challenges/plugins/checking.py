"""`check_plugin`: is this a plugin that a leaderboard can rest on?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from tallymark.challenges.plugins.findings import find_problems, find_warnings
from tallymark.challenges.plugins.plugin import DEFAULT_TIMEOUT_S, Plugin
from tallymark.challenges.plugins.report import PluginReport, PluginTrial
from tallymark.challenges.plugins.samples import ORDINARY, SAMPLES

CHECK_CONTEXT = {
    **dict.fromkeys(("tenant_id", "app_id", "workflow_id", "challenge_id"), "check"),
    "end_user_id": None,
}
_MOST_TIMEOUTS = 3
"""So many end the check: the rest would only take long."""


def check_plugin(
    plugin: Plugin, config: Mapping[str, Any], *, timeout_s: float = DEFAULT_TIMEOUT_S
) -> PluginReport:
    """Try a plugin on every sample; the report says what is wrong with it, if anything.

    Each is scored alone, alone again, and in a batch in another order; what comes out must not
    depend on that.
    """
    plugin.score(
        ORDINARY, config, CHECK_CONTEXT, timeout_s
    )  # a guest's start is not the plugin's time
    trials = list(_try_alone(plugin, config, timeout_s))
    if len(trials) == len(SAMPLES):
        backwards = [trial.metrics for trial in reversed(trials)]
        batched = plugin.score_many(backwards, config, CHECK_CONTEXT, timeout_s)
        for trial, score in zip(reversed(trials), batched, strict=True):
            trial.batched = score
    return PluginReport(
        name=plugin.name,
        code_hash=plugin.code_hash,
        config=dict(config),
        timeout_s=timeout_s,
        trials=trials,
        problems=list(find_problems(trials, plugin.kind)),
        warnings=list(find_warnings(trials, plugin.kind, timeout_s)),
    )


def _try_alone(
    plugin: Plugin, config: Mapping[str, Any], timeout_s: float
) -> Iterator[PluginTrial]:
    """Every sample, twice; it ends early when the plugin keeps running out of time."""
    timeouts = 0
    for name, metrics in SAMPLES.items():
        start = time.perf_counter()
        score = plugin.score(metrics, config, CHECK_CONTEXT, timeout_s)
        trial = PluginTrial(name, dict(metrics), score, time.perf_counter() - start)
        timeouts += trial.timed_out
        if not trial.timed_out:
            trial.again = plugin.score(metrics, config, CHECK_CONTEXT, timeout_s)
        yield trial
        if timeouts == _MOST_TIMEOUTS:
            return
