"""Runs untrusted code: scorer plugins, submitted programs, evaluator scripts.

Exports load at first use: a guest, which runs inside the sandbox, needs none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallymark.sandbox.limits import Limits
    from tallymark.sandbox.machine_probe import Machine
    from tallymark.sandbox.plugin_sandbox import Sandbox
    from tallymark.sandbox.plugins.plugin_calls import DeadlyCalls
    from tallymark.sandbox.plugins.plugin_files import PluginCode
    from tallymark.sandbox.policy import Policy
    from tallymark.sandbox.program_run import ProgramOutcome, run_program

__all__ = [
    "DeadlyCalls",
    "Limits",
    "Machine",
    "PluginCode",
    "Policy",
    "ProgramOutcome",
    "Sandbox",
    "run_program",
]

_HOMES = {
    "DeadlyCalls": "tallymark.sandbox.plugins.plugin_calls",
    "Limits": "tallymark.sandbox.limits",
    "Machine": "tallymark.sandbox.machine_probe",
    "PluginCode": "tallymark.sandbox.plugins.plugin_files",
    "Policy": "tallymark.sandbox.policy",
    "ProgramOutcome": "tallymark.sandbox.program_run",
    "Sandbox": "tallymark.sandbox.plugin_sandbox",
    "run_program": "tallymark.sandbox.program_run",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
