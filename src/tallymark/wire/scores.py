"""People's own scores and comments, of a case of a run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from tallymark.wire.parts import Asked, Listed, Moment, Told

Value = Annotated[float | None, Field(ge=0, le=1, description="From 0 to 1.", examples=[0.5])]
Label = Annotated[
    str | None,
    Field(min_length=1, max_length=60, description="`pass`, `fail`, or a word of your own."),
]
Comment = Annotated[str, Field(max_length=10_000, description="Why.")]


class ScoreWords(Asked):
    """What somebody says: a value, a label, a comment, or several of them."""

    value: Value = None
    label: Label = None
    comment: Comment = ""

    @model_validator(mode="after")
    def _says_something(self) -> ScoreWords:
        if self.value is None and self.label is None and not self.comment.strip():
            raise ValueError("give 'value', 'label' or 'comment'")
        return self


class NewScore(ScoreWords):
    """Your own score of a case; of the same name, it takes the place of the last."""

    run: str = Field(min_length=1, max_length=200, examples=["latest"])
    case: str = Field(min_length=1, max_length=10_000, examples=["capital-of-france"])
    epoch: int = Field(0, ge=0, lt=2**31)
    name: str = Field("verdict", min_length=1, max_length=60, examples=["verdict", "tone"])


class Score(Told):
    """What a person said of a case."""

    id: str
    run: str
    case: str
    epoch: int
    name: str = Field(description="`comment` where it is words alone.")
    author: str
    value: float | None
    label: str | None
    comment: str
    created_at: Moment
    changed_at: Moment


class OneScore(Told):
    """A score."""

    score: Score


class ScorePage(Listed[Score]):
    """Scores, newest first."""
