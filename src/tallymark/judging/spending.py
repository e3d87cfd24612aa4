"""Cost of judges: tokens and US dollars of one verdict, and of all in a score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.text import add_known

if TYPE_CHECKING:
    from tallymark.models.model import Answer
    from tallymark.scoring import Score

_MARK = "rubric_hash"
"""Only a judge's score has this in its metadata."""


class JudgeSpending(msgspec.Struct, frozen=True):
    """Cost of asking a judge. A sum with an unknown part is unknown: None."""

    model: str | None
    """The model that answered, by its own name; None for none or several."""
    asked: int
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    """US dollars."""

    @classmethod
    def of(
        cls, answers: Iterable[Answer], *, unanswered: int = 0, refused: bool = False
    ) -> JudgeSpending:
        """The cost of these answers; the cost of a request without an answer is unknown.

        A `refused` request cost nothing.
        """
        nothing: tuple[Any, ...] = (0, 0, 0.0) if refused else (None, None, None)
        lost = cls(None, unanswered, *nothing)
        return cls.total(
            [
                *(cls(a.model, 1, a.input_tokens, a.output_tokens, a.cost) for a in answers),
                *([lost] if unanswered else []),
            ]
        )

    @classmethod
    def total(cls, parts: Iterable[JudgeSpending]) -> JudgeSpending:
        """Sum of several."""
        listed = list(parts)
        models = {each.model for each in listed}
        return cls(
            models.pop() if len(models) == 1 else None,
            sum(each.asked for each in listed),
            add_known(each.input_tokens for each in listed),
            add_known(each.output_tokens for each in listed),
            add_known(each.cost for each in listed),
        )

    def to_metadata(self) -> dict[str, Any]:
        """The entries of a judge's score metadata."""
        facts = msgspec.structs.asdict(self)
        return {"model": facts.pop("model"), "attempts": facts.pop("asked"), **facts}


def find_spending(score: Score) -> JudgeSpending | None:
    """Cost of judges for a score and all its parts, failed ones too; None without a judge."""
    metadata = score.metadata
    if _MARK not in metadata and "breakdown" not in metadata:
        return None
    found = [
        JudgeSpending(
            each.get("model"),
            each.get("attempts", 0),
            each.get("input_tokens"),
            each.get("output_tokens"),
            each.get("cost"),
        )
        for each in _walk_metadata(metadata)
    ]
    return JudgeSpending.total(found) if found else None


def is_unavailable(score: Score) -> bool:
    """True if a judge did not answer and would not have answered any other question."""
    return any(each.get("unavailable") is True for each in _walk_metadata(score.metadata))


def find_pause(score: Score) -> float:
    """Longest wait in seconds that judges without an answer requested."""
    return max(
        (each.get("retry_after") or 0.0 for each in _walk_metadata(score.metadata)), default=0.0
    )


def _walk_metadata(metadata: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Metadata of judges, in a score and in all its parts."""
    if _MARK in metadata:
        yield metadata
    for part in metadata.get("breakdown", ()):  # a composite's
        if isinstance(part, Mapping) and isinstance(part.get("metadata"), Mapping):
            yield from _walk_metadata(part["metadata"])
