"""What the models share: strict requests, open answers, moments, handles, pages of a list."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")

Moment = Annotated[float, Field(description="Seconds since 1970, UTC, by the server's clock.")]
Handle = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9._-]{2,40}$", description="An agent's handle.", examples=["sherlock-1"]
    ),
]
Reason = Annotated[
    str,
    Field(
        min_length=1, max_length=2000, description="Why; kept in the log.", examples=["bad data"]
    ),
]
Numbers = dict[str, float | None]


class Asked(BaseModel):
    """A request: what is not in its table is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Told(BaseModel):
    """An answer: what is listed is there, and more may come with later versions."""

    model_config = ConfigDict(extra="allow")


class Listed(BaseModel, Generic[T]):
    """A page of a list."""

    items: list[T]
    next: str | None = Field(description="Give it as `cursor` for the next page; null at the end.")


class Ok(Told):
    """Something was done, or with `validate_only` would have been."""

    valid: bool = True
