"""Check that installing Tallymark next to an agent framework does not downgrade the framework.

Each framework is resolved twice, alone and together with our base install, against the package
index. It fails when the version beside us is of an older minor than the one alone. Needs `uv`.

    python -m scripts.check_frameworks [NAME ...]
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from scripts.dependencies import TREE

FRAMEWORKS = (
    *("chainlit", "crewai", "langchain", "llama-index", "openai-agents", "pydantic-ai"),
    "strands-agents",
)
PYTHON = "3.12"
_SECONDS = 600


@dataclass(frozen=True)
class Resolved:
    """A framework's version alone and beside us; None where nothing can be resolved."""

    name: str
    alone: Version | None
    beside: Version | None
    reason: str = ""

    @property
    def verdict(self) -> str:
        """`ok`, or what is wrong."""
        if self.alone is None:
            return f"cannot be resolved alone: {self.reason}"
        if self.beside is None:
            return f"cannot be installed beside us: {self.reason}"
        return "ok" if self.beside.release[:2] >= self.alone.release[:2] else "PUSHED BACK"


def read_version(resolved: str, name: str) -> Version | None:
    """The version of a package in what the resolver printed."""
    for line in resolved.splitlines():
        text = line.partition("#")[0].strip()
        if not text or text.startswith("-"):
            continue
        wanted = Requirement(text)
        if canonicalize_name(wanted.name) == canonicalize_name(name):
            (pin,) = wanted.specifier
            return Version(pin.version)
    return None


def resolve(name: str, *, beside_us: bool) -> tuple[Version | None, str]:
    """The version that the resolver chooses, and why there is none."""
    command = [sys.executable, "-m", "uv"] if find_spec("uv") else [shutil.which("uv") or "uv"]
    ours = [str(TREE / "pyproject.toml")] if beside_us else []
    done = subprocess.run(
        [
            *(*command, "pip", "compile", "--quiet", "--no-header", "--no-annotate"),
            *("--python-version", PYTHON, *ours, "-"),
        ],
        input=f"{name}\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    if done.returncode:
        return None, re.sub(r"\s+", " ", done.stderr).strip()[:300]
    return read_version(done.stdout, name), ""


def main(names: Sequence[str]) -> int:
    """1 where a framework is pushed back."""
    if not find_spec("uv") and not shutil.which("uv"):
        sys.stderr.write("this needs uv: pip install uv\n")
        return 3
    failed = False
    for name in names or FRAMEWORKS:
        alone, reason = resolve(name, beside_us=False)
        beside = None
        if alone is not None:
            beside, reason = resolve(name, beside_us=True)
        found = Resolved(name, alone, beside, reason)
        failed |= found.verdict != "ok"
        sys.stdout.write(
            f"{name:15} alone {alone or '-'!s:10} beside us {beside or '-'!s:10} {found.verdict}\n"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
