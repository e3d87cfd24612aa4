"""Plugins that Tallymark brings along."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, cast

from tallymark.challenges.plugins.plugin import DEFAULT_TIMEOUT_S
from tallymark.errors import ScorerError
from tallymark.scoring import (
    AttemptMetrics,
    Origin,
    Score,
    ScorerProtocol,
    WeightedScorer,
    plugin_score,
)

BUILTINS: Mapping[str, type[ScorerProtocol]] = {
    "builtin.weighted_scorer": WeightedScorer,
    "services.scorers.weighted:WeightedScorer": WeightedScorer,
}
"""What a reference may call them."""


class BuiltinPlugin:
    """A class of ours behind the `Plugin` protocol; it runs in this process, without a timeout.

    A leaderboard with it has to work on a machine without a sandbox, too.
    """

    kind: Literal["built-in"] = "built-in"

    def __init__(self, name: str) -> None:
        self.name = name
        self._class = BUILTINS[name]

    @cached_property
    def code_hash(self) -> str:
        # Of the whole module, because what the class calls there makes its scores too.
        source = inspect.getsource(inspect.getmodule(self._class) or self._class)
        return hashlib.sha256(source.encode()).hexdigest()

    def score(
        self,
        metrics: Mapping[str, Any],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Score:
        return self.score_many([metrics], config, ctx, timeout_s)[0]

    def score_many(
        self,
        attempts: Sequence[Mapping[str, Any]],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],  # noqa: ARG002 (ours look at no context)
        timeout_s: float = DEFAULT_TIMEOUT_S,  # noqa: ARG002
        users: Sequence[str | None] | None = None,  # noqa: ARG002
    ) -> list[Score]:
        origin = Origin(self.name, self.code_hash, dict(config))
        return [self._score(metrics, origin) for metrics in attempts]

    def _score(self, metrics: Mapping[str, Any], origin: Origin) -> Score:
        try:
            result = self._class().score(cast("AttemptMetrics", metrics), origin.config, {})
        except ScorerError as error:
            return Score(None, "", {"stopped": "raised"}, str(error), None, origin)
        return plugin_score(result, origin=origin)
