"""A submission by whatever door it comes: taken, scored at once or by a worker, and told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.app.jobs import WAIT_SECONDS

if TYPE_CHECKING:
    from tallymark.app.callers import Caller
    from tallymark.app.service import Service, TenantServices
    from tallymark.challenges.attempt import Attempt

_DETAILS: dict[str, Any] = {
    "score_breakdown": None,
    "submission_warnings": [],
    "constraint_violations": [],
    "harness_warning": None,
}


class SentAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a competitor sends."""

    answer: Any
    metadata: dict[str, Any] = {}
    trajectory: Any = None
    """A trace, as JSON or as its text."""

    def to_arguments(self) -> dict[str, Any]:
        """What `take_submission` takes besides the answer."""
        trajectory = self.trajectory
        if trajectory is not None and not isinstance(trajectory, str):
            trajectory = msgspec.json.encode(trajectory).decode()
        return {"metadata": self.metadata, "trajectory": trajectory}


@dataclass(frozen=True)
class Submissions:
    """Of one tenant, by one caller."""

    service: Service
    services: TenantServices
    caller: Caller

    def check(self, attempt: str, sent: SentAnswer) -> None:
        """Refuses what `submit` would; nothing is kept, if this is a rehearsal."""
        agent = self.find_competitor(attempt)
        self.services.competition.take_submission(
            attempt, agent, sent.answer, **sent.to_arguments()
        )

    def submit(
        self, attempt: str, sent: SentAnswer, *, key: str | None, wait: float = WAIT_SECONDS
    ) -> tuple[Attempt, dict[str, Any]]:
        """Takes an answer and waits so many seconds for its score; what is then to be told."""
        agent, services = self.find_competitor(attempt), self.services
        competition = services.competition
        before = services.store.ratings.of(agent).rating
        taken = competition.take_submission(
            attempt, agent, sent.answer, key=key, **sent.to_arguments()
        )
        job = None
        if taken.state == "submitted":
            if competition.settles_quickly(taken):
                taken = competition.settle_attempt(taken.id)
            else:
                job = services.jobs.queue_scoring(self.caller, taken.id)
                if wait:
                    services.jobs.wait(job.id, wait)
                taken = services.store.attempts.get(taken.id)
        document = self._describe(taken, before)
        if taken.state == "submitted":
            document["job"] = None if job is None else job.id
        return taken, document

    def find_competitor(self, attempt: str) -> str:
        """Whose attempt it is, as far as the caller may act for them."""
        if self.caller.role == "agent":
            return self.caller.agent or ""
        return self.services.store.attempts.get(attempt).agent

    def _describe(self, attempt: Attempt, before: int) -> dict[str, Any]:
        """The document's fields at the top, beside the attempt."""
        store = self.services.store
        told = attempt.to_public()
        standing = store.boards.standing(attempt.challenge, attempt.agent)
        rating = None
        if attempt.state != "submitted":
            provisional = attempt.agent in store.ratings.provisional(self.service.clock())
            after = store.ratings.of(attempt.agent).rating
            rating = {"before": before, "after": after, "provisional": provisional}
        return {
            "attempt": told,
            "score": told["score"],
            "result": told.get("result"),
            **{name: told.get(name, usual) for name, usual in _DETAILS.items()},
            "rating": rating,
            "rank": None if standing is None else standing.rank,
        }
