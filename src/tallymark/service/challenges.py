"""Challenges: records and operations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import nullcontext
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tallymark.challenges.challenge import (
    PluginPause,
    PublicChallenge,
    StrategyName,
    Tier,
    Visibility,
)
from tallymark.challenges.challenge_folder import pack_files
from tallymark.challenges.challenge_report import ChallengeReport
from tallymark.challenges.rescoring import Rescoring
from tallymark.errors import InvalidInput
from tallymark.service.callers import ORGANISERS, PUBLIC
from tallymark.service.cursors import Cursor, Limit, read_cursor, slice_page, write_cursor
from tallymark.service.operations import Page, Resource, operation
from tallymark.service.visibility import ChallengeView, view_challenge, view_challenges
from tallymark.store.contests.audit_log import check_reason
from tallymark.store.contests.challenges import StoredChallenge
from tallymark.store.dry_run import is_dry_run

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Reason = Annotated[str, Meta(max_length=2000, description="Reason, stored in the log.")]
Handle = Annotated[str, Meta(pattern=r"^[a-z0-9._-]{2,40}$")]
Force = Annotated[bool, Meta(description="Publish it although its check finds problems.")]
BasedOn = Annotated[
    str,
    Meta(
        max_length=64,
        description="The version that the change was made to, empty for a new challenge; another"
        " version that counts by now is a conflict.",
    ),
]
Metrics = Annotated[
    list[str], Meta(max_length=200, description="Own metrics that reports may have.")
]
Preview = Annotated[bool, Meta(description="Show who would move; change nothing.")]
Queue = Annotated[bool, Meta(description="False: do nothing where it would become a job.")]
Formula = Annotated[str, Meta(min_length=1, max_length=4096)]
State = Literal["upcoming", "open", "frozen", "closed"]
_GOAL = "Attempts are reported by a trusted system."
MOST_AT_ONCE = 2_000
"""Attempts that are scored again within a request; more are a job."""


class Challenge(PublicChallenge, frozen=True, kw_only=True, omit_defaults=False):
    """A challenge as competitors see it. `freezes_at` counts what organisers did by hand."""

    generated: Annotated[
        bool, Meta(description="Whether every attempt gets data of its own, made from a seed.")
    ]
    metrics: Metrics
    state: State
    closed: Annotated[float | None, Meta(description="Time since which it accepts no entries.")]
    frozen: Annotated[
        float | None, Meta(description="Time since which the public board is frozen.")
    ]


class ChallengeFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one version, in base 64."""

    challenge: str
    version: str
    files: dict[str, bytes]
    drift: list[str]
    """Fields of the challenge that a rescoring changed from its files."""


class Rescored(msgspec.Struct, frozen=True, kw_only=True):
    """A rescoring that was done or previewed, or the job that does it."""

    rescoring: Rescoring | None = None
    job: str | None = None


class Resumed(Rescoring, frozen=True, kw_only=True):
    """The attempts that were scored again, and the agents that were paused again by that."""

    paused_again: list[str]


class WaitingAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A submitted attempt without a score."""

    attempt: str
    challenge: str
    agent: str
    submitted_at: float
    reason: Annotated[str | None, Meta(description="Why scoring it failed and is tried again.")]


class WaitingCount(msgspec.Struct, frozen=True, kw_only=True):
    """Number of attempts at a challenge that wait for a score."""

    challenge: str
    count: int
    oldest: Annotated[float, Meta(description="When the first of them was submitted.")]


class WaitingAttempts(Page[WaitingAttempt], kw_only=True):
    """Attempts that wait for a score, oldest first, and their number by challenge."""

    counts: list[WaitingCount]


class Challenges(Resource):
    """Challenges: published, closed, frozen, scored by another rule."""

    @operation(
        "POST /challenges",
        ORGANISERS,
        rate="work",
        status=201,
        noun="challenge",
        query=("force", "based_on"),
        body="packed",
    )
    def publish(
        self, packed: bytes, force: Force = False, based_on: BasedOn | None = None
    ) -> Challenge:
        """Publish a folder: packed by `tally`, or a zip or tar archive.

        It is checked as `tally challenge check` does, and refused when it is not ready.
        """
        from tallymark.challenges.challenge_archives import read_archive  # noqa: PLC0415 (few do)

        return self._publish(read_archive(packed), force=force, based_on=based_on)

    @operation(
        "POST /challenges",
        ORGANISERS,
        rate="work",
        status=201,
        noun="challenge",
        query=("force", "based_on"),
    )
    def add(  # noqa: PLR0913, PLR0917 (the fields of the plugin document)
        self,
        name: Name,
        title: Annotated[str, Meta(max_length=500)] | None = None,
        goal: Annotated[
            str, Meta(max_length=100_000)
        ] = "Attempts are reported by a trusted system.",
        difficulty: Tier = "contender",
        visibility: Visibility = "private",
        scoring_strategy: StrategyName = "custom",
        scoring_plugin_id: str | None = None,
        scoring_entrypoint: str | None = None,
        scoring_config: dict[str, Any] | None = None,
        scoring_formula: Formula | None = None,
        metrics: Metrics | None = None,
        attempts: Annotated[int, Meta(ge=1)] | None = None,
        attempts_per_day: Annotated[int, Meta(ge=1)] | None = None,
        force: Force = False,
        based_on: BasedOn | None = None,
    ) -> Challenge:
        """Publish a challenge of reported attempts, as the plugin document sets one up."""
        scoring = {
            "strategy": scoring_strategy,
            "plugin": scoring_entrypoint or scoring_plugin_id,
            "formula": scoring_formula,
            "config": scoring_config or None,
        }
        document = {
            "name": name,
            "title": title,
            "goal": goal,
            "difficulty": difficulty,
            "visibility": visibility,
            "attempts": attempts,
            "attempts_per_day": attempts_per_day,
            "evaluator": {"type": "reported", **({"metrics": metrics} if metrics else {})},
            "scoring": {key: value for key, value in scoring.items() if value is not None},
        }
        given = {key: value for key, value in document.items() if value is not None}
        # JSON is valid YAML and quotes everything that could be misread.
        files = {"challenge.yaml": msgspec.json.encode(given)}
        return self._publish(files, force=force, based_on=based_on)

    @operation("POST /challenges/check", ORGANISERS, rate="work", body="packed")
    def check(self, packed: bytes) -> ChallengeReport:
        """Check a packed folder as its competitors will use it, honestly and not."""
        from tallymark.challenges.challenge_archives import read_archive  # noqa: PLC0415 (few do)
        from tallymark.service.publishing import check_files  # noqa: PLC0415 (checks load much)

        return check_files(self.services, read_archive(packed))

    @operation("GET /challenges", PUBLIC)
    def list(self, limit: Limit = 100, cursor: Cursor | None = None) -> Page[Challenge]:
        """List challenges by name; without a key, those that are public."""
        if not self.store.exists:
            return Page(items=[])
        page = slice_page(view_challenges(self.services, self.caller), limit, cursor)
        return Page(items=[describe_challenge(each) for each in page.items], next=page.next)

    def find_titles(self, names: Collection[str]) -> dict[str, str]:
        """Find the titles of those of these challenges that the caller may know of."""
        views = view_challenges(self.services, self.caller) if names else []
        known = (each.stored.challenge for each in views)
        return {each.name: each.title for each in known if each.name in names}

    @operation("GET /challenges/{name}", PUBLIC, noun="challenge", etag=True)
    def get(self, name: Name) -> Challenge:
        """Get a challenge: its goal, its limits, and how it is scored."""
        return describe_challenge(view_challenge(self.services, self.caller, name))

    @operation("PATCH /challenges/{name}", ORGANISERS, rate="write", noun="challenge")
    def change(
        self,
        name: Name,
        reason: Reason,
        closed: bool | None = None,
        frozen: bool | None = None,
        visibility: Visibility | None = None,
        new_name: Annotated[str, Meta(description="Its new name and address.")] | None = None,
    ) -> Challenge:
        """Close or reopen a challenge, freeze or unfreeze its board, show or hide or rename it."""
        if (closed, frozen, visibility, new_name) == (None, None, None, None):
            hint = "give closed or frozen (true or false), visibility, or new_name"
            raise InvalidInput("there is nothing to change", hint=hint)
        challenges = self.store.challenges
        how: dict[str, Any] = {"at": self.now, "reason": reason}
        challenges.find(name)
        if closed is not None:
            (challenges.close if closed else challenges.reopen)(name, **how)
        if frozen is not None:
            (challenges.freeze if frozen else challenges.unfreeze)(name, **how)
        if visibility is not None:
            from tallymark.service.publishing import change_visibility  # noqa: PLC0415 (as above)

            change_visibility(self.services, name, visibility, reason)
        if new_name is not None:
            challenges.rename(name, new_name, **how)
            name = name if is_dry_run() else new_name
        return self.get(name)

    @operation("DELETE /challenges/{name}", ORGANISERS, rate="write", noun="challenge")
    def delete(self, name: Name, reason: Reason) -> Challenge:
        """Delete a challenge without attempts; the log records it."""
        deleted = self.get(name)
        self.store.challenges.delete(name, at=self.now, reason=reason)
        return deleted

    @operation("GET /challenges/{name}/files", ORGANISERS)
    def files(
        self, name: Name, version: Annotated[str, Meta(max_length=64)] | None = None
    ) -> ChallengeFiles:
        """Get the files that a version was published with, the one that counts unless named."""
        from tallymark.service.publishing import find_drift, read_files  # noqa: PLC0415 (as above)

        counts = self.store.challenges.get(name)
        chosen = counts if version is None else self.store.challenges.get_version(name, version)
        return ChallengeFiles(
            challenge=name,
            version=chosen.version,
            files=read_files(self.services, chosen),
            drift=find_drift(self.services, counts),
        )

    @operation(
        "POST /challenges/{name}/rescore",
        ORGANISERS,
        rate="work",
        query=("preview", "reason", "based_on", "queue"),
    )
    def rescore(  # noqa: PLR0913, PLR0917 (a rule, and how it is applied)
        self,
        name: Name,
        strategy: StrategyName | None = None,
        plugin: Annotated[str, Meta(min_length=1, max_length=500)] | None = None,
        formula: Formula | None = None,
        config: dict[str, Any] | None = None,
        weights: dict[str, float] | None = None,
        preview: Preview = False,
        reason: Annotated[str, Meta(max_length=2000)] | None = None,
        based_on: BasedOn | None = None,
        queue: Queue = True,
    ) -> Rescored:
        """Score all attempts by another rule, or preview that; what is not named stays.

        It needs a reason unless it is a preview. Where it takes long, it becomes a job.
        """
        given = {"strategy": strategy, "plugin": plugin, "formula": formula, "config": config}
        scoring: dict[str, Any] = {key: each for key, each in given.items() if each is not None}
        if weights is not None:
            from tallymark.service.what_if import WhatIfRule, change_rule  # noqa: PLC0415 (numpy)

            old = self.store.challenges.get(name)
            scoring["dimensions"] = change_rule(old, WhatIfRule(weights=weights)).scoring.dimensions
        is_quick = self.services.competition.rescores_quickly(name, **scoring)
        return self._rescore(
            name,
            None,
            scoring,
            is_quick=is_quick,
            preview=preview,
            reason=reason,
            based_on=based_on,
            queue=queue,
        )

    @operation(
        "POST /challenges/{name}/rescore",
        ORGANISERS,
        rate="work",
        query=("preview", "reason", "based_on", "queue"),
        body="packed",
    )
    def rescore_files(
        self,
        name: Name,
        packed: bytes,
        preview: Preview = False,
        reason: Annotated[str, Meta(max_length=2000)] | None = None,
        based_on: BasedOn | None = None,
        queue: Queue = True,
    ) -> Rescored:
        """Score all attempts by a packed folder, which becomes the version that counts."""
        from tallymark.challenges.challenge_archives import read_archive  # noqa: PLC0415 (few do)

        return self._rescore(
            name,
            read_archive(packed),
            {},
            is_quick=False,
            preview=preview,
            reason=reason,
            based_on=based_on,
            queue=queue,
        )

    @operation("GET /waiting", ORGANISERS)
    def waiting(
        self,
        challenge: Name | None = None,
        limit: Limit = 100,
        cursor: Cursor | None = None,
    ) -> WaitingAttempts:
        """List attempts that wait for a score, at one challenge or all."""
        if not self.store.exists:
            return WaitingAttempts(items=[], counts=[])
        if challenge is not None:
            self.store.challenges.find(challenge)
        place = read_cursor(cursor, int)
        first, figures = place[0] if place else 0, self.store.contest_stats
        found = figures.waiting(challenge, limit=limit + 1, offset=first)
        return WaitingAttempts(
            items=[
                WaitingAttempt(
                    attempt=each.id,
                    challenge=each.challenge,
                    agent=each.agent,
                    submitted_at=each.submitted_at or each.entered_at,
                    reason=each.waiting,
                )
                for each in found[:limit]
            ],
            next=write_cursor(first + limit) if len(found) > limit else None,
            counts=[
                WaitingCount(challenge=name, count=count, oldest=oldest)
                for name, count, oldest in figures.count_waiting()
                if challenge in (None, name)
            ],
        )

    @operation("GET /challenges/{name}/attempts/count", ORGANISERS, noun="count")
    def count_attempts(self, name: Name) -> int:
        """Count all attempts at a challenge."""
        return self.store.contest_stats.count_attempts(name)

    @operation("GET /pauses", ORGANISERS)
    def pauses(
        self,
        challenge: Name | None = None,
        limit: Limit = 100,
        cursor: Cursor | None = None,
    ) -> Page[PluginPause]:
        """List agents whose attempts ended a plugin's process too often to be scored."""
        if not self.store.exists:
            return Page(items=[])
        return slice_page(self.store.plugin_quarantine.all(challenge), limit, cursor)

    @operation("POST /challenges/{name}/resume", ORGANISERS, rate="work")
    def resume(self, name: Name, agent: Handle | None = None) -> Resumed:
        """Let a plugin score paused agents again, and score the attempts that waited for it."""
        done = self.services.competition.resume(name, agent)
        again = [each.agent for each in self.store.plugin_quarantine.all(name)]
        return Resumed(**msgspec.structs.asdict(done), paused_again=again)

    def _publish(
        self, files: Mapping[str, bytes], *, force: bool, based_on: str | None
    ) -> Challenge:
        from tallymark.service.publishing import publish_files  # noqa: PLC0415 (checks load much)

        published = publish_files(self.services, files, force=force, based_on=based_on)
        if is_dry_run():
            state = dict.fromkeys(("frozen_at", "closed_at", "held_at", "unfrozen_at"))
            stored = StoredChallenge(0, self.store.tenant, 0, **state, challenge=published)
            return describe_challenge(
                ChallengeView(stored=stored, at=self.now, is_organiser=True, public=False)
            )
        return self.get(published.name)

    def _rescore(  # noqa: PLR0913 (as above)
        self,
        name: str,
        files: Mapping[str, bytes] | None,
        scoring: Mapping[str, Any],
        *,
        is_quick: bool,
        preview: bool,
        reason: str | None,
        based_on: str | None,
        queue: bool,
    ) -> Rescored:
        apply = not (preview or is_dry_run())
        reason = check_reason(reason or "") if apply else ""
        if not is_quick and self._is_large(name):
            how = {"apply": apply, "reason": reason, "based_on": based_on}
            if files is not None:
                how["packed"] = pack_files(files)
            if not queue or is_dry_run() or self.caller is None:
                return Rescored()
            queued = self.services.jobs.queue_rescoring(self.caller, name, dict(scoring), **how)
            return Rescored(job=queued.id)
        from tallymark.service.publishing import lay_out  # noqa: PLC0415 (as above)

        settings = self.services.settings
        with nullcontext() if files is None else lay_out(files) as folder:
            done = self.services.competition.rescore(
                name,
                apply=apply,
                folder=folder,
                on_progress=settings.on_progress,
                reason=reason,
                based_on=based_on,
                engine=settings.engine,
                **scoring,
            )
        return Rescored(rescoring=done)

    def _is_large(self, name: str) -> bool:
        """True if a request should not wait for the job; a command of the owner does."""
        if self.caller is None or self.store.challenges.get(name).kind == "versus":
            return False  # versus is refused at once
        return self.store.contest_stats.count_attempts(name) > MOST_AT_ONCE


def find_state(view: ChallengeView) -> State:
    """True if a challenge accepts entries now."""
    state, opens_at = view.stored.describe_state(view.at), view.stored.challenge.opens_at
    if opens_at is not None and view.at < opens_at:
        return "upcoming"
    return "closed" if "closed" in state else "frozen" if "frozen" in state else "open"


def describe_challenge(view: ChallengeView) -> Challenge:
    """Make the record of a challenge: nothing of it that is for organisers alone."""
    stored = view.stored
    state = stored.describe_state(view.at)
    terms = stored.challenge.find_terms() | {"freezes_at": stored.freezes_at}
    return Challenge(
        **terms,
        generated=stored.challenge.generated,
        metrics=list(stored.challenge.evaluator.options.get("metrics", ())),
        state=find_state(view),
        closed=state.get("closed"),
        frozen=state.get("frozen"),
    )
