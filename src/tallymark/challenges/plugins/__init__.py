"""Scorer plugins: an organiser's own rule that turns an attempt's metrics into a score."""

from tallymark.challenges.plugins.plugin import Plugin, SandboxedPlugin
from tallymark.challenges.plugins.plugin_check import check_plugin
from tallymark.challenges.plugins.plugin_lookup import find_plugin, load_plugin
from tallymark.challenges.plugins.plugin_report import PluginReport

__all__ = [
    "Plugin",
    "PluginReport",
    "SandboxedPlugin",
    "check_plugin",
    "find_plugin",
    "load_plugin",
]
