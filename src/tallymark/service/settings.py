"""Settings of a server, or of one's own store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallymark.sandbox.policy import choose_policy
from tallymark.service.proxy import Networks, Proxy, read_proxy_settings
from tallymark.service.remote_suites import RemoteRules
from tallymark.service.telemetry import read_endpoint

if TYPE_CHECKING:
    from tallymark.engine.engine_choice import EngineChoice
    from tallymark.sandbox import Policy
    from tallymark.service.demo import Demo

CORS_VARIABLE = "TALLY_CORS_ORIGINS"
METRICS_VARIABLE = "TALLY_METRICS_FROM"
LOOPBACK = "127.0.0.0/8,::1"


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Settings of an operator."""

    db: str | None = None
    upgrade: bool = False
    """True if older tables are upgraded; otherwise they are refused."""
    workers: int = 2
    """Scorings, and as many long jobs, at once in this process; 0 leaves them to `tally worker`."""
    own: bool = False
    """A local store on loopback: anyone who reaches it is its owner and needs no key."""
    demo: Demo | None = None
    """An example that plays on while it is served, and that anybody may look at."""
    policy: Policy | None = None
    judge_model: str | None = None
    engine: EngineChoice | None = None
    """Engine for plugins over very many attempts; None is this process."""
    on_progress: Callable[[int, int | None], None] | None = None
    """Called with the number of attempts that are scored again so far, and of all."""
    rules: RemoteRules = field(default_factory=RemoteRules)
    proxy: Proxy | None = None
    cors: tuple[str, ...] = ()
    """Other sites whose pages may use the API in a browser."""
    metrics_from: Networks = field(default_factory=lambda: Networks.read(LOOPBACK))
    """Addresses that may read `/metrics` without a key; they show the traffic of all tenants."""


def read_settings(
    environment: Mapping[str, str], *, insecure_local: bool = False, **given: object
) -> ServiceSettings:
    """The settings that variables make, and those that are given."""
    read_endpoint(environment)  # refused before anything starts, in a sentence
    origins = environment.get(CORS_VARIABLE, "").split(",")
    return ServiceSettings(
        policy=choose_policy(insecure_local=True) if insecure_local else None,
        rules=RemoteRules.from_environment(environment),
        proxy=read_proxy_settings(environment),
        metrics_from=Networks.read(environment.get(METRICS_VARIABLE, LOOPBACK), METRICS_VARIABLE),
        cors=tuple(each.strip() for each in origins if each.strip()),
        **given,  # type: ignore[arg-type]
    )
