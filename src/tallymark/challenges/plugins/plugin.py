"""`Plugin`: a scorer plugin as the host sees it, wherever its code runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from tallymark.challenges.definition import DEFAULT_PLUGIN_TIMEOUT_MS
from tallymark.scoring import Score

PluginKind: TypeAlias = Literal["sandboxed", "formula", "built-in"]
DEFAULT_TIMEOUT_S = DEFAULT_PLUGIN_TIMEOUT_MS / 1000
"""How long one call may take, where nobody says otherwise."""


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
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Score:
        """The score of one attempt."""
        ...

    def score_many(
        self,
        attempts: Sequence[Mapping[str, Any]],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],
        timeout_s: float = DEFAULT_TIMEOUT_S,
        users: Sequence[str | None] | None = None,
    ) -> list[Score]:
        """The scores of many attempts, each as `score` would give it.

        `users` says for each whose it is, in place of `ctx["end_user_id"]`.
        """
        ...


def drop_unknown(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics that have a value.

    The plugin document's own example multiplies `metrics.get("rating", 0)`: a None would raise.
    """
    return {name: value for name, value in metrics.items() if value is not None}


def add_timeout(ctx: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """The context as a plugin gets it, with the timeout that holds."""
    return {**ctx, "timeout_ms": round(timeout_s * 1000)}
