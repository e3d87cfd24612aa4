"""Compiles `formula/_quotients.c` into a wheel, or an editable checkout, where that is possible.

Without a compiler or Python's headers the wheel is one for every machine, and nothing but speed is
missing: docs/decisions/0066. TALLYMARK_PURE=1 asks for that one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

PACKAGE = Path("tallymark/formula")


class CompileQuotients(BuildHookInterface):  # type: ignore[type-arg]
    """One module for each platform, whatever the version of Python (its limited interface)."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        source = Path(self.root, "src", PACKAGE, "_quotients.c")
        # Beside its source an editable checkout looks for it; a wheel's is nobody else's business.
        self.folder = tempfile.TemporaryDirectory(
            dir=source.parent if version == "editable" else None
        )
        made = Path(self.folder.name, "_quotients.abi3.so")
        if os.environ.get("TALLYMARK_PURE") or not compile_module(source, made):
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{next(iter(platform_tags()))}"
        if version == "editable":
            made.replace(source.with_name(made.name))
        else:
            build_data["force_include"][str(made)] = str(PACKAGE / made.name)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self.folder.cleanup()


def compile_module(source: Path, made: Path) -> bool:
    """Whether there is a module now. Only Linux's way of linking is known here."""
    if sys.platform != "linux":
        return False
    words = [
        *os.environ.get("CC", "cc").split(),
        *("-O3", "-fno-trapping-math", "-fPIC", "-shared", "-s"),
        "-DPy_LIMITED_API=0x030B0000",
        f"-I{sysconfig.get_path('include')}",
        *(source.name, "-o", str(made)),
    ]
    try:
        done = subprocess.run(words, cwd=source.parent, capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0
