"""Which pairings a new submission makes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

from tallymark.challenges.definition import Challenge, Versus
from tallymark.errors import InvalidInput

Side = Literal["red", "blue"]
OTHER_SIDE: dict[Side, Side] = {"red": "blue", "blue": "red"}


class SideSubmission(msgspec.Struct, frozen=True, kw_only=True):
    """An attack or a defence, without its content."""

    id: int
    """Later ones of a challenge have greater ids."""
    player: str
    side: Side
    number: int
    """1 for the player's first on this side."""
    at: float
    version: str
    """Of the challenge, when it was submitted."""


class Pairing(NamedTuple):
    """An attack and a defence that meet, by the ids of the submissions."""

    red: int
    blue: int


def find_active(submissions: Iterable[SideSubmission], side: Side) -> list[SideSubmission]:
    """The newest submission of every player on a side, oldest first."""
    ordered = sorted((each for each in submissions if each.side == side), key=lambda each: each.id)
    newest = {each.player: each for each in ordered}
    return [each for each in ordered if newest[each.player] is each]


def make_pairings(new: SideSubmission, others: Iterable[SideSubmission]) -> list[Pairing]:
    """All that a new submission makes, in the order in which its opponents came.

    It meets the newest one of every opponent. Nobody meets themselves: points against one's own
    other side would be for the taking.
    """
    opponents = [
        each for each in find_active(others, OTHER_SIDE[new.side]) if each.player != new.player
    ]
    if new.side == "red":
        return [Pairing(new.id, each.id) for each in opponents]
    return [Pairing(each.id, new.id) for each in opponents]


def require_versus(challenge: Challenge) -> Versus:
    """What a challenge says of red and blue; refuses one of another kind."""
    if challenge.kind != "versus" or challenge.versus is None:
        raise InvalidInput(
            f"{challenge.name} is not a challenge of red against blue",
            hint="such a challenge has kind: versus",
        )
    return challenge.versus
