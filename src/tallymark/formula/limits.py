"""How large a formula may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FormulaLimits:
    """Given to `Formula.parse`; a formula beyond any of them is refused."""

    characters: int = 4096
    levels: int = 64
    nodes: int = 1000
    problems: int = 10
    """How many mistakes one error reports; the rest are counted."""


DEFAULT_LIMITS = FormulaLimits()
