"""Whether what is written in C could be compiled here when Tallymark was installed."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

CAN_COMPILE = (
    sys.platform == "linux"
    and shutil.which("cc") is not None
    and Path(sysconfig.get_path("include"), "Python.h").exists()
)
needs_compiler = pytest.mark.skipif(not CAN_COMPILE, reason="nothing is compiled here")
