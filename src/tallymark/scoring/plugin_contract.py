"""The contract of scorer plugins: what one gets, what it gives back, and how that is judged.

A plugin is a class with `score(metrics, config, ctx)`. It turns the metrics of one attempt into
the number that a leaderboard sorts by, highest first.
"""

import math
from collections.abc import Mapping
from typing import Any, NotRequired, Protocol, TypedDict

import msgspec

from tallymark.errors import InvalidInput, suggest
from tallymark.scoring.score import Origin, Score, make_json_safe, show_value
from tallymark.text import format_digits


class AttemptMetrics(TypedDict, total=False):
    """The metrics of one attempt. One that is not known is left out: read them with `.get`."""

    succeeded: bool
    """True if the challenge was passed."""
    tokens_total: int | None
    elapsed_ms: int | None
    rating: int | None
    """The judge's, from 0 to 10."""
    created_at: int | None
    """In milliseconds since 1970."""


class ScoringContext(TypedDict, total=False):
    """The attempt's agent and challenge, and the time that scoring may take."""

    tenant_id: str
    app_id: str
    workflow_id: str
    challenge_id: str
    end_user_id: str | None
    timeout_ms: int


class ScoringResult(TypedDict):
    """The answer of a plugin."""

    score: float
    details: NotRequired[dict[str, Any] | None]


class ScorerProtocol(Protocol):
    """The class of a plugin, which is made without arguments."""

    def score(
        self, metrics: AttemptMetrics, config: dict[str, Any], ctx: ScoringContext
    ) -> ScoringResult:
        """The score of one attempt, never below 0."""
        ...


def require_mapping(what: str, given: object) -> Mapping[str, Any]:
    """A plugin's config or context, as it was given; InvalidInput for what is none, None too."""
    if isinstance(given, Mapping):
        return given
    message = f"a plugin's {what} is a mapping, not {show_value(given)}"
    raise InvalidInput(message, hint="leave it empty ({}) where there is nothing to say")


def plugin_score(result: object, *, origin: Origin | None) -> Score:
    """Convert a plugin's answer, as plain data, to a `Score`; a bad answer is a failed one.

    A negative score becomes 0, and `metadata["clamped_from"]` has the original.
    """
    if not isinstance(result, Mapping):
        return _make_bad_score(
            f'a plugin gives back {{"score": number}}, not {show_value(result)}', origin
        )
    if "score" not in result:
        return _make_bad_score(_describe_missing_score(result), origin)
    value, details = result["score"], result.get("details")
    # By exact class: True is an int to isinstance, but no score.
    if value.__class__ is not float and value.__class__ is not int:
        return _make_bad_score(f"the score is a number, not {show_value(value)}", origin)
    try:
        number = float(value) + 0.0  # so that -0.0 is 0.0
    except OverflowError:
        return _make_bad_score("the score is too large to be a number", origin)
    if not math.isfinite(number):
        return _make_bad_score(f"the score is a finite number, not {number}", origin)
    if details is not None and not isinstance(details, Mapping):
        return _make_bad_score(
            f"the details are a mapping or None, not {show_value(details)}", origin
        )
    metadata: dict[str, Any] = {"details": _make_plain(details)} if details else {}
    if number >= 0:
        return Score(number, metadata=metadata, origin=origin)
    metadata["clamped_from"] = number
    return Score(0.0, f"{format_digits(number)} was raised to 0", metadata, origin=origin)


def _make_plain(details: Mapping[Any, Any]) -> Any:
    """Details that any JSON writer takes, for anything that the plugin put in."""
    try:
        return msgspec.json.decode(msgspec.json.encode(details))  # five times as quick
    except (TypeError, ValueError, RecursionError):
        return make_json_safe(details)


def _make_bad_score(error: str, origin: Origin | None) -> Score:
    return Score(None, "", {"stopped": "bad answer"}, error, None, origin)


def _describe_missing_score(result: Mapping[Any, object]) -> str:
    near = suggest("score", [key for key in result if isinstance(key, str)])
    return 'the answer has no "score"' + (f', only "{near}"' if near else "")
