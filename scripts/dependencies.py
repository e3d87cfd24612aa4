"""Dependencies by extra: pinned versions, and metadata of installed packages."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

TREE = Path(__file__).parents[1]
OWN = "tallymark"
BASE = "base"


@dataclass
class Dependency:
    """One package."""

    name: str
    version: str
    needs: list[str] = field(default_factory=list)
    extras: set[str] = field(default_factory=set)
    """Which installs have it: `base`, or the names of extras."""
    licence: str | None = None


def read_project() -> dict[str, Any]:
    """What pyproject.toml says of the project."""
    document = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))
    project: dict[str, Any] = document["project"]
    return project


def read_pins(path: Path = TREE / "constraints.txt") -> dict[str, str]:
    """Pinned versions by name, those for this Python; a line that pins none is refused."""
    pins: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not (text := line.split("#")[0].strip()):
            continue
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            raise ValueError(f"{path.name}, line {number}: {text!r} is no requirement") from None
        exact = [each.version for each in wanted.specifier if each.operator == "=="]
        if len(wanted.specifier) != 1 or not exact or "*" in exact[0]:
            raise ValueError(f"{path.name}, line {number}: {text!r} pins no version")
        name = canonicalize_name(wanted.name)
        if name not in pins or wanted.marker is None or wanted.marker.evaluate():
            pins[name] = exact[0]
    return pins


def list_extras(project: dict[str, Any]) -> dict[str, list[str]]:
    """What each install asks for; `dev` is nobody's but ours."""
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return {BASE: project["dependencies"], **extras}


def find_dependencies(extras: Iterable[str] | None = None) -> dict[str, Dependency]:
    """All that these installs bring, down to the last; all but `dev` without any."""
    asked = list_extras(read_project())
    pins = read_pins()
    found: dict[str, Dependency] = {}
    for extra in extras or [name for name in asked if name != "dev"]:
        seen: set[tuple[str, str]] = set()
        left = [(Requirement(text), "") for text in asked[extra]]
        while left:
            wanted, of_extra = left.pop()
            name = canonicalize_name(wanted.name)
            if name == OWN or not _applies(wanted, of_extra):
                continue
            known = found.get(name) or _look_up(name, pins)
            found[name] = known
            known.extras.add(extra)
            for inner in ["", *sorted(wanted.extras)]:
                if (name, inner) not in seen:
                    seen.add((name, inner))
                    below = [each for each in _list_needs(name) if _applies(each, inner)]
                    known.needs += [canonicalize_name(each.name) for each in below]
                    left += [(each, inner) for each in below]
    for each in found.values():
        each.needs = sorted(set(each.needs) & found.keys())
    return dict(sorted(found.items()))


def _applies(wanted: Requirement, extra: str) -> bool:
    return wanted.marker is None or wanted.marker.evaluate({"extra": extra})


def _look_up(name: str, pins: dict[str, str]) -> Dependency:
    there = find_installed(name)
    version = pins.get(name) or (there.version if there else "")
    return Dependency(name, version, licence=_find_licence(there) if there else None)


def find_installed(name: str) -> Distribution | None:
    """The package as it is installed here."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _list_needs(name: str) -> Iterator[Requirement]:
    there = find_installed(name)
    yield from map(Requirement, (there.requires if there else None) or ())


def _find_licence(there: Distribution) -> str | None:
    """Its expression where it has one, else what its classifiers or its own words say."""
    told: Any = there.metadata
    if expression := told.get("License-Expression"):
        return str(expression)
    named = [
        each.rpartition(" :: ")[2]
        for each in told.get_all("Classifier") or ()
        if each.startswith("License :: ") and not each.endswith("OSI Approved")
    ]
    if named:
        return " OR ".join(sorted(named))
    words = (told.get("License") or "").strip().splitlines()
    return words[0][:100] if words else None
