"""The registry: scorers by name, Tallymark's own and other packages' through one door.

A package offers a scorer with an entry point of the group `tallymark.scorers`; it is imported
only when that scorer is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from tallymark.errors import ScorerError, nearest
from tallymark.importing import find_entry_points, why_not_imported
from tallymark.scoring.building import build
from tallymark.scoring.decorator import ScorerBuilder
from tallymark.scoring.reference import Reference, find
from tallymark.scoring.score import shown
from tallymark.scoring.scorer import Scorer

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "tallymark.scorers"
Entry: TypeAlias = Scorer | ScorerBuilder[Any] | Callable[..., Scorer]
"""A scorer, or something that builds one from options."""
E = TypeVar("E", bound=Entry)


class _Known(msgspec.Struct):
    origin: str
    entry: Any = None
    point: Any = None


class Registry:
    """Scorers by unique name."""

    def __init__(self, group: str | None = GROUP) -> None:
        """`group` is the entry-point group to look in; None looks in none."""
        self._group = group
        self._known: dict[str, list[_Known]] = {}
        self._discovered = False

    def register(self, entry: E, *, name: str | None = None) -> E:
        """Add a scorer, or a class or function that builds one; also usable as a decorator."""
        key = name or getattr(entry, "name", None) or getattr(entry, "__name__", None)
        if not isinstance(key, str):
            raise ScorerError(f"{shown(entry)} needs a name to be registered under")
        known = self._all().setdefault(key, [])
        if any(each.entry is entry for each in known):
            return entry
        added = _Known(_origin_of(entry), entry)
        if known:
            raise _duplicate(key, [*known, added])
        known.append(added)
        return entry

    def names(self) -> list[str]:
        """All names, sorted; nothing is imported for it."""
        return sorted(self._all())

    def get(self, name: str) -> Entry:
        """The scorer or builder of that name."""
        known = self._all().get(name)
        if not known:
            near = nearest(name, self._known)
            meant = (
                f"did you mean {near!r}?" if near else "write a name, file.py:name or module:name"
            )
            raise ScorerError(f"there is no scorer {name!r}", hint=meant)
        if len(known) > 1:
            raise _duplicate(name, known)
        only = known[0]
        if only.entry is None:
            only.entry = _imported(only)
        entry: Entry = only.entry
        return entry

    def load(self, ref: str, /, **options: Any) -> Scorer:
        """The scorer that a reference names, built with the options in it and those given here.

        Every scorer also takes the options `name` and `threshold`.
        """
        reference = Reference.parse(ref)
        twice = [key for key in options if key in reference.options]
        if twice:
            raise ScorerError(f"{reference.name}: the option {twice[0]!r} is given twice")
        entry = (
            self.get(reference.name)
            if reference.home is None
            else find(reference.home, reference.name)
        )
        return build(entry, reference.name, {**reference.options, **options})

    def _all(self) -> dict[str, list[_Known]]:
        if self._group is not None and not self._discovered:
            self._discovered = True
            for point in find_entry_points(self._group):
                known = _Known(f"{point.value} of {_package(point)}", point=point)
                self._known.setdefault(point.name, []).append(known)
        return self._known


def _imported(known: _Known) -> object:
    try:
        return known.point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 (a package may raise anything on import)
        said = f"the scorer {known.point.name!r}, {known.origin},"
        raise ScorerError(why_not_imported(said, error)) from None


def _package(point: EntryPoint) -> str:
    return f"the package {point.dist.name}" if point.dist is not None else "an unknown package"


def _origin_of(entry: object) -> str:
    source = entry.function if isinstance(entry, Scorer) else getattr(entry, "wrapped", entry)
    module = getattr(source, "__module__", None)
    return f"{module}:{getattr(source, '__qualname__', type(source).__name__)}"


def _duplicate(name: str, known: list[_Known]) -> ScorerError:
    both = " and ".join(each.origin for each in known)
    return ScorerError(f"more than one scorer is named {name!r}: {both}")


default_registry = Registry()
"""Where commands and suites look scorers up."""


def load_scorer(ref: str, /, **options: Any) -> Scorer:
    """The scorer that a reference names, from the default registry."""
    return default_registry.load(ref, **options)
