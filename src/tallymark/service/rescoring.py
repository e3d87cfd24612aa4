"""Rescoring as organisers ask for it: shown at once or done, or handed to a worker as a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.challenges.challenge_folder import pack
from tallymark.challenges.rescore_plan import Rescoring
from tallymark.service.what_if import WhatIfRule, change_rule

if TYPE_CHECKING:
    from tallymark.service.callers import Caller
    from tallymark.service.tenant import TenantServices
    from tallymark.store.jobs.jobs import Job

MOST_AT_ONCE = 2_000
"""Attempts that are scored anew while somebody waits for a page; more are a job."""


@dataclass(frozen=True, kw_only=True)
class NewRule:
    """By what to rescore: changes to the scoring, or the files of a new version."""

    changes: Mapping[str, Any]
    """As the API takes them: formula, weights, config, plugin, strategy; those that are given."""
    folder: Path | None = None

    def read_scoring(self, services: TenantServices, name: str) -> dict[str, Any]:
        """The fields of the scoring that change; `weights` are those of the dimensions."""
        scoring = dict(self.changes)
        if (weights := scoring.pop("weights", None)) is not None:
            old = services.store.challenges.get(name)
            scoring["dimensions"] = change_rule(old, WhatIfRule(weights=weights)).scoring.dimensions
        return scoring


def preview_rescoring(services: TenantServices, name: str, rule: NewRule) -> Rescoring:
    """Who would move, and what would change; nothing is."""
    scoring = rule.read_scoring(services, name)
    return services.competition.rescore(name, folder=rule.folder, **scoring)


def is_large(services: TenantServices, name: str, rule: NewRule) -> bool:
    """Whether it takes so long that nobody should wait for it."""
    if services.store.challenges.get(name).kind == "versus":
        return False  # which is refused at once
    if rule.folder is None:
        scoring = rule.read_scoring(services, name)
        if services.competition.rescores_quickly(name, **scoring):
            return False
    return services.store.figures.count_attempts(name) > MOST_AT_ONCE


def apply_rescoring(services: TenantServices, name: str, rule: NewRule, **how: Any) -> Rescoring:
    """Does it; `how` are `reason` and `based_on`, as `Competition.rescore` takes them."""
    scoring = rule.read_scoring(services, name)
    return services.competition.rescore(name, folder=rule.folder, apply=True, **how, **scoring)


def queue_rescoring(
    services: TenantServices, caller: Caller, name: str, rule: NewRule, **how: Any
) -> Job:
    """Has a worker do it; with `apply=False` the preview alone, which is the job's result then."""
    scoring = rule.read_scoring(services, name)
    if rule.folder is not None:
        how["packed"] = pack(rule.folder)
    return services.jobs.queue_rescoring(caller, name, scoring, **how)
