"""A library that this process has loaded opens no door to what lies beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sandbox.backends import SAFE

from tallymark.sandbox import interpreter

LOOK = """
import json, os, sys
from pathlib import Path
from tallymark.sandbox import Limits, PluginCode, Policy, Sandbox, run_program

backend, root, targets = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
with Sandbox(Policy(backend)) as sandbox:
    code = PluginCode("scorer.py:Plugin", root, "scorer", "Plugin", "x")
    seen = {"plugin": sandbox.score(code, {}, {"targets": targets}, {}).metadata["details"]}
done = run_program(
    ["python", "look.py", json.dumps(targets)],
    files={"look.py": root / "scorer.py"},
    limits=Limits(wall_s=30, processes=1),
    policy=Policy(backend),
)
print(json.dumps(seen | {"program": json.loads(done.stdout)}))
"""
SCORER = """
import json, os, sys

def look(targets):
    found = [name for name, value in os.environ.items() if "beside" in name + value]
    for path in targets:
        for place in (path, "/python/libraries/" + os.path.basename(path)):
            try:
                if b"the key" in open(place, "rb").read(): found.append(place)
            except OSError:
                pass
    return {"found": found, "variables": sorted(name for name in os.environ if "LD_" in name)}

class Plugin:
    def score(self, metrics, config, ctx):
        return {"score": 1, "details": look(config["targets"])}

if __name__ == "__main__":
    print(json.dumps(look(json.loads(sys.argv[1]))))
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library in somebody's folder, with their keys beside it."""
    folder = tmp_path / "beside"
    folder.mkdir()
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").split()
    loaded = folder / "libmine.so.1"
    # Any library will do that can be loaded twice.
    loaded.write_bytes(next(Path(word) for word in maps if "/libm.so" in word).read_bytes())
    (folder / "libmine.so").symlink_to(loaded)
    for name in ("key", "libmine.so.key", "libmine.so.1.key", "libkey.so"):
        (folder / name).write_text("the key", encoding="utf-8")
    return loaded


@pytest.mark.parametrize("variable", ["LD_PRELOAD", "LD_LIBRARY_PATH"])
@pytest.mark.parametrize("backend", SAFE)
def test_nothing_beside_a_loaded_library_can_be_read(
    backend: str, variable: str, library: Path, tmp_path: Path
) -> None:
    root = tmp_path / "plugin"
    root.mkdir()
    (root / "scorer.py").write_text(SCORER, encoding="utf-8")
    targets = [str(path) for path in library.parent.iterdir() if path.name != library.name]
    load = f"import ctypes; ctypes.CDLL({str(library)!r})\n"
    value = library if variable == "LD_PRELOAD" else library.parent
    done = subprocess.run(
        [sys.executable, "-c", load + LOOK, backend, str(root), json.dumps(targets)],
        env=os.environ | {variable: str(value)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Where Python's own library was moved, a program is told, by a path that is ours.
    own = [*interpreter.variables()] if backend == "bubblewrap" else []
    seen = json.loads(done.stdout)
    assert seen["plugin"] == {"found": [], "variables": []}
    assert seen["program"] == {"found": [], "variables": own}


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu"),
        ("/usr/lib/x86_64-linux-gnu/blas/libblas.so.3", "/usr/lib/x86_64-linux-gnu"),
        ("/lib64/libc.so.6", "/lib64"),
        ("/nix/store/abc-glibc/lib/libc.so.6", "/nix/store/abc-glibc/lib"),
        ("/usr/local/app/keys/libapp.so", None),
        ("/usr/local/lib/libpython3.12.so.1.0", None),
        ("/usr/lib/libc.so", None),
        ("/home/alice/lib/x86_64-linux-gnu/libmine.so", None),
        ("/home/alice/usr/lib64/libmine.so", None),
        ("/nix/var/libmine.so", None),
    ],
)
def test_only_the_systems_own_folders_are_shown_whole(path: str, folder: str | None) -> None:
    found = interpreter._find_library_folder(Path(path))
    assert found == (None if folder is None else Path(folder))


def test_no_folder_but_pythons_own_and_the_systems_is_shown() -> None:
    library = {path for _, path in interpreter._library_folders()}
    folders = {path for path in interpreter.files().values() if path.is_dir()} - library
    for path in folders:
        assert interpreter._LIBRARY_FOLDER.fullmatch(str(path)), path
