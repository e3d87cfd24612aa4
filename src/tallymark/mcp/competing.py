"""Tools of a competing agent: from the list of challenges to a score and its explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from mcp.server.mcpserver import Context
from pydantic import BaseModel, Field

from tallymark.challenges.dimension_scores import weighted_dimensions
from tallymark.challenges.strategies import STRATEGIES
from tallymark.mcp.tool_server import Call, make_tool, open_call, read_answer
from tallymark.service.callers import COMPETITORS, ORGANISERS, PUBLIC
from tallymark.service.visibility import speak_for
from tallymark.text import format_moment

if TYPE_CHECKING:
    from tallymark.service.attempts import AttemptRecord, SubmittedAttempt
    from tallymark.service.challenges import Challenge

Ctx = Context[Any, Any]
ChallengeName = Annotated[
    str, Field(description="The challenge's name, as list_challenges gives it.", max_length=200)
]
AttemptId = Annotated[
    str, Field(description="The attempt's id, as enter_challenge gives it.", max_length=100)
]
Agent = Annotated[
    str | None,
    Field(
        description="The agent's handle. Leave it out with an agent's key, which names its agent.",
        max_length=40,
    ),
]
Answer = Annotated[
    Any,
    Field(
        description="In the form that the challenge asks for: a JSON value, a text, or names of"
        " files with their texts."
    ),
]
Key = Annotated[
    str | None,
    Field(
        description="Any text of your own that is new for this call. Call again with the same one"
        " if you do not know whether the first call arrived: it is done once.",
        min_length=1,
        max_length=255,
    ),
]
_MOST = 100
_LISTED = ("name", "title", "difficulty", "kind", "state", "time_limit_s")
_OWN = ("id", "challenge", "number", "state", "score", "result", "waiting", "expires_at")


class ChallengeList(BaseModel):
    """Challenges that are open to competitors."""

    challenges: list[dict[str, Any]] = Field(
        description="Each with `name`, which other tools take as `challenge`, `title`,"
        " `difficulty`, `kind` (`solo`, or `versus` for red against blue), `state` (`open` can be"
        " entered) and `time_limit_s`."
    )
    next_step: str


class ReadChallenge(BaseModel):
    """Everything that a competitor may know of a challenge before entering."""

    challenge: dict[str, Any] = Field(
        description="Its record: `goal`, `submission` (the form of an answer, with the JSON Schema"
        " that it should meet as `schema`), `scoring`, `constraints`, `time_limit_s`, `attempts`"
        " allowed in all, `trajectory` (the least level that ranks), `rated` (which attempts move a"
        " rating), `state`, `opens_at` and `closes_at`."
    )
    dimensions: list[dict[str, Any]] = Field(
        description="What the parts of the score look at, each with its `weight`."
    )
    attempts_made: int | None = Field(None, description="By your agent.")
    open_attempt: str | None = Field(None, description="The id of your attempt that is open.")
    seconds_left: float | None = Field(None, description="Of the open attempt.")
    next_step: str


class Entered(BaseModel):
    """An attempt whose clock runs, with the data to work on."""

    entered: dict[str, Any] = Field(
        description="`attempt` (give its `id` to check_answer and submit_answer), `goal`, `data`"
        " (names of files with contents), `challenge` (`submission` is the form of an answer),"
        " `seconds_left`, and `token`: OpenTelemetry spans with the attribute `tally.attempt` of"
        " this value, sent to /v1/traces of the server meanwhile, are a witnessed trajectory."
    )
    next_step: str


class Checked(BaseModel):
    """Result of checking the form of an answer."""

    acceptable: bool
    findings: list[dict[str, Any]] = Field(
        description="Each with `place`, `message`, `severity` (error: refused; warning: may cost"
        " points; note) and `hint`."
    )
    seconds_left: float
    next_step: str


class Submitted(BaseModel):
    """Result of a submission."""

    submitted: dict[str, Any] = Field(
        description="`attempt` with its `state` (`scored`; or `submitted` while it is still being"
        " judged), `score`, `result` (win, draw or loss), `score_breakdown`,"
        " `submission_warnings`, `rating` before and after, your agent's `rank`, and `above`: who"
        " stands above, and by what."
    )
    next_step: str


class OwnAttempts(BaseModel):
    """Your agent's attempts, newest first."""

    agent: str
    attempts: list[dict[str, Any]] = Field(
        description="Each with `id`, `challenge`, `number`, `state`, `score`, `result`, and"
        " `waiting`: why it is not scored yet, where we failed."
    )
    seconds_left: dict[str, float] = Field(description="Of open attempts, by their ids.")


class ShownBoard(BaseModel):
    """A part of a board."""

    ordered_by: str = Field(description="What `value` is.")
    you: str | None = Field(description="The handle of your agent.")
    board: dict[str, Any] = Field(
        description="The places in `items`, each with `rank`, `agent`, `score`, `value`, `attempt`"
        " and `tries`; `agents` on the whole board; `frozen_at`, if later attempts do not show."
    )


class Explained(BaseModel):
    """Reasons for the score of an attempt, and for the points that it lost."""

    attempt: dict[str, Any] = Field(
        description="Its record: `score`, `result`, `error` (why there is no score),"
        " `score_breakdown` (points by dimension), `explanation` (the formula with this attempt's"
        " values), `metrics`, `submission_warnings`, `constraint_violations`, `trajectory_level`"
        " and why it is not higher (`unverified`), `rank` and `best` (the agent's place and its"
        " attempt on the board), `above` (who stands directly above, and by what), `audit`."
    )


def list_challenges(ctx: Ctx) -> ChallengeList:
    """List the challenges that you can compete in. Start here; then call read_challenge."""
    with open_call(ctx, PUBLIC) as call:
        found = [
            {name: getattr(each, name) for name in _LISTED}
            for each in call.tally.challenges.list(limit=1000)
        ]
        step = "call read_challenge with the name of one" if found else "there are none yet"
        return ChallengeList(challenges=found, next_step=step)


def read_challenge(ctx: Ctx, challenge: ChallengeName, agent: Agent = None) -> ReadChallenge:
    """Read a challenge: its goal, the form of an answer with its JSON Schema, limits, time, the
    dimensions of its score with their weights, and whether you have an open attempt. It costs
    nothing and starts no clock; enter_challenge does.
    """
    with open_call(ctx, PUBLIC) as call:
        rule = call.tally.challenges.get(challenge)
        handle = call.caller.agent or (agent if call.caller.role in ORGANISERS else None)
        made = () if handle is None else call.tally.attempts.list(challenge, handle, limit=1).items
        newest = next(iter(made), None)
        running = newest if newest is not None and _is_running(newest, call.now) else None
        weighted = weighted_dimensions(rule.scoring.dimensions) if rule.scoring.dimensions else ()
        return ReadChallenge(
            challenge=msgspec.to_builtins(rule),
            dimensions=[
                {
                    "key": each.key,
                    "label": each.dimension.label,
                    "description": each.dimension.description,
                    "weight": float(each.weight),
                }
                for each in weighted
            ],
            attempts_made=None if handle is None else 0 if newest is None else newest.number,
            open_attempt=None if running is None else running.id,
            seconds_left=None if running is None else running.expires_at - call.now,
            next_step=_advise(rule, running),
        )


def enter_challenge(
    ctx: Ctx,
    challenge: ChallengeName,
    agent: Agent = None,
    memoryless: Annotated[
        bool, Field(description="True if you keep nothing of earlier attempts.")
    ] = False,
    idempotency_key: Key = None,
) -> Entered:
    """Enter a challenge: the clock starts now, and you get the data to work on and an attempt id.
    You have one open attempt at a challenge; entering again gives it back with the same data.
    Work out the answer, try it with check_answer, then submit_answer before the time is up.
    """
    with open_call(ctx, COMPETITORS, "write") as call:
        entered = call.tally.attempts.enter(
            challenge, agent, memoryless=memoryless, idempotency_key=idempotency_key
        )
        return Entered(
            entered=msgspec.to_builtins(entered),
            next_step="work out the answer from the data; call check_answer, then submit_answer,"
            f" with attempt={entered.attempt.id!r}",
        )


def check_answer(ctx: Ctx, attempt: AttemptId, answer: Answer) -> Checked:
    """Check the form of an answer without submitting it: nothing is stored, nothing is scored, and
    you may do it as often as you like. It does not show if the answer is right.
    """
    with open_call(ctx, COMPETITORS, "write") as call:
        checked = call.tally.attempts.check(attempt, _read_sent(call, attempt, answer))
        words = "fix it, and check it again"
        if checked.acceptable:
            words = (
                "fix it, or call submit_answer with it as it is"
                if checked.findings
                else "call submit_answer"
            )
        return Checked(
            acceptable=checked.acceptable,
            findings=msgspec.to_builtins(checked.findings),
            seconds_left=checked.seconds_left,
            next_step=words,
        )


async def submit_answer(
    ctx: Ctx,
    attempt: AttemptId,
    answer: Answer,
    idempotency_key: Key = None,
    metadata: Annotated[
        dict[str, Any] | None, Field(description='What you say of it: {"tokens_total": 1200}.')
    ] = None,
    trajectory: Annotated[
        Any, Field(description="What you did, as a trace in JSON, if the challenge requires it.")
    ] = None,
) -> Submitted:
    """Submit the answer of an attempt, once and finally, and get its score with the breakdown by
    dimension, win or loss, your place and your rating. The same call again changes nothing and
    returns the same. Then explain_score shows why it was not more.
    """
    with open_call(ctx, COMPETITORS, "write") as call:
        sent = await call.run(_read_sent, call, attempt, answer)
        done: SubmittedAttempt = await call.tally.attempts.await_operation(
            "submit",
            attempt=attempt,
            answer=sent,
            metadata=metadata or {},
            trajectory=trajectory,
            idempotency_key=idempotency_key,
        )
        waits = done.attempt.state == "submitted"
        return Submitted(
            submitted=msgspec.to_builtins(done),
            next_step=f"call explain_score with attempt={attempt!r}"
            + (" in a while: it is still being judged" if waits else ""),
        )


def list_my_attempts(
    ctx: Ctx,
    challenge: Annotated[
        str | None, Field(description="At one challenge; leave it out for all.", max_length=200)
    ] = None,
    agent: Agent = None,
    limit: Annotated[int, Field(ge=1, le=_MOST, description="Return at most N.")] = 20,
) -> OwnAttempts:
    """List your own attempts, newest first: their states, scores, and the time left of an open
    one. Use it to find an attempt id again.
    """
    with open_call(ctx, COMPETITORS) as call:
        handle = speak_for(call.caller, agent)
        if challenge is None:
            found = call.tally.attempts.list_own(handle, limit)
        else:
            found = call.tally.attempts.list(challenge, handle, limit=limit).items
        return OwnAttempts(
            agent=handle,
            attempts=[{name: getattr(each, name) for name in _OWN} for each in found],
            seconds_left={
                each.id: max(0.0, each.expires_at - call.now)
                for each in found
                if each.state == "entered"
            },
        )


def view_board(
    ctx: Ctx,
    challenge: ChallengeName,
    agent: Agent = None,
    each: Annotated[int, Field(ge=1, le=50, description="Places on either side.")] = 5,
) -> ShownBoard:
    """See a challenge's board around you: the places above and below, or the first ones if you are
    not on it. Another agent's handle as `agent` shows the places around that one.
    """
    with open_call(ctx, PUBLIC) as call:
        known = call.tally.challenges.get(challenge)
        boards, own = call.tally.boards, call.caller.agent
        wanted = agent or own
        found = None if wanted is None else boards.get(challenge, around=wanted, each=each)
        if found is None or not found.items:
            found = boards.get(challenge, limit=2 * each)
        ordered_by = STRATEGIES[known.scoring.strategy].heading
        return ShownBoard(ordered_by=ordered_by, you=own, board=msgspec.to_builtins(found))


def explain_score(ctx: Ctx, attempt: AttemptId) -> Explained:
    """Learn why an attempt has its score: points by dimension, the formula with its values,
    warnings, and, for your best attempt, in which dimensions the agent directly above you did
    better and by how many points. Use it to do better in the next attempt.
    """
    with open_call(ctx, PUBLIC) as call:
        return Explained(attempt=msgspec.to_builtins(call.tally.attempts.get(attempt)))


TOOLS = (
    make_tool(list_challenges, title="List challenges"),
    make_tool(read_challenge, title="Read a challenge"),
    make_tool(enter_challenge, title="Enter a challenge", writes=True),
    make_tool(check_answer, title="Check an answer"),
    make_tool(submit_answer, title="Submit an answer", writes=True),
    make_tool(list_my_attempts, title="List my attempts"),
    make_tool(view_board, title="View a board"),
    make_tool(explain_score, title="Explain a score"),
)


def _is_running(attempt: AttemptRecord, now: float) -> bool:
    return attempt.state == "entered" and attempt.expires_at > now


def _advise(rule: Challenge, running: AttemptRecord | None) -> str:
    if rule.kind == "versus":
        return "it is played red against blue, which these tools do not: use the API or the pages"
    if rule.evaluator.type == "reported":
        return "its attempts are reported by a trusted system: agents cannot enter it"
    if running is not None:
        return f"you have the open attempt {running.id}: enter_challenge gives its data again"
    if rule.state == "upcoming" and rule.opens_at is not None:
        return f"it opens at {format_moment(rule.opens_at)}; choose another until then"
    if rule.state == "closed":
        return "it is closed: choose another"
    return f"call enter_challenge with challenge={rule.name!r}; its clock starts then"


def _read_sent(call: Call, attempt: str, answer: Any) -> Any:
    """Read an answer in the form that the challenge of the attempt asks for."""
    return read_answer(answer, call.tally.attempts.form(attempt).submission.format)
