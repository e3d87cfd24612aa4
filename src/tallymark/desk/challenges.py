"""What commands ask about challenges, and about those whom a plugin is paused for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import msgspec

from tallymark.challenges.challenge import Challenge
from tallymark.desk.answers import read_told
from tallymark.desk.judging import JudgedHere, refuse_judged_here
from tallymark.errors import WorkFailed

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tallymark.challenges.rescore_plan import Rescoring
    from tallymark.client import Client
    from tallymark.service.app import App
    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.wire.challenges import ChallengeState

ChallengeAct = Literal["close", "reopen", "freeze", "unfreeze"]
_CHANGES: Mapping[ChallengeAct, tuple[bool | None, bool | None]] = {
    "close": (True, None),
    "reopen": (False, None),
    "freeze": (None, True),
    "unfreeze": (None, False),
}
"""Whether it is closed, and whether it is frozen after it; None stays as it is."""
_LOOK_S = 0.5
"""Between two looks at a job."""


class KnownChallenge(NamedTuple):
    """A challenge as its competitors know it, and how it stands."""

    challenge: Challenge
    state: dict[str, float]
    """Since when it is `closed`, or its board `frozen`."""


class PausedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent whose attempts a plugin does not score any more."""

    challenge: str
    agent: str
    plugin: str
    code_hash: str
    deadly: int
    since: float
    reason: str


class ChallengeDesk(Protocol):
    """Challenges that are published."""

    def list(self) -> list[KnownChallenge]:
        """By name."""

    def find(self, name: str) -> KnownChallenge:
        """One."""

    def publish(self, folder: Path, *, force: bool) -> Challenge:
        """Publishes a folder; one that its check calls not ready is `NotReady`."""

    def act(self, act: ChallengeAct, name: str, reason: str) -> KnownChallenge:
        """What an organiser does by hand."""

    def delete(self, name: str, reason: str) -> None:
        """Removes a challenge that nobody has tried."""

    def rename(self, name: str, new: str, reason: str) -> None:
        """Gives a challenge another name, and so another address."""

    def rescore(
        self,
        name: str,
        *,
        reason: str | None,
        folder: Path | None,
        scoring: Mapping[str, Any],
        how: JudgedHere,
        on_progress: Callable[[int, int | None], None] | None,
    ) -> Rescoring:
        """All attempts by another rule; without a reason, what that would change."""

    def list_paused(self) -> Sequence[PausedAgent]:
        """Agents that a plugin is paused for."""

    def resume(
        self, name: str, agent: str | None, how: JudgedHere
    ) -> tuple[Rescoring, Sequence[str]]:
        """Ends pauses: what was scored again, and who was paused again by that."""


@dataclass(frozen=True)
class LocalChallenges:
    """Challenges in a database."""

    app: App

    def list(self) -> list[KnownChallenge]:
        """By name."""
        return [_tell(each) for each in self.app.store.challenges.all()]

    def find(self, name: str) -> KnownChallenge:
        """One."""
        return _tell(self.app.store.challenges.find(name))

    def publish(self, folder: Path, *, force: bool) -> Challenge:
        """Checks it, and publishes it."""
        from tallymark.challenges.challenge_file import load_challenge  # noqa: PLC0415
        from tallymark.service.publishing import Publishing  # noqa: PLC0415 (checks load much)

        load_challenge(folder)  # whose mistakes have places here, and no longer there
        return Publishing(self.app.store).publish(folder, force=force).challenge

    def act(self, act: ChallengeAct, name: str, reason: str) -> KnownChallenge:
        """What an organiser does by hand."""
        self.app.store.require()
        getattr(self.app.store.challenges, act)(name, at=time.time(), reason=reason)
        return self.find(name)

    def delete(self, name: str, reason: str) -> None:
        """Removes a challenge that nobody has tried."""
        self.app.store.require()
        self.app.store.challenges.delete(name, at=time.time(), reason=reason)

    def rename(self, name: str, new: str, reason: str) -> None:
        """Gives a challenge another name, and so another address."""
        self.app.store.require()
        self.app.store.challenges.rename(name, new, at=time.time(), reason=reason)

    def rescore(
        self,
        name: str,
        *,
        reason: str | None,
        folder: Path | None,
        scoring: Mapping[str, Any],
        how: JudgedHere,
        on_progress: Callable[[int, int | None], None] | None,
    ) -> Rescoring:
        """All attempts by another rule, or what that would change."""
        with how.open(self.app) as competition:
            return competition.rescore(
                name,
                apply=reason is not None,
                reason=reason or "",
                folder=folder,
                on_progress=on_progress,
                engine=how.engine,
                **scoring,
            )

    def list_paused(self) -> Sequence[PausedAgent]:
        """Agents that a plugin is paused for."""
        found = self.app.store.pauses.all()
        return [PausedAgent(**msgspec.structs.asdict(each)) for each in found]

    def resume(
        self, name: str, agent: str | None, how: JudgedHere
    ) -> tuple[Rescoring, Sequence[str]]:
        """Ends pauses, and scores what waited for it."""
        with how.open(self.app) as competition:
            done = competition.resume(name, agent)
            return done, [each.agent for each in competition.store.pauses.all(name)]


@dataclass(frozen=True)
class RemoteChallenges:
    """Challenges of a server."""

    client: Client

    def list(self) -> list[KnownChallenge]:
        """By name."""
        return [_read(each) for each in self.client.challenges.list()]

    def find(self, name: str) -> KnownChallenge:
        """One."""
        return _read(self.client.challenges.get(name))

    def publish(self, folder: Path, *, force: bool) -> Challenge:
        """Sends a folder that can be read; the server checks it."""
        from tallymark.challenges.challenge_file import load_challenge  # noqa: PLC0415 (as above)

        load_challenge(folder)
        return _read(self.client.challenges.publish(folder, force=force)).challenge

    def act(self, act: ChallengeAct, name: str, reason: str) -> KnownChallenge:
        """What an organiser does by hand."""
        closed, frozen = _CHANGES[act]
        done = self.client.challenges.change(name, reason=reason, closed=closed, frozen=frozen)
        return _read(done)

    def delete(self, name: str, reason: str) -> None:
        """Removes a challenge that nobody has tried."""
        self.client.challenges.delete(name, reason=reason)

    def rename(self, name: str, new: str, reason: str) -> None:
        """Gives a challenge another name, and so another address."""
        self.client.challenges.change(name, reason=reason, new_name=new)

    def rescore(
        self,
        name: str,
        *,
        reason: str | None,
        folder: Path | None,
        scoring: Mapping[str, Any],
        how: JudgedHere,
        on_progress: Callable[[int, int | None], None] | None,  # noqa: ARG002 (it does not tell)
    ) -> Rescoring:
        """All attempts by another rule, waited for where it is a job."""
        refuse_judged_here(how)
        done: Any = self.client.challenges.rescore(
            name, preview=reason is None, reason=reason, folder=folder, **scoring
        )
        if not hasattr(done, "state"):
            return _read_rescoring(done)
        while done.state in ("queued", "running"):
            time.sleep(_LOOK_S)
            done = self.client.jobs.get(done.id)
        if done.state != "done":
            raise WorkFailed(done.error or f"job {done.id} is {done.state.replace('_', ' ')}")
        return _convert_rescoring(done.result["rescoring"])

    def list_paused(self) -> Sequence[PausedAgent]:
        """Agents that a plugin is paused for."""
        return [read_told(each, PausedAgent) for each in self.client.challenges.pauses()]

    def resume(
        self, name: str, agent: str | None, how: JudgedHere
    ) -> tuple[Rescoring, Sequence[str]]:
        """Ends pauses, and has what waited for it scored."""
        refuse_judged_here(how)
        done = self.client.challenges.resume(name, agent=agent)
        return _read_rescoring(done), done.paused_again


def _tell(kept: StoredChallenge) -> KnownChallenge:
    return KnownChallenge(kept.challenge, kept.describe_state(time.time()))


def _read(told: ChallengeState) -> KnownChallenge:
    since = {"closed": told.closed, "frozen": told.frozen}
    state = {word: at for word, at in since.items() if at is not None}
    return KnownChallenge(read_told(told, Challenge), state)


def _read_rescoring(told: BaseModel) -> Rescoring:
    from tallymark.challenges.rescore_plan import Rescoring  # noqa: PLC0415 (evaluators load)

    return read_told(told, Rescoring)


def _convert_rescoring(told: Any) -> Rescoring:
    from tallymark.challenges.rescore_plan import Rescoring  # noqa: PLC0415 (evaluators load)

    return msgspec.convert(told, Rescoring)
