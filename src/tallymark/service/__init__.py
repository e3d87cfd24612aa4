"""Records and operations by subject, used by every door; `App` opens store and services.

Each module loads when first used: a command about challenges does not import models and suites.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallymark.service.app import App
    from tallymark.service.competition import Competition

__all__ = ["App", "Competition"]

_LATE = {"App": "tallymark.service.app", "Competition": "tallymark.service.competition"}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
