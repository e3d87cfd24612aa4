"""Options that take a number which is one."""

from __future__ import annotations

import math
from typing import Any

import typer


def float_option(**facts: Any) -> Any:
    """As `typer.Option`, but `nan` is refused: it lies in every range, and no bound stops it."""
    return typer.Option(callback=_refuse_nan, **facts)


def _refuse_nan(value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is no number")
    return value
