"""The bill of materials: what the package and its extras bring, as CycloneDX, in `sbom.cdx.json`.

    python -m scripts.sbom           writes the file, which the wheel carries (PEP 770)
    python -m scripts.sbom --check   1 where it is not what the pins and the installed packages say

It is the same for the same pins: no time, no random number. Licences and who needs whom come from
the packages that are installed here, for CPython 3.11 on Linux; `dev` is in no install of a user's.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts.dependencies import BASE, OWN, TREE, Dependency, find_dependencies, read_project

PAGE = TREE / "sbom.cdx.json"


def make_sbom() -> str:
    """The document, as text."""
    project = read_project()
    found = find_dependencies()
    own = _name(OWN, project["version"])
    direct = sorted(each.name for each in found.values() if _is_direct(each, project))
    document: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": OWN,
                "version": project["version"],
                "description": project["description"],
                "licenses": [{"expression": project["license"]}],
                "purl": own,
            },
            "properties": [{"name": "tallymark:resolved-for", "value": "CPython 3.11, Linux"}],
        },
        "components": [_tell(each) for each in found.values()],
        "dependencies": [
            {"ref": own, "dependsOn": [_name(name, found[name].version) for name in direct]},
            *(
                {
                    "ref": _name(each.name, each.version),
                    "dependsOn": [_name(name, found[name].version) for name in each.needs],
                }
                for each in found.values()
            ),
        ],
    }
    number = uuid5(NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return json.dumps({"serialNumber": f"urn:uuid:{number}", **document}, indent=1) + "\n"


def _is_direct(dependency: Dependency, project: dict[str, Any]) -> bool:
    extras: dict[str, list[str]] = project["optional-dependencies"]
    asked = [
        *project["dependencies"],
        *(text for name, texts in extras.items() if name != "dev" for text in texts),
    ]
    return dependency.name in {canonicalize_name(Requirement(text).name) for text in asked}


def _name(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def _tell(dependency: Dependency) -> dict[str, Any]:
    told: dict[str, Any] = {
        "type": "library",
        "bom-ref": _name(dependency.name, dependency.version),
        "name": dependency.name,
        "version": dependency.version,
        "purl": _name(dependency.name, dependency.version),
        "scope": "required" if BASE in dependency.extras else "optional",
        "properties": [
            {"name": "tallymark:install", "value": each} for each in sorted(dependency.extras)
        ],
    }
    if dependency.licence is not None:
        told["licenses"] = [{"license": {"name": dependency.licence}}]
    return told


def main(words: list[str]) -> int:
    """0, or 1 where `--check` finds another."""
    made = make_sbom()
    if "--check" in words:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != made:
            sys.stderr.write(f"{PAGE.name} is not what the pins say; run: make sbom\n")
            return 1
        return 0
    PAGE.write_text(made, encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE.name}: {made.count('library')} packages\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
