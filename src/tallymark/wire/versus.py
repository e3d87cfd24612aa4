"""Red against blue: submissions to a side, and verdicts on them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from tallymark.wire.parts import Asked, Handle, Listed, Moment, Told


class SideSubmission(Asked):
    """An attack or a defence."""

    agent: Handle | None = None
    content: Any


class Sided(Told):
    """A submission to a side, and the verdicts of the pairings that it made."""

    submission: dict[str, Any]
    verdicts: list[dict[str, Any]]


class SettleSide(Asked):
    """Which pairings to judge."""

    again: bool = Field(False, description="Also what a judge tried and failed to judge.")


class SidesSettled(Told):
    """How many pairings were judged, and some that could not be."""

    judged: int
    failed: list[dict[str, Any]]


class SideItem(Told):
    """An attack or a defence, without its content."""

    id: int
    player: str
    side: Literal["red", "blue"]
    number: int = Field(description="1 for the player's first on this side.")
    at: Moment
    version: str = Field(description="Of the challenge, when it was submitted.")


class SidePage(Listed[SideItem]):
    """Attacks and defences, newest first."""


class SideVerdict(Told):
    """What a judge said of a submission against one of the other side."""

    opponent: str
    category: str
    state: Literal["pending", "judged", "failed"]
    breached: bool | None
    reason: str = Field(description="Empty for players until the challenge has closed.")
    error: str | None
    judged_at: Moment | None


class WholeSide(SideItem):
    """An attack or a defence with its content, and how it fared."""

    challenge: str
    format: Literal["json", "text", "files", "agent"] = Field(
        description="In which the content was taken."
    )
    content: Any = Field(description="A JSON value, a text, or names with texts of files.")
    active: bool = Field(description="Whether it is its player's newest on that side.")
    verdicts: list[SideVerdict]


class OneSide(Told):
    """What was submitted to a side."""

    submission: WholeSide
