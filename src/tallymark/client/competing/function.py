"""An agent that is a Python function, as a program: `python -m` with this module and its name.

Its parameters are filled by name: `goal`, `data`, `schema`, `rules`, `seconds`, `folder`; the first
of another name gets the whole `Brief`. It may be async, and returns the answer: a JSON value, a
text, names of files with their texts, or a `Trace` that ends with it. What it prints is shown.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from tallymark.challenges.submitted_files import parse_printed
from tallymark.client.competing.brief import FOLDER, Brief, read_brief, save_answer
from tallymark.errors import InvalidInput, TallymarkError
from tallymark.event_loops import run_to_end
from tallymark.importing import import_object, match_parameters
from tallymark.traces import Trace

NAMES = ("goal", "data", "schema", "rules", "seconds", "folder")


def open_agent(reference: str) -> Callable[[Brief], Any]:
    """Load the function that `module:function` or `file.py:function` names."""
    home, colon, name = reference.rpartition(":")
    if not colon or not home or not name:
        raise InvalidInput(
            f"{reference!r} names no function", hint="write module:function or file.py:function"
        )
    function = import_object(home, name)
    if not callable(function):
        raise InvalidInput(f"{name!r} in {home} is not a function")
    by_position, filled = match_parameters(reference, function, "brief", NAMES)

    def call(brief: Brief) -> Any:
        given = {"brief": brief, "folder": brief.path}
        values = {each: getattr(brief, each) for each in NAMES} | given
        first = (brief,) if by_position else ()
        return function(*first, **{each: values[what] for each, what in filled.items()})

    return call


def call_agent(reference: str, brief: Brief) -> None:
    """Call the function, and save its answer as a program would."""
    answer = open_agent(reference)(brief)
    if inspect.isawaitable(answer):
        awaited = answer

        async def wait() -> Any:
            return await awaited

        answer = run_to_end(wait)
    if isinstance(answer, Trace):
        brief.steps.send(answer.spans)
        answer = parse_printed(answer.last_output.encode(), brief.submission)
    if answer is None:  # it may have written it itself
        return
    form = brief.submission.format
    wanted = {"text": str, "agent": str, "files": dict}.get(form, object)
    if not isinstance(answer, wanted):
        kind = type(answer).__name__
        raise InvalidInput(f"{reference} returned {kind}, and this challenge takes {form}")
    try:
        save_answer(brief, answer)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{reference} returned what cannot be written: {error}") from None


def main() -> int:
    """Run the agent; its error is shown on standard error as the user's own code raised it."""
    reference, folder = sys.argv[1], Path(os.environ[FOLDER])
    sys.argv[1:] = []
    try:
        with redirect_stdout(sys.stderr):
            call_agent(reference, read_brief(folder))
    except TallymarkError as error:
        sys.stderr.write(f"{error.render()}\n")
        return error.exit_code
    except Exception as error:  # noqa: BLE001 (whatever an agent raises)
        _show_failure(error)
        return 1
    return 0


def _show_failure(error: Exception) -> None:
    """Show only the agent's own frames of a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if not Path(each.filename).is_relative_to(Path(__file__).parent)]
    said = [*traceback.format_list(own), *traceback.format_exception_only(error)]
    sys.stderr.write("".join(said))


if __name__ == "__main__":
    sys.exit(main())
