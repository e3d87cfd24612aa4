"""Problems by RFC 9457: what every refusal and failure looks like."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

Code = Literal[
    "bad_request",
    "invalid_input",
    "not_ready",
    "not_signed_in",
    "not_allowed",
    "not_found",
    "method_not_allowed",
    "not_acceptable",
    "conflict",
    "too_large",
    "unsupported_media_type",
    "too_many_requests",
    "busy",
    "work_failed",
    "internal_error",
]


class ProblemPart(BaseModel):
    """One mistake: what, where, and how to mend it."""

    message: str
    field: str | None = Field(None, description="The key or parameter, as in `metrics.rating`.")
    line: int | None = None
    column: int | None = None
    text: str | None = Field(None, description="The line that the column points into.")
    length: int = Field(1, description="How many characters of it are meant.")
    hint: str | None = Field(None, description="How to mend it.")


class Problem(BaseModel):
    """Why something was not done. `code` is stable, `detail` is for people."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: Code
    errors: list[ProblemPart] = Field(default_factory=list)
    request_id: str
