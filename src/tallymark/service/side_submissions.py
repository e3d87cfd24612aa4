"""What was submitted to red or blue: for who sent it and for organisers, and never for others.

Ids can be counted through, so to others one that is not theirs is as if there were none.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import msgspec

from tallymark.challenges.kept_submission import KeptSideSubmission, SideVerdict
from tallymark.challenges.versus.pairings import JUDGE_FAILED, BreachVerdict, require_versus
from tallymark.service.visibility import find_visible, sees_live, view_challenge
from tallymark.store.contests.versus_rows import explain_unknown_submission

if TYPE_CHECKING:
    from tallymark.challenges.versus.pairings import Side, SideSubmission
    from tallymark.service.callers import Caller
    from tallymark.service.tenant import TenantServices
    from tallymark.store import Store


def list_side_submissions(  # noqa: PLR0913 (whose, and which part)
    services: TenantServices,
    caller: Caller,
    name: str,
    *,
    agent: str | None = None,
    side: Side | None = None,
    before: int | None = None,
    limit: int,
) -> list[SideSubmission]:
    """One's own, or for organisers all, the newest first."""
    require_versus(find_visible(services, caller, name).challenge)
    if not sees_live(caller):
        if caller.agent is None or agent not in (None, caller.agent):
            return []
        agent = caller.agent
    return services.store.versus.newest(name, player=agent, side=side, before=before, limit=limit)


def find_side_submission(
    services: TenantServices, caller: Caller, name: str, submission: int
) -> KeptSideSubmission:
    """One as the caller may read it.

    A judge's words quote both sides, so players read them when all is over. From a freeze on, they
    see no more of those who came later than submitting told them.
    """
    view = view_challenge(services, caller, name)
    require_versus(view.stored.challenge)
    found = services.store.versus.find(name, submission)
    if sees_live(caller):
        return read_side_submission(services.store, name, found)
    if caller.agent is None or caller.agent != found.player:
        raise explain_unknown_submission(name, submission)
    told = read_side_submission(services.store, name, found, frozen_at=view.frozen)
    hides = not view.shows_words
    return msgspec.structs.replace(
        told, verdicts=[_withhold(each, hides) for each in told.verdicts]
    )


def _withhold(verdict: SideVerdict, hides_reason: bool) -> SideVerdict:
    error = None if verdict.error is None else JUDGE_FAILED
    reason = "" if hides_reason else verdict.reason
    return msgspec.structs.replace(verdict, error=error, reason=reason)


def read_side_submission(
    store: Store, name: str, found: SideSubmission, *, frozen_at: float | None = None
) -> KeptSideSubmission:
    """All of a submission; with `frozen_at`, without verdicts on who came after that."""
    until = inf if frozen_at is None else frozen_at
    players = {each.id: each.player for each in store.versus.submissions(name)}
    (newest,) = store.versus.newest(name, player=found.player, side=found.side, limit=1)
    verdicts = []
    for each in store.versus.verdicts(name, submission=found.id):
        other = each.blue if each.red == found.id else each.red
        if until == inf or other < found.id or (each.judged_at or inf) < until:
            verdicts.append(_tell_verdict(each, players[other]))
    return KeptSideSubmission(
        **msgspec.structs.asdict(found),
        challenge=name,
        format=store.challenges.get_version(name, found.version).submission.format,
        content=store.versus.content(found.id),
        active=newest.id == found.id,
        verdicts=verdicts,
    )


def _tell_verdict(verdict: BreachVerdict, opponent: str) -> SideVerdict:
    names = set(SideVerdict.__struct_fields__) - {"opponent"}
    return SideVerdict(opponent=opponent, **{name: getattr(verdict, name) for name in names})
