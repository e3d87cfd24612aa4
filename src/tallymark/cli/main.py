"""The `tally` command: which commands there are, and how every one of them fails or is stopped.

Commands import what they need when they run, so that `tally --help` stays quick.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import shlex
import signal
import stat
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from tallymark import text
from tallymark.errors import TallymarkError
from tallymark.text import say

if TYPE_CHECKING:
    from types import FrameType

COMMANDS = {
    "init": "init:init",
    "import": "import_:import_",
    "validate": "validate:validate",
    "run": "run:run",
    "runs": "runs:app",
    "show": "show:show",
    "compare": "compare:compare",
    "rescore": "rescore:rescore",
    "score": "score:score",
    "scorers": "scorers:scorers",
    "schema": "validate:schema",
    "docs": "docs:docs",
    "doctor": "doctor:doctor",
    "view": "view:view",
    "compete": "compete:compete",
    "leaderboard": "leaderboard:leaderboard",
    "ratings": "ratings:ratings",
    "log": "log:log",
    "serve": "serve:serve",
    "worker": "worker:worker",
    "mcp": "mcp:mcp",
    "login": "login:login",
    "logout": "login:logout",
    "whoami": "login:whoami",
    "traces": "traces:app",
    "export": "export:app",
    "load": "load:app",
    "rules": "rules:app",
    "formula": "formula:app",
    "plugin": "plugin:app",
    "challenge": "challenge:app",
    "attempt": "attempt:app",
    "agent": "agent:app",
    "versus": "versus:app",
    "webhooks": "webhooks:app",
    "vars": "vars_and_secrets:vars_app",
    "secrets": "vars_and_secrets:secrets_app",
    "admin": "admin:app",
}
"""Where each command is, in the order of `tally --help`."""
_INTERRUPTED = 128 + signal.SIGINT
_STDERR = 2


class _InOrder(TyperGroup):
    """Lists commands and groups in one order, where Typer would put all groups last."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [name for name in COMMANDS if name in self.commands]


def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    _color: Annotated[
        bool | None,
        typer.Option("--color/--no-color", help="Colours also in pipes, or none; said anywhere."),
    ] = None,
) -> None:
    if version:
        from importlib.metadata import version as find_version

        say(f"tally {find_version('tallymark')}")
        raise typer.Exit
    if (path := find_settings_file()) is not None:
        from tallymark.cli.settings_file import SettingsFile

        SettingsFile(path, context).apply(COMMANDS)


def find_settings_file() -> Path | None:
    """The nearest `tally.toml`, in this folder or one above it."""
    here = Path("tally.toml").absolute()
    paths = (here, *(folder / here.name for folder in here.parent.parents))
    return next((path for path in paths if path.is_file()), None)


class _Outlet(io.FileIO):
    """Where output goes as long as somebody reads it; after that it goes nowhere.

    So neither `| head` nor a terminal that was closed spoils what a command does besides printing.
    """

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EIO) and self.fileno() != _STDERR:
                raise
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


def _open_outlet(stream: Any) -> Any:
    """The stream, or one like it that outlives its reader; nowhere, where there is none."""
    if stream is None:  # closed by whoever started us
        return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 (to the end)
    try:
        found = os.fstat(stream.fileno())
    except (AttributeError, OSError, ValueError):  # closed, or a caller's own
        return stream
    read = stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode) or stream.isatty()
    full = stream.fileno() == _STDERR and not os.path.samestat(found, Path(os.devnull).stat())
    if not read and not full:
        return stream
    outlet = _Outlet(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        outlet if stream.write_through else io.BufferedWriter(outlet),
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _read_typed() -> None:
    """What holds for every command: colours, width, and how hints call it and its database."""
    if sys.stdout.isatty():
        text.columns = get_terminal_size().columns
    for flag, variable in (("--color", "FORCE_COLOR"), ("--no-color", "NO_COLOR")):
        if flag in sys.argv:
            sys.argv.remove(flag)
            os.environ[variable] = "1"
    typed = os.path.realpath(sys.argv[0])
    found = (os.path.realpath(f"{folder}/tally") for folder in os.get_exec_path())
    if os.sep in sys.argv[0] and typed not in found:
        with suppress(FileNotFoundError):  # the folder in which it was typed may be gone
            typed = min(os.path.relpath(typed), typed, key=len)
        text.program = typed
    for word, after in zip(sys.argv, [*sys.argv[1:], ""], strict=True):
        flag, _, given = word.partition("=")
        value = (given or after) if flag == "--db" else ""
        if value and "@" not in value:  # which may be a password's end, and is not said again
            text.place = f" --db {shlex.quote(value)}"


def _explain_misuse(error: TyperException) -> str:
    """One sentence for a wrong option or argument; help where only a group was named."""
    said, context = error.format_message(), getattr(error, "ctx", None)
    if said.startswith("Usage:"):
        return said
    for kind, word in (("int range", "whole number"), ("float range", "number")):
        said = said.replace(f"a valid {kind}", f"a {word}").replace(
            f"a valid {kind.partition(' ')[0]}", f"a {word}"
        )
    called = "tally" if context is None else context.command_path
    hint = "" if said.endswith("?") else f"; see {called} --help"
    return f"tally: {said[0].lower()}{said[1:].rstrip('.')}{hint}"


def _has_folder() -> bool:
    """Whether the current folder is still there."""
    try:
        os.getcwd()  # noqa: PTH109 (it is the question itself)
    except FileNotFoundError:
        return False
    return True


def _explain_surprise(error: Exception) -> tuple[str, int]:
    """What nobody saw coming, mostly a mistake of ours, and the exit code."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
        return "the output could not be written: no space is left", 3
    if not _has_folder():
        return "the current folder was deleted; go to one that is there", 2
    hint = "this is a mistake in Tallymark; TALLY_DEBUG=1 shows where"
    return f"{type(error).__name__}: {error}; {hint}", 3


def main() -> None:
    """Runs `tally`. Errors become one sentence on stderr and an exit code; never a traceback."""
    # Results form no circles, and a run may have a hundred thousand: looking for circles among
    # them as often as Python does takes a sixth of the time, and finds none.
    gc.set_threshold(50_000, 20, 20)
    app = typer.Typer(
        name="tally",
        cls=_InOrder,
        help="Score AI agents by your own idea of good.",
        no_args_is_help=True,
        invoke_without_command=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    sys.stdout, sys.stderr = _open_outlet(sys.stdout), _open_outlet(sys.stderr)
    _read_typed()
    told: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        """Ends like Ctrl-C, whatever that does just now: an event loop has a way of its own."""
        told.append(number)
        interrupt = signal.getsignal(signal.SIGINT)
        if not callable(interrupt):  # ignored, as in the background of a script
            raise KeyboardInterrupt
        interrupt(signal.SIGINT, frame)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as `nohup` has it
            signal.signal(number, stop)
    try:
        # A command that is named is loaded alone; help, or a wrong name, wants them all.
        for name in COMMANDS.keys() & sys.argv[1:2] or COMMANDS:
            module, _, attribute = COMMANDS[name].partition(":")
            found = getattr(import_module(f"tallymark.cli.{module}"), attribute)
            if isinstance(found, typer.Typer):
                app.add_typer(found, name=name)
            else:
                app.command(name)(found)
        sys.exit(app(standalone_mode=False) or 0)
    except TyperException as error:
        say(_explain_misuse(error), err=True)
        sys.exit(error.exit_code)
    except TallymarkError as error:
        say(f"tally: {error.render()}", err=True)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, SystemExit) as end:
        code = end.code if isinstance(end, SystemExit) else _INTERRUPTED
        sys.exit(128 + told[0] if told and code == _INTERRUPTED else code)
    except Exception as error:
        if os.environ.get("TALLY_DEBUG"):
            raise
        said, code = _explain_surprise(error)
        say(f"tally: {said}", err=True)
        sys.exit(code)
    finally:
        # Python would look at every object once more before it ends: a fifth of a short command.
        gc.freeze()
