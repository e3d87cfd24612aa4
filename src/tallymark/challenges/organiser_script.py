"""An organiser's script: calling one of its functions in the sandbox, with JSON in and JSON out.

Submitted programs are run from here too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from tallymark.challenges.challenge_folder import read_files
from tallymark.documents.bounded_json import MOST_BYTES, MOST_VALUES, read_bounded_json
from tallymark.errors import InvalidInput
from tallymark.sandbox import Limits
from tallymark.text import shorten

if TYPE_CHECKING:
    from tallymark.sandbox import Policy, ProgramOutcome
    from tallymark.sandbox.programs.launcher_process import Dialogue

SCRATCH_MB = 64
"""Maximum output of a script, including its answer."""
_ANSWER = ".answer.json"

# Runs inside the sandbox. The answer goes to a file, so that a script may print what it likes.
_CALL = f"""
import json, os, runpy, sys
sys.path.insert(0, os.getcwd())
script, function = sys.argv[1:]
given = json.load(sys.stdin)
found = runpy.run_path(script)
if not callable(found.get(function)):
    sys.exit(f"{{script}} has no function {{function}}()")
answer = found[function](*given)
with open({_ANSWER!r}, "w", encoding="utf-8") as file:
    json.dump(answer, file, allow_nan=False)
"""


def call_script(  # noqa: PLR0913 (each says one thing about the call)
    folder: Path,
    script: str,
    function: str,
    arguments: Sequence[Any],
    *,
    time_s: float,
    memory_mb: int,
    packages: bool = False,
    policy: Policy | None = None,
    most_bytes: int = MOST_BYTES,
    most_values: int = MOST_VALUES,
) -> Any:
    """Call a function of a script in the folder.

    The folder's files are next to the script. InvalidInput describes the script's mistake.
    """
    outcome = run_limited(
        ["python", "-P", "-c", _CALL, script, function],
        files=read_files(folder),
        stdin=json.dumps(arguments, allow_nan=False),
        limits=Limits(wall_s=time_s, memory_mb=memory_mb, disk_mb=SCRATCH_MB),
        keep=[_ANSWER],
        packages=packages,
        policy=policy,
    )
    if not outcome.ok:
        raise InvalidInput(f"{script} failed: {describe_failure(outcome)}")
    try:
        answer = outcome.kept.get(_ANSWER, b"")
        return read_bounded_json(answer, most_bytes=most_bytes, most_values=most_values)
    except ValueError as error:
        raise InvalidInput(f"what {function}() of {script} gave is no JSON: {error}") from None


def add_public_data(submitted: Mapping[str, str], public: Mapping[str, Any]) -> dict[str, str]:
    """Submitted files, with the public data whose names they do not use."""
    taken = {*submitted, *(str(each) for name in submitted for each in PurePath(name).parents)}
    free = {
        name: data
        for name, data in public.items()
        if name not in taken and submitted.keys().isdisjoint(map(str, PurePath(name).parents))
    }
    texts = {
        name: data if isinstance(data, str) else json.dumps(data) for name, data in free.items()
    }
    return {**texts, **submitted}


def run_limited(  # noqa: PLR0913 (each says one thing about the run)
    command: Sequence[str],
    *,
    files: Mapping[str, str | bytes],
    limits: Limits,
    stdin: str = "",
    keep: Sequence[str] = (),
    packages: bool = False,
    policy: Policy | None = None,
    dialogue: Dialogue | None = None,
) -> ProgramOutcome:
    """Runs a program in a new sandbox, with room on its disk for the files that it is given."""
    # The walls load ctypes and subprocess, and most of what is done with challenges runs no code.
    from tallymark.sandbox import run_program  # noqa: PLC0415

    size = sum(4 * len(content) for content in files.values())  # of a text, at most
    return run_program(
        command,
        files=files,
        stdin=stdin,
        limits=replace(limits, disk_mb=limits.disk_mb + size / 2**20),
        keep=keep,
        packages=packages,
        policy=policy,
        dialogue=dialogue,
    )


def describe_failure(outcome: ProgramOutcome) -> str:
    """In a few words, with the last line of a traceback."""
    if outcome.stopped is not None:
        return f"it was stopped, because of its limit of {outcome.stopped}"
    if outcome.signal is not None:
        return f"it was ended by {outcome.signal}"
    lines = outcome.stderr.decode("utf-8", "replace").strip().splitlines()
    return (
        shorten(lines[-1].strip(), 300) if lines else f"it ended with exit code {outcome.exit_code}"
    )
