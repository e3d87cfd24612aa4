"""`Plugin`: a scorer plugin as the host sees it; built in, or code in the sandbox."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

from tallymark.errors import ScorerError
from tallymark.instrumentation import watch
from tallymark.sandbox.limits import DEFAULT_PLUGIN_TIMEOUT_S
from tallymark.scoring import (
    AttemptMetrics,
    Origin,
    Score,
    ScorerProtocol,
    WeightedScorer,
    plugin_score,
)
from tallymark.scoring.plugin_contract import require_mapping

if TYPE_CHECKING:
    from tallymark.sandbox import PluginCode, Sandbox

PluginKind: TypeAlias = Literal["sandboxed", "formula", "built-in"]


class Plugin(Protocol):
    """Scores attempts. Any failure is a failed `Score`; every Score has its origin."""

    @property
    def kind(self) -> PluginKind:
        """Backend: the sandbox, a formula, or our own code in this process."""
        ...

    @property
    def name(self) -> str:
        """The reference it was found by."""
        ...

    @property
    def code_hash(self) -> str:
        """Equal for equal code."""
        ...

    def score(
        self,
        metrics: Mapping[str, Any],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],
        timeout_s: float = DEFAULT_PLUGIN_TIMEOUT_S,
    ) -> Score:
        """The score of one attempt."""
        ...

    def score_many(
        self,
        attempts: Sequence[Mapping[str, Any]],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],
        timeout_s: float = DEFAULT_PLUGIN_TIMEOUT_S,
        users: Sequence[str | None] | None = None,
    ) -> list[Score]:
        """Score many attempts, each as `score` would.

        `users` names the user of each, in place of `ctx["end_user_id"]`.
        """
        ...


class _ScoresMany:
    """One attempt is scored as many are."""

    def score(
        self: Plugin,
        metrics: Mapping[str, Any],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],
        timeout_s: float = DEFAULT_PLUGIN_TIMEOUT_S,
    ) -> Score:
        return self.score_many([metrics], config, ctx, timeout_s)[0]


BUILTINS: Mapping[str, type[ScorerProtocol]] = {
    "builtin.weighted_scorer": WeightedScorer,
    "services.scorers.weighted:WeightedScorer": WeightedScorer,
}
"""Names of the built-in plugins."""


class BuiltinPlugin(_ScoresMany):
    """A built-in class behind the `Plugin` protocol; it runs in this process, without a timeout.

    A leaderboard with it must work on a machine without a sandbox.
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

    def score_many(
        self,
        attempts: Sequence[Mapping[str, Any]],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],  # noqa: ARG002 (ours look at no context)
        timeout_s: float = DEFAULT_PLUGIN_TIMEOUT_S,  # noqa: ARG002
        users: Sequence[str | None] | None = None,  # noqa: ARG002
    ) -> list[Score]:
        origin = Origin(self.name, self.code_hash, dict(require_mapping("config", config)))
        return [self._score(metrics, origin) for metrics in attempts]

    def _score(self, metrics: Mapping[str, Any], origin: Origin) -> Score:
        try:
            result = self._class().score(cast("AttemptMetrics", metrics), origin.config, {})
        except ScorerError as error:
            return Score(None, "", {"stopped": "raised"}, str(error), None, origin)
        return plugin_score(result, origin=origin)


class SandboxedPlugin(_ScoresMany):
    """Untrusted Python code behind the `Plugin` protocol: every call runs in the sandbox."""

    kind: Literal["sandboxed"] = "sandboxed"

    def __init__(self, code: PluginCode, sandbox: Sandbox) -> None:
        self.code = code
        self._sandbox = sandbox
        self.name = code.name
        self.code_hash = code.code_hash
        self.deaths: dict[str, tuple[int, str]] = {}
        """Number of process crashes by agent; agents with too many are not run."""

    def copy(self, deaths: Mapping[str, tuple[int, str]]) -> SandboxedPlugin:
        """The plugin for another caller, with its crash counts."""
        other = SandboxedPlugin(self.code, self._sandbox)
        other.deaths = dict(deaths)
        return other

    @property
    def sandbox_facts(self) -> dict[str, Any]:
        """Behind which walls it runs, and within which limits."""
        sandbox = self._sandbox
        return {"backend": sandbox.policy.backend, "memory_mb": sandbox.limits.memory_mb}

    def score_many(
        self,
        attempts: Sequence[Mapping[str, Any]],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],
        timeout_s: float = DEFAULT_PLUGIN_TIMEOUT_S,
        users: Sequence[str | None] | None = None,
    ) -> list[Score]:
        # Without those that have no value: the plugin document's own example multiplies
        # `metrics.get("rating", 0)`, and a None would raise.
        known = [{name: each[name] for name in each if each[name] is not None} for each in attempts]
        told = {**require_mapping("context", ctx), "timeout_ms": round(timeout_s * 1000)}
        # Loaded with the walls, which most of what is done with challenges does without.
        from tallymark.sandbox import DeadlyCalls  # noqa: PLC0415

        deadly = DeadlyCalls(self.deaths)
        with watch("sandbox", kind="plugin") as work:
            scores = self._sandbox.score_many(
                self.code, known, config, told, users=users, timeout_s=timeout_s, deadly=deadly
            )
            for each in scores:
                failed = "ok" if each.error is None else "failed"
                work.outcomes[str(each.metadata.get("stopped") or failed)] += 1
        return scores
