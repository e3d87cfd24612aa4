"""`Plugin`: a scorer plugin as the host sees it; one of ours, or code in the sandbox."""

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
    """Scores attempts. Whatever goes wrong is a failed `Score`; every Score has its origin."""

    @property
    def kind(self) -> PluginKind:
        """Where it runs: in the sandbox, as a formula, or as our own code in this process."""
        ...

    @property
    def name(self) -> str:
        """As it was referred to."""
        ...

    @property
    def code_hash(self) -> str:
        """The same wherever the same code is."""
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
        """The scores of many attempts, each as `score` would give it.

        `users` says for each whose it is, in place of `ctx["end_user_id"]`.
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
"""What a reference may call them."""


class BuiltinPlugin(_ScoresMany):
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
    """Somebody's Python code behind the `Plugin` protocol: every call goes to the sandbox."""

    kind: Literal["sandboxed"] = "sandboxed"

    def __init__(self, code: PluginCode, sandbox: Sandbox) -> None:
        self.code = code
        self._sandbox = sandbox
        self.name = code.name
        self.code_hash = code.code_hash
        self.deaths: dict[str, tuple[int, str]] = {}
        """How often each agent's attempts ended the process: who did so too often is not run."""

    def copy(self, deaths: Mapping[str, tuple[int, str]]) -> SandboxedPlugin:
        """The same code for another caller, who knows this of agents."""
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
