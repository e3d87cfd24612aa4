"""What judges cost: tokens and US dollars of one verdict, and of all in a score."""

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
    """What asking a judge took. A sum with a part that is not known is not known: None."""

    model: str | None
    """Who answered, by its own name; None when nobody did, or several."""
    asked: int
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    """US dollars."""

    @classmethod
    def of(
        cls, answers: Iterable[Answer], *, unanswered: int = 0, refused: bool = False
    ) -> JudgeSpending:
        """For the answers that came; what a request without one cost nobody knows.

        One that was `refused` cost nothing.
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
        """Of several together."""
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
        """As a judge's score has it among its metadata."""
        facts = msgspec.structs.asdict(self)
        return {"model": facts.pop("model"), "attempts": facts.pop("asked"), **facts}


def find_spending(score: Score) -> JudgeSpending | None:
    """What judges took for a score and for all its parts, failed ones too; None without a judge."""
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
    """Whether a judge did not answer that would not have answered anything else either."""
    return any(each.get("unavailable") is True for each in _walk_metadata(score.metadata))


def find_pause(score: Score) -> float:
    """Seconds for which judges that did not answer ask to be left alone."""
    return max(
        (each.get("retry_after") or 0.0 for each in _walk_metadata(score.metadata)), default=0.0
    )


def _walk_metadata(metadata: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Those of judges, in a score and in all its parts."""
    if _MARK in metadata:
        yield metadata
    for part in metadata.get("breakdown", ()):  # a composite's
        if isinstance(part, Mapping) and isinstance(part.get("metadata"), Mapping):
            yield from _walk_metadata(part["metadata"])
