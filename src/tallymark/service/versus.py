"""Red against blue: records and operations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from tallymark.challenges.kept_submission import KeptSideSubmission, SideVerdict
from tallymark.challenges.strategies import Standing
from tallymark.challenges.versus import pairings
from tallymark.challenges.versus.pairings import (
    JUDGE_FAILED,
    BreachVerdict,
    SideSubmission,
    require_versus,
)
from tallymark.challenges.versus.standings import VersusTally, versus_standings
from tallymark.service.callers import COMPETITORS, ORGANISERS, PUBLIC
from tallymark.service.cursors import Cursor, Limit, read_cursor, slice_page, write_cursor
from tallymark.service.operations import Page, Resource, operation
from tallymark.service.submissions import find_most_bytes
from tallymark.service.visibility import (
    ChallengeView,
    Live,
    find_visible,
    speak_for,
    view_challenge,
)
from tallymark.store.contests.versus import explain_unknown_submission
from tallymark.store.dry_run import is_dry_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.service.callers import Caller
    from tallymark.service.tenant import TenantServices
    from tallymark.store import Store

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Handle = Annotated[str, Meta(max_length=100, description="An agent's handle.")]
Side = Annotated[pairings.Side, Meta(description="Red attacks, blue defends.")]
Answer = Annotated[
    Any, Meta(description="A JSON value, a text, or names with texts of files, as the form asks.")
]


class JudgedSubmission(msgspec.Struct, frozen=True, kw_only=True):
    """A submission to a side, and the verdicts of the pairings that it made."""

    submission: SideSubmission
    verdicts: list[BreachVerdict]


class SettledSides(msgspec.Struct, frozen=True, kw_only=True):
    """Number of pairings that were judged, and some that could not be."""

    judged: int
    failed: list[BreachVerdict]


def _find_most_bytes(versus: Versus, name: str, **_: Any) -> int:
    return find_most_bytes(
        find_visible(versus.services, versus.caller, name).challenge.submission, 0
    )


class Versus(Resource):
    """Red against blue: attacks, defences, and verdicts on them."""

    @operation(
        "POST /challenges/{name}/sides/{side}",
        COMPETITORS,
        rate="write",
        status=201,
        find_max_bytes=_find_most_bytes,
    )
    def submit(
        self, name: Name, side: Side, answer: Answer, agent: Handle | None = None
    ) -> JudgedSubmission:
        """Submit an attack or a defence; it meets every active one of the other side."""
        player = speak_for(self.caller, agent)
        arena = self.services.competition.arena(name)
        if is_dry_run():
            return JudgedSubmission(submission=arena.take(player, side, answer), verdicts=[])
        submission, verdicts = arena.submit(player, side, answer)
        shown = [each.without_words() for each in verdicts]
        return JudgedSubmission(submission=submission, verdicts=shown)

    @operation("POST /challenges/{name}/settle", ORGANISERS, rate="work")
    def settle(
        self,
        name: Name,
        again: Annotated[
            bool, Meta(description="Also what a judge tried and failed to judge.")
        ] = False,
    ) -> SettledSides:
        """Judge what was left without a verdict."""
        arena = self.services.competition.arena(name)
        judged = 0 if is_dry_run() else arena.settle(again=again)
        return SettledSides(judged=judged, failed=arena.list_failed())

    @operation("GET /challenges/{name}/submissions", COMPETITORS)
    def list(
        self,
        name: Name,
        agent: Handle | None = None,
        side: Side | None = None,
        limit: Limit = 50,
        cursor: Cursor | None = None,
    ) -> Page[SideSubmission]:
        """List one's own submissions, newest first; for organisers, those of all."""
        view = view_challenge(self.services, self.caller, name)
        require_versus(view.stored.challenge)
        if not view.is_organiser and self.caller is not None:
            if self.caller.agent is None or agent not in (None, self.caller.agent):
                return Page(items=[])
            agent = self.caller.agent
        place = read_cursor(cursor, int)
        found = self.store.versus.newest(
            name, player=agent, side=side, before=place[0] if place else None, limit=limit + 1
        )
        more = write_cursor(found[limit - 1].id) if len(found) > limit else None
        return Page(items=found[:limit], next=more)

    @operation("GET /challenges/{name}/submissions/{submission}", COMPETITORS, noun="submission")
    def get(self, name: Name, submission: int) -> KeptSideSubmission:
        """Get a submission and its verdicts, for the agent that sent it and for organisers.

        A judge's text quotes both sides, so agents read it when the challenge is over. During a
        freeze they see no more of later opponents than at submission.
        """
        view = view_challenge(self.services, self.caller, name)
        require_versus(view.stored.challenge)
        found = self.store.versus.find(name, submission)
        if view.is_organiser:
            return self._describe(name, found, until=inf)
        if self.caller is None or self.caller.agent != found.agent:
            # Ids can be counted through, so that of another agent is like one that does not exist.
            raise explain_unknown_submission(name, submission)
        own = self._describe(name, found, until=inf if view.frozen is None else view.frozen)
        hides = not view.shows_words
        return msgspec.structs.replace(
            own, verdicts=[_withhold(each, hides) for each in own.verdicts]
        )

    @operation("GET /challenges/{name}/tallies", PUBLIC)
    def tallies(
        self,
        name: Name,
        limit: Limit = 1000,
        cursor: Cursor | None = None,
        live: Live = None,
    ) -> Page[VersusTally]:
        """Count the verdicts between each two players, by category."""
        view = view_challenge(self.services, self.caller, name, live)
        require_versus(view.stored.challenge)
        return slice_page(_read_tallies(self.store, view), limit, cursor)

    def _describe(self, name: str, found: SideSubmission, *, until: float) -> KeptSideSubmission:
        store = self.store
        players = {each.id: each.agent for each in store.versus.submissions(name)}
        (newest,) = store.versus.newest(name, player=found.agent, side=found.side, limit=1)
        verdicts = []
        for each in store.versus.verdicts(name, submission=found.id):
            other = each.blue if each.red == found.id else each.red
            if until == inf or other < found.id or (each.judged_at or inf) < until:
                names = set(SideVerdict.__struct_fields__) - {"opponent"}
                more = {field: getattr(each, field) for field in names}
                verdicts.append(SideVerdict(opponent=players[other], **more))
        return KeptSideSubmission(
            **msgspec.structs.asdict(found),
            challenge=name,
            format=store.challenges.get_version(name, found.version).submission.format,
            answer=store.versus.content(found.id),
            active=newest.id == found.id,
            verdicts=verdicts,
            names=store.agents.names({found.agent, *(each.opponent for each in verdicts)}),
        )


def _withhold(verdict: SideVerdict, hides_reason: bool) -> SideVerdict:
    error = None if verdict.error is None else JUDGE_FAILED
    reason = "" if hides_reason else verdict.reason
    return msgspec.structs.replace(verdict, error=error, reason=reason)


def list_side_standings(
    services: TenantServices, caller: Caller | None, view: ChallengeView, side: pairings.Side | None
) -> Sequence[Standing]:
    """List the standings of a side, or of all players by their better side."""
    key = ("versus", view.stored.challenge.name, side, view.hides_live)
    make: Callable[[], list[Standing]] = partial(_make_standings, services.store, view, side)
    return services.find_table(caller, key, view.state, make, cost=0)


def _read_tallies(store: Store, view: ChallengeView) -> list[VersusTally]:
    """Verdicts as they count now, or on a frozen board as they counted then."""
    return store.versus.tallies(view.stored.challenge.name, before=_find_end(view))


def _find_end(view: ChallengeView) -> float | None:
    return view.frozen if view.hides_live else None


def _make_standings(
    store: Store, view: ChallengeView, side: pairings.Side | None
) -> list[Standing]:
    until = _find_end(view) or inf
    sent: dict[str, list[float]] = {}
    for each in store.versus.submissions(view.stored.challenge.name):
        if side in (None, each.side) and each.submitted_at < until:
            sent.setdefault(each.agent, []).append(each.submitted_at)
    return [
        Standing(
            rank=line.rank,
            agent=line.player,
            attempt=None,
            value=line.points,
            score=line.ratio,
            submitted_at=max(sent[line.player]),
            tries=len(sent[line.player]),
            side=line.side,
            points=line.points,
            against=line.against,
            ratio=line.ratio,
            categories=msgspec.to_builtins(line.categories),
            unjudged=line.unjudged,
            strength=msgspec.to_builtins(line.strength),
        )
        for line in versus_standings(_read_tallies(store, view), side)
    ]
