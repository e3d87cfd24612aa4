"""Tallymark scores AI agents by your own idea of good.

What it exports loads when first used, so that importing it costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallymark.scoring import EvalContext, Score, composite, scorer
    from tallymark.suites import Suite, Test, arun, run
    from tallymark.traces import Span, Trace

__all__ = [
    "EvalContext",
    "Score",
    "Span",
    "Suite",
    "Test",
    "Trace",
    "arun",
    "composite",
    "run",
    "scorer",
]

_HOMES = {
    "EvalContext": "scoring",
    "Score": "scoring",
    "Span": "traces",
    "Suite": "suites",
    "Test": "suites",
    "Trace": "traces",
    "arun": "suites",
    "composite": "scoring",
    "run": "suites",
    "scorer": "scoring",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"tallymark.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
