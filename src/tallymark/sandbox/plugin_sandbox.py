"""`Sandbox`: scores attempts by untrusted plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tallymark.sandbox.limits import DEFAULT_PLUGIN_TIMEOUT_S, Limits
from tallymark.sandbox.plugins.attempt_exchange import PluginJob
from tallymark.sandbox.plugins.guest_pool import Pool
from tallymark.sandbox.plugins.plugin_calls import Calls, DeadlyCalls, score_batch
from tallymark.sandbox.policy import Policy, choose_policy
from tallymark.scoring.plugin_contract import require_mapping
from tallymark.scoring.score import Origin, Score

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tallymark.sandbox.plugins.plugin_files import PluginCode

_LIMITS = Limits()


class Sandbox:
    """Owns the warm guests of any number of plugins. Thread-safe; `close` ends them all.

    A guest is replaced after `recycle_after` calls, and ended after `idle_s` without one.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        limits: Limits = _LIMITS,
        recycle_after: int = 5000,
        idle_s: float = 60.0,
    ) -> None:
        self.policy = choose_policy() if policy is None else policy
        self.limits = limits
        self._pool = Pool(self.policy.backend, limits, recycle_after=recycle_after, idle_s=idle_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every guest, once the calls under way have ended."""
        self._pool.close()

    def score(
        self,
        code: PluginCode,
        metrics: Mapping[str, Any],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],
        *,
        timeout_s: float = DEFAULT_PLUGIN_TIMEOUT_S,
    ) -> Score:
        """One attempt's score; any failure is a failed score with its cause."""
        return self.score_many(code, [metrics], config, ctx, timeout_s=timeout_s)[0]

    def score_many(  # noqa: PLR0913 (each says one thing about the calls)
        self,
        code: PluginCode,
        attempts: Sequence[Mapping[str, Any]],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],
        *,
        users: Sequence[str | None] | None = None,
        timeout_s: float = DEFAULT_PLUGIN_TIMEOUT_S,
        deadly: DeadlyCalls | None = None,
    ) -> list[Score]:
        """The scores that `score` would give each of the attempts.

        `users` has the agent of each attempt: `ctx["end_user_id"]`, the only value of a context
        that differs between attempts at a challenge. An agent whose attempts cost five processes is
        paused: its other attempts are not run. `deadly` has the earlier counts.
        """
        calls = self._make_calls(code, config, ctx, timeout_s, deadly)
        whose = [ctx.get("end_user_id")] * len(attempts) if users is None else users
        return self._add_warnings(score_batch(calls, list(zip(attempts, whose, strict=True))))

    def is_warm(self, code: PluginCode) -> bool:
        """True if a guest of this plugin is running."""
        return self._pool.warm(code)

    def _make_calls(
        self,
        code: PluginCode,
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],
        timeout_s: float,
        deadly: DeadlyCalls | None,
    ) -> Calls:
        require_mapping("config", config)
        require_mapping("context", ctx)
        job = PluginJob(code, self.limits, config=config, ctx=ctx, timeout_s=timeout_s)
        origin = Origin(code.name, code.code_hash, dict(config))
        return Calls(
            job, origin, pool=self._pool, deadly=DeadlyCalls() if deadly is None else deadly
        )

    def _add_warnings(self, scores: list[Score]) -> list[Score]:
        """Add the policy's warning to every score made without a sandbox."""
        if self.policy.warnings:
            for score in scores:
                score.metadata["warning"] = "; ".join(self.policy.warnings)
        return scores
