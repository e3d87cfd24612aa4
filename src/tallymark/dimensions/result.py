"""`Result`: win, draw or loss, from the score that is shown."""

from __future__ import annotations

from typing import Literal

Result = Literal["win", "draw", "loss"]

SOLO_WIN_THRESHOLD = 700
SOLO_DRAW_THRESHOLD = 400


def result_of(score: int) -> Result:
    """700 and more is a win, 400 to 699 a draw, less a loss."""
    if score >= SOLO_WIN_THRESHOLD:
        return "win"
    return "draw" if score >= SOLO_DRAW_THRESHOLD else "loss"
