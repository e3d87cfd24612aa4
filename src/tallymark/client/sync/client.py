"""`Client`: everything that a server does, a method each."""

# Written by `make client` from client/aio/client.py: change that one.

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

import httpx2
import msgspec

from tallymark.challenges.challenge_folder import pack
from tallymark.client.addresses import find_address
from tallymark.client.exchange import Call, Event, write_path
from tallymark.client.sync.connection import Connection
from tallymark.errors import WorkFailed
from tallymark.wire import accounts, attempts, challenges, formulas, runs, scores
from tallymark.wire.parts import Ok

TIMEOUT_S = 60.0
"""For one request; a submission waits half of it for its score."""
_NO_SERVER = "check that the address is that of a Tallymark server"
_PACKED = "application/vnd.tallymark.challenge"
_LINES = "application/x-ndjson"
ReportLines: TypeAlias = list[attempts.ReportLine]


class Client:
    """A server by its address and a key; else by TALLY_SERVER and TALLY_KEY, or `tally login`.

    with Client("https://tally.example", key="tly_...") as client:
        for run in client.runs.list(suite="support-desk"):
            print(run.id, run.score)
    """

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT_S,
        http: httpx2.Client | None = None,
    ) -> None:
        self.connection = Connection(find_address(server, key), timeout, http)
        self.runs = Runs(self.connection)
        self.challenges = Challenges(self.connection)
        self.attempts = Attempts(self.connection)
        self.agents = Agents(self.connection)
        self.jobs = Jobs(self.connection)
        self.accounts = Accounts(self.connection)
        self.scores = Scores(self.connection)
        self.formulas = Formulas(self.connection)
        self.settings = Settings(self.connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of connections."""
        self.connection.close()

    def me(self) -> dict[str, Any]:
        """Who you are to the server."""
        told = self.connection.ask(Ok, Call(method="GET", path="/me"))
        found = (told.model_extra or {}).get("caller")
        if not isinstance(found, dict):
            raise WorkFailed(f"{self.connection.address} does not say who you are", hint=_NO_SERVER)
        return found

    def ratings(self) -> attempts.Ratings:
        """Strengths of agents and difficulties of challenges."""
        return self.connection.ask(attempts.Ratings, Call(method="GET", path="/ratings"))

    def limits(self) -> accounts.Limits:
        """What the server takes, and what is left of it."""
        return self.connection.ask(accounts.Limits, Call(method="GET", path="/limits"))

    def audit(
        self,
        *,
        challenge: str | None = None,
        agent: str | None = None,
        actor: str | None = None,
        event: str | None = None,
        limit: int | None = None,
    ) -> Iterator[accounts.LogEntry]:
        """What was done, newest first."""
        params = {"challenge": challenge, "agent": agent, "actor": actor, "event": event}
        call = Call(method="GET", path="/audit", params=params)
        return self.connection.page(accounts.LogEntry, call, limit)

    @contextmanager
    def attempt(
        self, challenge: str, *, agent: str | None = None, memoryless: bool = False
    ) -> Iterator[OpenAttempt]:
        """Enters a challenge, for the time of a `with`.

        Whoever leaves without submitting has not given up: the attempt stays open.
        """
        entered = self.challenges.enter(challenge, agent=agent, memoryless=memoryless)
        yield OpenAttempt(self.attempts, entered)


@dataclass
class OpenAttempt:
    """An attempt that goes on: what is asked, what it is given, and handing the answer in."""

    _attempts: Attempts
    entered: attempts.Entered
    outcome: attempts.Submitted | None = None

    @property
    def id(self) -> str:
        """By which the server knows it."""
        return self.entered.attempt.id

    @property
    def goal(self) -> str:
        """What is asked."""
        return self.entered.goal

    @property
    def data(self) -> dict[str, Any]:
        """Names and contents of the files to work with."""
        return self.entered.data

    @property
    def expires_at(self) -> float:
        """Until when an answer is taken, by the server's clock."""
        return self.entered.attempt.expires_at

    def validate(self, answer: Any, **more: Any) -> None:
        """Raises what is wrong with an answer, without handing it in."""
        self._attempts.validate(self.id, answer, **more)

    def submit(self, answer: Any, **more: Any) -> attempts.Submitted:
        """Hands the answer in, once."""
        self.outcome = self._attempts.submit(self.id, answer, **more)
        return self.outcome


class _Resource:
    """What all resources have."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection


class Runs(_Resource):
    """Runs of suites."""

    def list(  # noqa: PLR0913 (the filters of a list)
        self,
        *,
        suite: str | None = None,
        model: str | None = None,
        status: runs.Status | None = None,
        group: str | None = None,
        since: float | None = None,
        min_score: float | None = None,
        sort: str | None = None,
        order: str | None = None,
        kept: bool | None = None,
        limit: int | None = None,
    ) -> Iterator[runs.Run]:
        """Runs, newest first; with `kept`, each has all its fields in `record`."""
        params: dict[str, Any] = {"suite": suite, "model": model, "status": status, "group": group}
        params |= {"since": since, "min_score": min_score, "sort": sort, "order": order}
        params["kept"] = kept
        return self._connection.page(
            runs.Run, Call(method="GET", path="/runs", params=params), limit
        )

    def get(self, run: str, *, kept: bool | None = None) -> runs.Run:
        """One run: by its id, by a beginning of it, or `latest`."""
        call = Call(method="GET", path=write_path("runs", run), params={"kept": kept})
        return (self._connection.ask(runs.OneRun, call)).run

    def execute(
        self, suite: str | Mapping[str, Any], models: Iterable[str], **options: Any
    ) -> runs.StartedRuns:
        """Has the server run a suite: text of YAML, or its JSON. `options` as in `NewRun`."""
        body = {"suite": suite, "models": list(models), **options}
        return self._connection.ask(runs.StartedRuns, Call(method="POST", path="/runs", body=body))

    def keep(self, run: Mapping[str, Any]) -> runs.StartedRuns:
        """Keeps a run that was done elsewhere, with its results, as `tally run --json` gives it."""
        return self._connection.ask(
            runs.StartedRuns, Call(method="POST", path="/runs", body={"run": run})
        )

    def cases(
        self, run: str, *, status: str | None = None, traces: bool = False, limit: int | None = None
    ) -> Iterator[runs.Case]:
        """The results of a run by case and epoch."""
        params = {"status": status, "traces": traces}
        call = Call(method="GET", path=write_path("runs", run, "cases"), params=params)
        return self._connection.page(runs.Case, call, limit)

    def events(self, run: str, *, after: int | None = None) -> Iterator[Event]:
        """What happens in a run, until it has ended."""
        call = Call(method="GET", path=write_path("runs", run, "events"))
        return self._connection.listen(call, after, ends=True)

    def cancel(self, run: str) -> runs.Run:
        """Stops a run; what it has so far is kept."""
        call = Call(method="POST", path=write_path("runs", run, "cancel"))
        return (self._connection.ask(runs.OneRun, call)).run

    def rescore(
        self,
        run: str,
        *,
        formula: str | None = None,
        suite: str | Mapping[str, Any] | None = None,
        preview: bool = False,
    ) -> runs.RescoredRun:
        """The run by another formula or suite, kept as a new one unless it is a preview."""
        call = Call(
            method="POST",
            path=write_path("runs", run, "rescore"),
            params={"preview": preview},
            body=_leave_out_none(formula=formula, suite=suite),
        )
        return self._connection.ask(runs.RescoredRun, call)

    def compare(
        self,
        run: str,
        *others: str,
        formula: str | None = None,
        alpha: float | None = None,
        tolerance: float | None = None,
        strict: bool = False,
    ) -> runs.Comparison:
        """Runs against the first of them."""
        params = {"run": [run, *others], "formula": formula, "alpha": alpha}
        params |= {"tolerance": tolerance, "strict": strict}
        return self._connection.ask(
            runs.Comparison, Call(method="GET", path="/compare", params=params)
        )


class Challenges(_Resource):
    """Challenges, their boards, and entering them."""

    def list(self, *, limit: int | None = None) -> Iterator[challenges.ChallengeState]:
        """Challenges by name."""
        call = Call(method="GET", path="/challenges")
        return self._connection.page(challenges.ChallengeState, call, limit)

    def get(self, name: str) -> challenges.ChallengeState:
        """One challenge."""
        call = Call(method="GET", path=write_path("challenges", name))
        return (self._connection.ask(challenges.OneChallenge, call)).challenge

    def publish(
        self, challenge: Path | bytes | Mapping[str, Any], *, force: bool = False
    ) -> challenges.ChallengeState:
        """Publishes a folder, one that is packed, or the JSON of the plugin document."""
        body: Any = pack(challenge) if isinstance(challenge, Path) else challenge
        call = Call(
            method="POST",
            path="/challenges",
            params={"force": force or None},
            body=body,
            content_type=_PACKED if isinstance(body, bytes) else "application/json",
        )
        return (self._connection.ask(challenges.OneChallenge, call)).challenge

    def change(
        self, name: str, *, reason: str, closed: bool | None = None, frozen: bool | None = None
    ) -> challenges.ChallengeState:
        """Closes or reopens it, freezes its board or lets it move again."""
        call = Call(
            method="PATCH",
            path=write_path("challenges", name),
            body=_leave_out_none(closed=closed, frozen=frozen, reason=reason),
        )
        return (self._connection.ask(challenges.OneChallenge, call)).challenge

    def rescore(
        self, name: str, *, preview: bool = False, **rule: Any
    ) -> challenges.Rescored | str:
        """All attempts by another rule, as in `Rescore`; the id of a job, where it takes long."""
        call = Call(
            method="POST",
            path=write_path("challenges", name, "rescore"),
            params={"preview": preview},
            body=_leave_out_none(**rule),
        )
        answer = self._connection.send(call)
        if answer.status_code == 202:
            told: dict[str, Any] = msgspec.json.decode(answer.content)
            return str(told["job"]["id"] if isinstance(told["job"], dict) else told["job"])
        return self._connection.read(challenges.Rescored, answer)

    def board(
        self, name: str, *, limit: int = 100, around: str | None = None, side: str | None = None
    ) -> attempts.Board:
        """The first so many places, or those around an agent."""
        params = {"limit": limit, "around": around, "side": side}
        call = Call(method="GET", path=write_path("challenges", name, "leaderboard"), params=params)
        return self._connection.ask(attempts.Board, call)

    def standings(self, name: str, *, limit: int | None = None) -> Iterator[attempts.Standing]:
        """Every place of a board from the first down."""
        call = Call(method="GET", path=write_path("challenges", name, "leaderboard"))
        return self._connection.page(attempts.Standing, call, limit)

    def what_if(self, name: str, **rule: Any) -> attempts.Supposed:
        """The board by another rule, as in `WhatIf`; nothing changes."""
        path = write_path("challenges", name, "what-if")
        call = Call(method="POST", path=path, body=_leave_out_none(**rule))
        return self._connection.ask(attempts.Supposed, call)

    def events(self, name: str, *, after: int | None = None) -> Iterator[Event]:
        """What changes on a board, for as long as somebody listens."""
        call = Call(method="GET", path=write_path("challenges", name, "events"))
        return self._connection.listen(call, after)

    def enter(
        self, name: str, *, agent: str | None = None, memoryless: bool = False
    ) -> attempts.Entered:
        """Enters: the clock starts, and goal and data are yours."""
        call = Call(
            method="POST",
            path=write_path("challenges", name, "attempts"),
            body=_leave_out_none(agent=agent, memoryless=memoryless),
        )
        return self._connection.ask(attempts.Entered, call)

    def list_attempts(
        self,
        name: str,
        *,
        agent: str | None = None,
        state: str | None = None,
        limit: int | None = None,
    ) -> Iterator[attempts.AttemptState]:
        """Attempts at a challenge, newest first."""
        params = {"agent": agent, "state": state}
        call = Call(method="GET", path=write_path("challenges", name, "attempts"), params=params)
        return self._connection.page(attempts.AttemptState, call, limit)

    def report(
        self, name: str, agent: str, metrics: Mapping[str, Any], *, key: str | None = None
    ) -> attempts.Submitted:
        """Reports an attempt that a trusted system saw."""
        call = Call(
            method="POST",
            path=write_path("challenges", name, "reports"),
            body={"agent": agent, "metrics": metrics},
            headers={} if key is None else {"Idempotency-Key": key},
        )
        return self._connection.ask(attempts.Submitted, call)

    def report_many(
        self, name: str, reports: Iterable[Mapping[str, Any]], *, atomic: bool = False
    ) -> ReportLines:
        """Reports many; what became of each, in order. A transfer cut off is sent again whole."""
        call = Call(
            method="POST",
            path=write_path("challenges", name, "reports"),
            params={"atomic": atomic},
            body=b"\n".join(map(msgspec.json.encode, reports)),
            content_type=_LINES,
            headers={"Accept": _LINES},
        )
        answer = self._connection.send(call)
        return [attempts.ReportLine.model_validate_json(line) for line in answer.iter_lines()]

    def take_side(
        self, name: str, side: str, content: Any, *, agent: str | None = None
    ) -> attempts.Sided:
        """Submits an attack to red or a defence to blue."""
        call = Call(
            method="POST",
            path=write_path("challenges", name, "sides", side),
            body=_leave_out_none(agent=agent, content=content),
        )
        return self._connection.ask(attempts.Sided, call)


class Attempts(_Resource):
    """Attempts, one's own and others'."""

    def get(self, attempt: str) -> attempts.AttemptState:
        """One attempt with all that bears its score out."""
        call = Call(method="GET", path=write_path("attempts", attempt))
        return (self._connection.ask(attempts.OneAttempt, call)).attempt

    def submit(
        self,
        attempt: str,
        answer: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        trajectory: Any = None,
        wait: bool = True,
    ) -> attempts.Submitted:
        """Hands an answer in. Without `wait` it is scored later, and `job` says where to look."""
        call = Call(
            method="POST",
            path=write_path("attempts", attempt, "submission"),
            body={"answer": answer, "metadata": metadata or {}, "trajectory": trajectory},
            headers={} if wait else {"Prefer": "respond-async"},
        )
        return self._connection.ask(attempts.Submitted, call)

    def validate(
        self,
        attempt: str,
        answer: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        trajectory: Any = None,
    ) -> None:
        """Raises what is wrong with an answer, without handing it in."""
        call = Call(
            method="POST",
            path=write_path("attempts", attempt, "submission"),
            params={"validate_only": True},
            body={"answer": answer, "metadata": metadata or {}, "trajectory": trajectory},
        )
        self._connection.send(call)

    def withdraw(self, attempt: str, *, reason: str | None = None) -> attempts.AttemptState:
        """Gives up, which is a loss."""
        return self._act(attempt, "withdraw", _leave_out_none(reason=reason))

    def void(self, attempt: str, *, reason: str) -> attempts.AttemptState:
        """Takes an attempt out of boards and ratings."""
        return self._act(attempt, "void", {"reason": reason})

    def unvoid(self, attempt: str, *, reason: str) -> attempts.AttemptState:
        """Puts it back."""
        return self._act(attempt, "unvoid", {"reason": reason})

    def _act(self, attempt: str, act: str, body: Mapping[str, Any]) -> attempts.AttemptState:
        call = Call(method="POST", path=write_path("attempts", attempt, act), body=body)
        return (self._connection.ask(attempts.OneAttempt, call)).attempt


class Agents(_Resource):
    """Who takes part."""

    def list(
        self, *, owner: str | None = None, limit: int | None = None
    ) -> Iterator[attempts.AgentState]:
        """Agents by handle."""
        call = Call(method="GET", path="/agents", params={"owner": owner})
        return self._connection.page(attempts.AgentState, call, limit)

    def get(self, handle: str) -> attempts.AgentState:
        """One agent with its rating and places."""
        call = Call(method="GET", path=write_path("agents", handle))
        return (self._connection.ask(attempts.OneAgent, call)).agent

    def register(self, agent: str, *, owner: str | None = None) -> accounts.MadeKey:
        """Registers an agent where the server is open to that."""
        body = _leave_out_none(agent=agent, owner=owner)
        call = Call(method="POST", path="/agents", body=body)
        return self._connection.ask(accounts.MadeKey, call)

    def disqualify(self, handle: str, *, reason: str) -> attempts.AgentState:
        """Takes an agent off all boards."""
        return self._act(handle, "disqualify", reason)

    def reinstate(self, handle: str, *, reason: str) -> attempts.AgentState:
        """Puts it back, with all it had."""
        return self._act(handle, "reinstate", reason)

    def _act(self, handle: str, act: str, reason: str) -> attempts.AgentState:
        path = write_path("agents", handle, act)
        call = Call(method="POST", path=path, body={"reason": reason})
        return (self._connection.ask(attempts.OneAgent, call)).agent


class Jobs(_Resource):
    """Work that takes longer than a request."""

    def list(
        self, *, state: str | None = None, kind: str | None = None, limit: int | None = None
    ) -> Iterator[accounts.JobState]:
        """Jobs, newest first."""
        call = Call(method="GET", path="/jobs", params={"state": state, "kind": kind})
        return self._connection.page(accounts.JobState, call, limit)

    def get(self, job: str) -> accounts.JobState:
        """One job."""
        return self._ask("GET", job)

    def cancel(self, job: str) -> accounts.JobState:
        """Stops it."""
        return self._ask("POST", job, "cancel")

    def retry(self, job: str) -> accounts.JobState:
        """Has it done again."""
        return self._ask("POST", job, "retry")

    def _ask(self, method: str, job: str, *act: str) -> accounts.JobState:
        call = Call(method=method, path=write_path("jobs", job, *act))
        return (self._connection.ask(accounts.OneJob, call)).job


class Accounts(_Resource):
    """Keys and invitations."""

    def keys(
        self, *, owner: str | None = None, agent: str | None = None
    ) -> list[accounts.KeyState]:
        """Keys that yours may manage."""
        call = Call(method="GET", path="/keys", params={"owner": owner, "agent": agent})
        return (self._connection.ask(accounts.KeyPage, call)).items

    def create_key(self, name: str, **fields: Any) -> accounts.MadeKey:
        """Makes a key, as in `NewKey`; its secret is shown this once."""
        body = _leave_out_none(name=name, **fields)
        call = Call(method="POST", path="/keys", body=body)
        return self._connection.ask(accounts.MadeKey, call)

    def rotate_key(self, key: str, *, overlap_s: float = 3600) -> accounts.MadeKey:
        """A new key for an old one, which works for a while longer."""
        path = write_path("keys", key, "rotate")
        call = Call(method="POST", path=path, body={"overlap_s": overlap_s})
        return self._connection.ask(accounts.MadeKey, call)

    def revoke_key(self, key: str) -> accounts.KeyState:
        """Ends a key."""
        call = Call(method="POST", path=write_path("keys", key, "revoke"))
        return (self._connection.ask(accounts.OneKey, call)).key

    def invitations(self) -> list[accounts.InvitationState]:
        """Invitations that yours could have made."""
        call = Call(method="GET", path="/invitations")
        return (self._connection.ask(accounts.InvitationPage, call)).items

    def invite(self, **fields: Any) -> accounts.MadeInvitation:
        """An invitation, as in `NewInvitation`; its code is shown this once."""
        call = Call(method="POST", path="/invitations", body=_leave_out_none(**fields))
        return self._connection.ask(accounts.MadeInvitation, call)

    def accept(
        self, code: str, *, owner: str | None = None, agent: str | None = None
    ) -> accounts.MadeKey:
        """Takes an invitation up: a key of your own, and your agent registered."""
        body = _leave_out_none(code=code, owner=owner, agent=agent)
        call = Call(method="POST", path="/invitations/accept", body=body)
        return self._connection.ask(accounts.MadeKey, call)

    def revoke_invitation(self, invitation: str) -> None:
        """Nobody can accept it any more."""
        path = write_path("invitations", invitation, "revoke")
        self._connection.send(Call(method="POST", path=path))


class Scores(_Resource):
    """What people say of cases."""

    def list(
        self,
        *,
        run: str | None = None,
        case: str | None = None,
        name: str | None = None,
        author: str | None = None,
        limit: int | None = None,
    ) -> Iterator[scores.Score]:
        """What people said, newest first."""
        params = {"run": run, "case": case, "name": name, "author": author}
        call = Call(method="GET", path="/scores", params=params)
        return self._connection.page(scores.Score, call, limit)

    def give(self, run: str, case: str, **words: Any) -> scores.Score:
        """Scores a case yourself, as in `NewScore`; said again, it takes the place of the last."""
        body = _leave_out_none(run=run, case=case, **words)
        return self._ask(Call(method="POST", path="/scores", body=body))

    def change(self, score: str, **words: Any) -> scores.Score:
        """Says otherwise what you said."""
        path, body = write_path("scores", score), _leave_out_none(**words)
        return self._ask(Call(method="PATCH", path=path, body=body))

    def withdraw(self, score: str) -> scores.Score:
        """Takes back what you said."""
        return self._ask(Call(method="DELETE", path=write_path("scores", score)))

    def _ask(self, call: Call) -> scores.Score:
        return (self._connection.ask(scores.OneScore, call)).score


class Formulas(_Resource):
    """Formulas, checked and explained without a run."""

    def check(self, formula: str, names: Iterable[str] = ()) -> formulas.FormulaChecked:
        """What is wrong with it, or what its scores can be."""
        body = {"formula": formula, "names": list(names)}
        call = Call(method="POST", path="/formula/check", body=body)
        return self._connection.ask(formulas.FormulaChecked, call)

    def explain(
        self, formula: str, values: Mapping[str, float | None]
    ) -> formulas.FormulaExplained:
        """The formula with values, and what each term contributes."""
        body = {"formula": formula, "values": dict(values)}
        call = Call(method="POST", path="/formula/explain", body=body)
        return self._connection.ask(formulas.FormulaExplained, call)


class Settings(_Resource):
    """Variables and secrets of suites."""

    def vars(self) -> dict[str, str]:
        """Variables by name."""
        call = Call(method="GET", path="/vars")
        return (self._connection.ask(accounts.Variables, call)).vars

    def set_var(self, name: str, value: str) -> None:
        """Sets a variable."""
        self._put("vars", name, value)

    def remove_var(self, name: str) -> None:
        """Forgets a variable."""
        self._connection.send(Call(method="DELETE", path=write_path("vars", name)))

    def secrets(self) -> list[str]:
        """Names of secrets; their values are shown to nobody."""
        call = Call(method="GET", path="/secrets")
        return (self._connection.ask(accounts.SecretNames, call)).secrets

    def set_secret(self, name: str, value: str) -> None:
        """Sets a secret."""
        self._put("secrets", name, value)

    def remove_secret(self, name: str) -> None:
        """Forgets a secret."""
        self._connection.send(Call(method="DELETE", path=write_path("secrets", name)))

    def _put(self, kind: str, name: str, value: str) -> None:
        call = Call(method="PUT", path=write_path(kind, name), body={"value": value})
        self._connection.send(call)


def _leave_out_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
