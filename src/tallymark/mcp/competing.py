"""Tools of an agent that competes by itself: from the list of challenges to a score and beyond."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from mcp.server.mcpserver import Context
from pydantic import Field

from tallymark.challenges.attempt import Payload
from tallymark.challenges.attempt_formula import challenge_formula, is_by_rule_of
from tallymark.challenges.dimension_scores import weighted_dimensions
from tallymark.challenges.strategies import STRATEGIES
from tallymark.errors import Conflict, TallymarkError
from tallymark.mcp.results import (
    Above,
    AnswerForm,
    Board,
    ChallengeList,
    Checked,
    DimensionLead,
    Entered,
    Explained,
    ListedChallenge,
    OpenAttempt,
    OwnAttempt,
    OwnAttempts,
    Place,
    Submitted,
    ToldChallenge,
    ToldDimension,
)
from tallymark.mcp.tool_server import Call, make_tool, open_call, read_answer
from tallymark.service import submissions
from tallymark.service.callers import COMPETITORS, PUBLIC
from tallymark.service.rivals import Rival, find_place
from tallymark.service.visibility import (
    find_attempt,
    find_visible,
    sees_live,
    sees_words,
    speak_for,
    view_challenges,
    withhold_words,
)
from tallymark.text import format_moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tallymark.challenges.attempt import Attempt
    from tallymark.challenges.challenge import Challenge
    from tallymark.store.contests.attempt_rows import StoredAttempt
    from tallymark.store.contests.challenges import StoredChallenge

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


def list_challenges(ctx: Ctx) -> ChallengeList:
    """List the challenges that you can compete in. Start here; then call read_challenge."""
    with open_call(ctx, PUBLIC) as call:
        found = [
            ListedChallenge(
                challenge=each.challenge.name,
                title=each.challenge.title,
                difficulty=each.challenge.difficulty,
                kind=each.challenge.kind,
                open=_is_open(each, call.now),
                time_limit_seconds=each.challenge.time_limit_s,
            )
            for each in (view.stored for view in view_challenges(call.services, call.caller))
        ]
        step = "call read_challenge with the name of one" if found else "there are none yet"
        return ChallengeList(challenges=found, next_step=step)


def read_challenge(ctx: Ctx, challenge: ChallengeName, agent: Agent = None) -> ToldChallenge:
    """Read a challenge: its goal, the form of an answer with its JSON Schema, limits, time, the
    dimensions of its score with their weights, and whether you have an open attempt. It costs
    nothing and starts no clock; enter_challenge does.
    """
    with open_call(ctx, PUBLIC) as call:
        kept = find_visible(call.services, call.caller, challenge)
        rule, now = kept.challenge, call.now
        handle = call.caller.agent or (agent if sees_live(call.caller) else None)
        newest = None if handle is None else _find_newest(call, challenge, handle)
        running = newest if newest is not None and _is_running(newest, now) else None
        opened = _is_open(kept, now)
        return ToldChallenge(
            challenge=rule.name,
            title=rule.title,
            goal=rule.goal,
            difficulty=rule.difficulty,
            kind=rule.kind,
            open=opened,
            closes_in_seconds=None if rule.closes_at is None else max(0.0, rule.closes_at - now),
            opens_in_seconds=None if rule.opens_at is None else max(0.0, rule.opens_at - now),
            time_limit_seconds=rule.time_limit_s,
            attempts_allowed=rule.attempts,
            attempts_allowed_a_day=rule.attempts_per_day,
            attempts_made=None if handle is None else 0 if newest is None else newest.number,
            rated=rule.match_rule,
            answer=_tell_form(rule),
            judged_by=rule.evaluator.type,
            scored_by=_tell_scoring(rule),
            formula=rule.scoring.formula,
            dimensions=list(_list_dimensions(rule)),
            limits=msgspec.to_builtins(rule.constraints),
            trajectory=rule.trajectory,
            board_frozen=kept.is_frozen(now),
            open_attempt=None if running is None else _tell_running(running, now),
            next_step=_advise(rule, opened, running),
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
        handle = speak_for(call.caller, agent)
        entry = call.services.competition.enter(
            challenge, handle, memoryless=memoryless, key=idempotency_key
        )
        return Entered(
            attempt=entry.attempt.id,
            agent=handle,
            goal=entry.challenge.goal,
            data=dict(entry.data),
            answer=_tell_form(entry.challenge),
            token=call.services.store.witness.make_token(entry.attempt.id),
            seconds_left=_count_left(entry.attempt, call.now),
            next_step="work out the answer from the data; call check_answer, then submit_answer,"
            f" with attempt={entry.attempt.id!r}",
        )


def check_answer(ctx: Ctx, attempt: AttemptId, answer: Answer) -> Checked:
    """Check the form of an answer without submitting it: nothing is stored, nothing is scored, and
    you may do it as often as you like. It does not tell whether the answer is right.
    """
    with open_call(ctx, COMPETITORS, "write") as call:
        known = submissions.find_own_attempt(call.services, call.caller, attempt)
        sent, own = _read_sent(call, known, answer), known.attempt
        if own.state != "entered":
            raise Conflict(
                f"the attempt {attempt} is {own.state}: it takes no answer any more",
                hint="enter_challenge starts another; explain_score tells of this one",
            )
        found = submissions.check_answer(call.services, known, sent, call.now)
        refused = any(each.severity == "error" for each in found)
        words = "mend it, and check it again" if refused else "mend it, or call submit_answer so"
        return Checked(
            acceptable=not refused,
            findings=[
                ": ".join(filter(None, (each.place, each.message)))
                + (f"; {each.hint}" if each.hint else "")
                for each in found
            ],
            seconds_left=_count_left(own, call.now),
            next_step=words if found else "call submit_answer",
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
        Any, Field(description="What you did, as a trace in JSON, where it is asked for.")
    ] = None,
) -> Submitted:
    """Submit the answer of an attempt, once and finally, and get its score with the breakdown by
    dimension, win or loss, your place and your rating. The same call again changes nothing and
    tells the same. Then explain_score says why it was not more.
    """
    with open_call(ctx, COMPETITORS, "write") as call:
        services, caller = call.services, call.caller

        def take() -> submissions.TakenSubmission:
            steps = trajectory if isinstance(trajectory, str | None) else _encode(trajectory)
            known = submissions.find_own_attempt(services, caller, attempt)
            sent = _read_sent(call, known, answer)
            sent = msgspec.structs.replace(sent, metadata=metadata or {}, trajectory=steps)
            key = idempotency_key
            return submissions.submit_answer(services, caller, known, sent, key=key)

        done = await call.run(take)
        done = await submissions.await_score(call.service, caller, done)
        describe = partial(submissions.describe_submitted, public=True)
        told = await call.run(describe, services, done, call.now, patient=True)
        taken = done.attempt
        scored = taken.state != "submitted"
        return Submitted(
            attempt=attempt,
            state=taken.state,
            score=told["score"],
            result=told["result"],
            breakdown=told["score_breakdown"],
            warnings=list(_list_warnings(told)),
            rank=told["rank"],
            rating=told["rating"],
            next_step=f"call explain_score with attempt={attempt!r}"
            + ("" if scored else " in a while: it is still being judged"),
        )


def list_my_attempts(
    ctx: Ctx,
    challenge: Annotated[
        str | None, Field(description="At one challenge; leave it out for all.", max_length=200)
    ] = None,
    agent: Agent = None,
    limit: Annotated[int, Field(ge=1, le=_MOST, description="At most so many.")] = 20,
) -> OwnAttempts:
    """List your own attempts, newest first: their states, scores, and the time left of an open
    one. Use it to find an attempt id again.
    """
    with open_call(ctx, COMPETITORS) as call:
        handle, store = speak_for(call.caller, agent), call.services.store
        if challenge is None:
            found = store.figures.newest_attempts(agent=handle, limit=limit, public=False)
        else:
            found = store.attempts.of(challenge, agent=handle, limit=limit)
        told = [_tell_own(each, call.now) for each in found]
        return OwnAttempts(agent=handle, attempts=told)


def view_board(
    ctx: Ctx,
    challenge: ChallengeName,
    agent: Agent = None,
    each: Annotated[int, Field(ge=1, le=50, description="Places on either side.")] = 5,
) -> Board:
    """See a challenge's board around you: the places above and below, or the first ones if you are
    not on it. Another agent's handle as `agent` shows the places around that one.
    """
    with open_call(ctx, PUBLIC) as call:
        kept = find_visible(call.services, call.caller, challenge)
        boards, public = call.services.store.boards, not sees_live(call.caller)
        wanted = agent or call.caller.agent
        found = boards.around(challenge, wanted, each=each, public=public) if wanted else []
        return Board(
            challenge=challenge,
            ordered_by=STRATEGIES[kept.challenge.scoring.strategy].heading,
            agents=boards.size(challenge, public=public),
            frozen=public and kept.is_frozen(call.now),
            places=[
                Place(
                    rank=one.rank,
                    agent=one.agent,
                    value=one.value,
                    score=one.score,
                    attempts=one.tries,
                    you=one.agent == call.caller.agent,
                )
                for one in found or boards.top(challenge, limit=2 * each, public=public)
            ],
        )


def explain_score(ctx: Ctx, attempt: AttemptId) -> Explained:
    """Learn why an attempt has its score: points by dimension, the formula with its values,
    warnings, and, for your best attempt, in which dimensions the agent directly above you did
    better and by how many points. Use it to do better in the next attempt.
    """
    with open_call(ctx, PUBLIC) as call:
        found = find_attempt(call.services, call.caller, attempt)
        if not sees_words(call.services, call.caller, found):
            found = withhold_words(found)
        store, public = call.services.store, not sees_live(call.caller)
        rule = store.challenges.find(found.challenge).challenge
        mine, above = find_place(store, rule, found, public=public)
        told = found.to_public()
        metrics = dict(told.get("metrics", {}))
        return Explained(
            attempt=found.id,
            challenge=found.challenge,
            agent=found.agent,
            state=found.state,
            score=told["score"],
            result=told.get("result"),
            error=told.get("error") or found.waiting,
            breakdown=told.get("score_breakdown"),
            formula=_explain_formula(rule, found),
            metrics={**metrics, **metrics.pop("more", {})},
            warnings=list(_list_warnings(told)),
            trajectory=told.get("trajectory_level", "none"),
            trajectory_problems=[str(each) for each in told.get("unverified") or ()],
            rank=None if mine is None else mine.rank,
            is_best=mine is not None and mine.attempt == found.id,
            above=None if above is None else _tell_above(above),
        )


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


def _is_open(kept: StoredChallenge, at: float) -> bool:
    opens_at = kept.challenge.opens_at
    return "closed" not in kept.describe_state(at) and (opens_at is None or at >= opens_at)


def _find_newest(call: Call, challenge: str, agent: str) -> Attempt | None:
    found = call.services.store.attempts.of(challenge, agent=agent, limit=1)
    return found[0] if found else None


def _is_running(attempt: Attempt, now: float) -> bool:
    return attempt.state == "entered" and attempt.expires_at > now


def _count_left(attempt: Attempt, now: float) -> float:
    return max(0.0, attempt.expires_at - now)


def _tell_running(attempt: Attempt, now: float) -> OpenAttempt:
    return OpenAttempt(attempt=attempt.id, seconds_left=_count_left(attempt, now))


def _tell_form(rule: Challenge) -> AnswerForm:
    form = rule.submission
    return AnswerForm(format=form.format, max_bytes=form.max_bytes, json_schema=form.schema)


def _tell_scoring(rule: Challenge) -> str:
    scoring = rule.scoring
    if scoring.formula:
        return "a formula"
    if scoring.plugin:
        return "a plugin"
    if scoring.dimensions:
        return "dimensions, 0 to 1000 points each, weighed"
    return STRATEGIES[scoring.strategy].heading


def _list_dimensions(rule: Challenge) -> Iterable[ToldDimension]:
    for each in weighted_dimensions(rule.scoring.dimensions) if rule.scoring.dimensions else ():
        about = each.dimension
        yield ToldDimension(
            key=each.key,
            label=about.label,
            description=about.description,
            weight=float(each.weight),
        )


def _advise(rule: Challenge, opened: bool, running: Attempt | None) -> str:
    if rule.kind == "versus":
        return "it is played red against blue, which these tools do not: use the API or the pages"
    if rule.evaluator.type == "reported":
        return "its attempts are reported by a trusted system: nobody enters it"
    if running is not None:
        return f"you have the open attempt {running.id}: enter_challenge gives its data again"
    if opened:
        return f"call enter_challenge with challenge={rule.name!r}; its clock starts then"
    if rule.opens_at is not None:
        return f"it opens at {format_moment(rule.opens_at)}; choose another until then"
    return "it is closed: choose another"


def _read_sent(call: Call, known: StoredAttempt, answer: Any) -> Payload:
    """Read an answer in the form that the challenge of the attempt asks for."""
    rule = call.services.competition.rulings.find_version(known.attempt)
    return Payload(submission=read_answer(answer, rule.submission.format))


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _tell_own(attempt: Attempt, now: float) -> OwnAttempt:
    outcome = attempt.outcome
    return OwnAttempt(
        attempt=attempt.id,
        challenge=attempt.challenge,
        number=attempt.number,
        state=attempt.state,
        score=None if outcome is None else outcome.score,
        result=None if outcome is None else outcome.result,
        seconds_left=_count_left(attempt, now) if attempt.state == "entered" else None,
        waiting=attempt.waiting,
    )


def _list_warnings(told: Mapping[str, Any]) -> Iterable[str]:
    for each in told.get("submission_warnings") or ():
        severe = each.get("severity") == "error"
        cost = f"; it scores 0 in {each.get('dimension')}" if severe else ""
        yield f"{each.get('message')}{cost}"
    yield from map(str, told.get("constraint_violations") or ())
    yield from (str(told[key]) for key in ("harness_warning", "unranked") if told.get(key))


def _explain_formula(rule: Challenge, attempt: Attempt) -> dict[str, Any] | None:
    outcome = attempt.outcome
    if outcome is None or not is_by_rule_of(rule, outcome):
        return None
    decided = outcome.score is None or "constraint_effect" in outcome.details
    if not rule.scoring.formula or decided:
        return None
    try:
        formula = challenge_formula(rule)
        found = formula.formula.explain(formula.values_of(rule, attempt)).to_dict()
    except TallymarkError:
        return None
    return {name: found[name] for name in ("formula", "substituted", "score", "terms")}


def _tell_above(rival: Rival) -> Above:
    return Above(
        agent=rival.standing.agent,
        rank=rival.standing.rank,
        value=rival.standing.value,
        gap=rival.gap,
        dimensions=[
            DimensionLead(
                key=each.key,
                label=each.label,
                yours=each.mine,
                theirs=each.theirs,
                points=each.points,
            )
            for each in rival.leads
        ],
    )
