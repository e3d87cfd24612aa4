"""Plugins of installed packages: those that an entry point of `tallymark.scorers` names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from tallymark.challenges.plugins.sources import PluginSources, read_sources
from tallymark.errors import ScorerError

ENTRY_POINT_GROUP = "tallymark.scorers"
"""What packages name their plugins in. They are found by metadata and files, never imported."""
OWN_PACKAGE = "tallymark"


def find_by_name(name: str) -> EntryPoint | None:
    """The entry point of that name; two packages that both have one is an error."""
    found = [point for point in _list_entry_points() if point.name == name]
    if len({point.value for point in found}) > 1:
        both = " and ".join(sorted(point.value for point in found))
        raise ScorerError(f"more than one plugin is named {name!r}: {both}")
    return found[0] if found else None


def find_by_module(module: str) -> EntryPoint | None:
    """An entry point that names something in that module."""
    return next((point for point in _list_entry_points() if point.module == module), None)


def list_entry_names() -> list[str]:
    """The names of all of them."""
    return sorted({point.name for point in _list_entry_points()})


def read_entry_sources(point: EntryPoint) -> PluginSources:
    """The files of its package that it needs."""
    top = point.module.partition(".")[0]
    for root in _list_roots(point):
        found = read_sources(point.module, [root], only=top)
        if found is not None:
            return found
    raise ScorerError(f"the plugin {point.value} of an installed package has no Python file")


def _list_entry_points() -> Iterator[EntryPoint]:
    """Of other packages: our own are scorers of traces."""
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if point.module.partition(".")[0] != OWN_PACKAGE:
            yield point


def _list_roots(point: EntryPoint) -> Iterator[Path]:
    if point.dist is not None:
        yield Path(str(point.dist.locate_file("")))
    yield from (Path(each) for each in sys.path if Path(each).is_absolute())
