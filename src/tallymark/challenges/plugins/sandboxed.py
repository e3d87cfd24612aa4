"""A plugin that is somebody's Python code: every call goes to the sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tallymark.challenges.plugins.plugin import DEFAULT_TIMEOUT_S, add_timeout, drop_unknown

if TYPE_CHECKING:
    from tallymark.sandbox import PluginCode, Sandbox
    from tallymark.scoring import Score


class SandboxedPlugin:
    """Somebody's Python code behind the `Plugin` protocol: every call goes to the sandbox."""

    kind: Literal["sandboxed"] = "sandboxed"

    def __init__(self, code: PluginCode, sandbox: Sandbox) -> None:
        self._code = code
        self._sandbox = sandbox
        self.name = code.name
        self.code_hash = code.code_hash

    def score(
        self,
        metrics: Mapping[str, Any],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Score:
        return self._sandbox.score(
            self._code,
            drop_unknown(metrics),
            config,
            add_timeout(ctx, timeout_s),
            timeout_s=timeout_s,
        )

    def score_many(
        self,
        attempts: Sequence[Mapping[str, Any]],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],
        timeout_s: float = DEFAULT_TIMEOUT_S,
        users: Sequence[str | None] | None = None,
    ) -> list[Score]:
        return self._sandbox.score_many(
            self._code,
            [drop_unknown(metrics) for metrics in attempts],
            config,
            add_timeout(ctx, timeout_s),
            users=users,
            timeout_s=timeout_s,
        )
