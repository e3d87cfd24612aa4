"""Options that take a number which is one."""

from __future__ import annotations

import math
from typing import Any

import typer


def float_option(*, positive: bool = False, **facts: Any) -> Any:
    """As `typer.Option`, but `nan` is refused: it lies in every range, and no bound stops it.

    With `positive`, so is 0.
    """
    return typer.Option(callback=_refuse_zero if positive else _refuse_nan, **facts)


def _refuse_zero(value: float | None) -> float | None:
    if value == 0:
        raise typer.BadParameter("it must be more than 0")
    return _refuse_nan(value)


def _refuse_nan(value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is no number")
    return value
