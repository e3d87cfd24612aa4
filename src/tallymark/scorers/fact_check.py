"""`fact_check`: the accuracy that an HTTP service finds in the output."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tallymark.errors import ScorerError, WorkFailed
from tallymark.scorers.json_post import post_json
from tallymark.scoring import EvalContext, Score, configurable
from tallymark.scoring.scorer_options import check_seconds, check_url, read_api_key


@configurable
def fact_check(
    url: str, timeout: float = 30.0, api_key_env: str | None = None
) -> Callable[[EvalContext], Awaitable[Score]]:
    """The service's `accuracy`: POST {"text": output}, answered {accuracy, explanation, claims}.

    A call that fails is a failed score with the cause, not the 0 of the original document: an
    agent must not pay for a service that is down. `timeout` is in seconds; `api_key_env` names
    the environment variable whose value is sent as a bearer token.
    """
    check_url(url, "fact_check")
    check_seconds(timeout, "fact_check")
    key = read_api_key(api_key_env, "fact_check")

    async def evaluate(ctx: EvalContext) -> Score:
        try:
            answer = await post_json(url, {"text": ctx.output_text}, seconds=timeout, key=key)
            return _read_score(answer)
        except (WorkFailed, ScorerError) as error:
            return Score.failed(f"fact_check: {error}")

    return evaluate


def _read_score(answer: Any) -> Score:
    if not isinstance(answer, Mapping) or "accuracy" not in answer:
        raise WorkFailed("the service's answer has no key 'accuracy'")
    claims = {"claims": answer["claims"]} if "claims" in answer else {}
    return Score(answer["accuracy"], answer.get("explanation") or "", claims)
