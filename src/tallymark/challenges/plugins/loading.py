"""`load_plugin`: from a reference to something that scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tallymark.challenges.plugins.finding import FoundPlugin, find_plugin
from tallymark.challenges.plugins.sandboxed import SandboxedPlugin
from tallymark.errors import WorkFailed
from tallymark.sandbox.code import PluginCode

if TYPE_CHECKING:
    from tallymark.challenges.plugins.plugin import Plugin
    from tallymark.sandbox import Sandbox


def load_plugin(reference: str, *, folder: Path, sandbox: Sandbox | None) -> Plugin:
    """The plugin that a reference names, its code looked for in the organiser's folder."""
    return prepare_plugin(find_plugin(reference, folder=folder), sandbox)


def prepare_plugin(found: FoundPlugin, sandbox: Sandbox | None) -> Plugin:
    """A plugin that was found, in the sandbox if it is somebody's code."""
    if not isinstance(found, PluginCode):
        return found
    if sandbox is None:
        raise WorkFailed(f"{found.name} is Python code, and there is no sandbox to run it in")
    return SandboxedPlugin(found, sandbox)
