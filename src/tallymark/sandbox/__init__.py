"""Running code that nobody needs to trust: scorer plugins, submitted programs, evaluator scripts.

What it exports loads when first used: a guest, which runs inside the sandbox, needs none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallymark.sandbox.code import PluginCode
    from tallymark.sandbox.limits import Limits
    from tallymark.sandbox.plugins.health import PluginState
    from tallymark.sandbox.policy import Policy
    from tallymark.sandbox.probe import Machine
    from tallymark.sandbox.program import ProgramOutcome, run_program
    from tallymark.sandbox.sandbox import Sandbox

__all__ = [
    "Limits",
    "Machine",
    "PluginCode",
    "PluginState",
    "Policy",
    "ProgramOutcome",
    "Sandbox",
    "run_program",
]

_HOMES = {
    "Limits": "limits",
    "Machine": "probe",
    "PluginCode": "code",
    "PluginState": "plugins.health",
    "Policy": "policy",
    "ProgramOutcome": "program",
    "Sandbox": "sandbox",
    "run_program": "program",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"tallymark.sandbox.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
