"""Suites in Python files, and the agents that they are run against."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.errors import InvalidInput, suggest
from tallymark.importing import import_user_module
from tallymark.suites.python_suites.suite_and_test import Suite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallymark.suites.python_suites.suite_and_test import Agent


def load_suites(path: Path) -> list[Suite]:
    """The suites of a file, each with its agent: its own, or the file's `agent` function."""
    names = _import_names(str(path))
    suites = find_suites(names)
    if not suites:
        hint = "put a Suite at the top level of the file, as in: suite = Suite(...)"
        raise InvalidInput(f"{path} has no suite", hint=hint)
    return suites


def find_suites(names: Mapping[str, Any]) -> list[Suite]:
    """The suites among a module's names, each once, with the module's agent if it has none."""
    found = {id(each): each for each in names.values() if isinstance(each, Suite)}
    agent = names.get("agent")
    return [each if each.agent else each.with_agent(agent) for each in found.values()]


def load_agent(reference: str) -> Agent:
    """The function that `file.py:name` or `module:name` names."""
    home, _, name = reference.rpartition(":")
    if not home or not name:
        hint = "write file.py:function or module:function"
        raise InvalidInput(f"{reference!r} does not name an agent", hint=hint)
    names = _import_names(home)
    agent = names.get(name)
    if not callable(agent):
        near = suggest(name, [each for each in names if callable(names[each])])
        hint = f"did you mean {near!r}?" if near else "name a function of one argument"
        raise InvalidInput(f"{home} has no function {name!r}", hint=hint)
    found: Agent = agent
    return found


def _import_names(home: str) -> dict[str, Any]:
    """All that a file or a module defines."""
    return vars(import_user_module(home))
