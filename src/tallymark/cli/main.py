"""The `tally` command: which commands there are, and how every one of them fails or is stopped.

Commands import what they need when they run, so that `tally --help` stays quick.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import re
import shlex
import signal
import stat
import sys
from contextlib import suppress
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command, get_command_name, solve_typer_info_help
from typer.models import TyperInfo

from tallymark import text
from tallymark.errors import TallymarkError, suggest
from tallymark.text import say

if TYPE_CHECKING:
    from types import FrameType

GROUPS = {
    "Suites and runs": {
        "init": "init:init",
        "import": "import_:import_",
        "validate": "validate:validate",
        "run": "run:run",
        "runs": "runs:app",
        "show": "show:show",
        "compare": "compare:compare",
        "rescore": "rescore:rescore",
        "formula": "formula:app",
        "schema": "validate:schema",
        "vars": "vars_and_secrets:vars_app",
        "secrets": "vars_and_secrets:secrets_app",
    },
    "Traces": {
        "score": "score:score",
        "scorers": "scorers:scorers",
        "traces": "traces:app",
        "rules": "rules:app",
        "load": "load:app",
        "export": "export:app",
    },
    "Challenges": {
        "challenge": "challenge:app",
        "attempt": "attempt:app",
        "compete": "compete:compete",
        "leaderboard": "leaderboard:leaderboard",
        "ratings": "ratings:ratings",
        "versus": "versus:app",
        "agent": "agent:app",
        "plugin": "plugin:app",
    },
    "Servers": {
        "view": "view:view",
        "serve": "serve:serve",
        "worker": "worker:worker",
        "mcp": "mcp:mcp",
        "login": "login:login",
        "logout": "login:logout",
        "whoami": "login:whoami",
        "webhooks": "webhooks:app",
    },
    "Administration and help": {
        "admin": "admin:app",
        "log": "log:log",
        "doctor": "doctor:doctor",
        "docs": "docs:docs",
    },
}
"""Where each command is, in the order of `tally --help`."""
COMMANDS = {name: place for group in GROUPS.values() for name, place in group.items()}
SYNONYMS = {
    "eval": ["run"],
    "test": ["run", "score"],
    "list": ["runs"],
    "ls": ["runs"],
    "history": ["runs"],
    "results": ["show latest", "runs"],
    "report": ["show latest --report report.html", "attempt report"],
    "diff": ["compare"],
    "board": ["leaderboard"],
    "scoreboard": ["leaderboard"],
    "start": ["serve", "init"],
    "server": ["serve"],
    "ui": ["view"],
    "open": ["view"],
    "new": ["init", "challenge init"],
    "lint": ["validate"],
    "config": ["docs settings", "admin config"],
    "settings": ["docs settings"],
    "models": ["docs models"],
    "signin": ["login"],
}
"""What other tools call a command, or what people try first."""
_INTERRUPTED = 128 + signal.SIGINT
_STDERR = 2
_MOST_SUGGESTED = 4


def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    _color: Annotated[
        bool | None,
        typer.Option(
            "--color/--no-color", help="Force or disable colours; before or after the command."
        ),
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
    """What holds for every command: colours, width, `help`, and how hints call it and its store."""
    if sys.stdout.isatty():
        text.columns = get_terminal_size().columns
    for flag, variable in (("--color", "FORCE_COLOR"), ("--no-color", "NO_COLOR")):
        if flag in sys.argv:
            sys.argv.remove(flag)
            os.environ[variable] = "1"
    if sys.argv[1:2] == ["help"]:
        sys.argv[1:] = [*sys.argv[2:], "--help"]
    elif sys.argv[1:] == ["version"]:
        sys.argv[1:] = ["--version"]
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


class _TopGroup(TyperGroup):
    """`tally`: its help shows commands by subject, a line each and none cut short."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (its signature)
        """Write a section for each group of commands."""
        width = max(map(len, COMMANDS))
        for title, names in GROUPS.items():
            with formatter.section(title):
                for name in names:
                    said = self.commands[name].get_short_help_str(limit=1000)
                    formatter.write(f"  {name:{width}}  {said}\n")


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
    # Typer has a style of its own for each kind of suggestion; ours is the same for all.
    said = re.sub(r" \(Possible options: .*\)$|\.? Did you mean .*\?$", "", said).rstrip(".")
    close = [] if context is None else _find_close(said, context)
    meant = " or ".join(f"'{each}'" for each in close)
    hint = f"did you mean {meant}?" if meant else f"see {called} --help"
    return f"tally: {said[0].lower()}{said[1:]}; {hint}"


def _find_close(said: str, context: Any) -> list[str]:
    """What may have been meant by a command, an option or a value that does not exist."""
    command, called = context.command, context.command_path
    if found := re.fullmatch(r"No such option: (-\S+)", said):
        known = [name for each in command.params for name in (*each.opts, *each.secondary_opts)]
        return [near] if (near := suggest(found[1], known)) else []
    if found := re.search(r": '(.*)' is not one of (.+)$", said):
        near = suggest(found[1], re.findall(r"'([^']+)'", found[2]))
        return [near] if near else []
    if not (found := re.fullmatch(r"No such command '(.*)'", said)):
        return []
    typed, groups = found[1], getattr(command, "commands", {})
    if context.parent is None and typed in SYNONYMS:
        return [f"tally {name}" for name in SYNONYMS[typed]]
    deeper = [
        f"{called} {name} {typed}"
        for name, group in groups.items()
        if typed in getattr(group, "commands", ())
    ]
    if 0 < len(deeper) <= _MOST_SUGGESTED:
        return deeper
    return [f"{called} {near}"] if (near := suggest(typed, groups)) else []


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


def _load_commands(app: typer.Typer) -> TyperGroup:
    """Load what the command line needs: the command that is named, or all.

    For help, and for a wrong name, what commands are called and what they do is enough: their
    options take Typer most of its time.
    """
    names = COMMANDS.keys() & sys.argv[1:2] or COMMANDS
    if sys.argv[1:2] == ["--version"]:
        names = {}
    whole = bool(COMMANDS.keys() & sys.argv[1:]) or "_TALLY_COMPLETE" in os.environ
    loaded = {name: _find_command(name) for name in names}
    if whole:
        for name, (module, found) in loaded.items():
            if isinstance(found, typer.Typer):
                app.add_typer(found, name=name)
            else:
                app.command(name, epilog=getattr(module, "EPILOG", None))(found)
    top = get_command(app)
    assert isinstance(top, TyperGroup)  # noqa: S101 (for the type checker)
    if not whole:
        for name, (_, found) in loaded.items():
            top.commands[name] = _outline(name, found)
    return top


def _find_command(name: str) -> tuple[Any, Any]:
    """The module of a command, and its function or its group."""
    place, _, attribute = COMMANDS[name].partition(":")
    module = import_module(f"tallymark.cli.{place}")
    return module, getattr(module, attribute)


def _outline(name: str, found: Any) -> TyperCommand | TyperGroup:
    """A command without its options."""
    if not isinstance(found, typer.Typer):
        return TyperCommand(name, help=cleandoc(found.__doc__ or ""))
    below: dict[str, Any] = {}
    for each in found.registered_commands:
        called = each.name or get_command_name(getattr(each.callback, "__name__", ""))
        below[called] = TyperCommand(called)
    for group in found.registered_groups:
        called = str(group.name)
        below[called] = TyperGroup(name=called)
    return TyperGroup(name=name, commands=below, help=solve_typer_info_help(TyperInfo(found)))


def main() -> None:
    """Runs `tally`. Errors become one sentence on stderr and an exit code; never a traceback."""
    # Results form no circles, and a run may have a hundred thousand: looking for circles among
    # them as often as Python does takes a sixth of the time, and finds none.
    gc.set_threshold(50_000, 20, 20)
    app = typer.Typer(
        name="tally",
        cls=_TopGroup,
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
        sys.exit(_load_commands(app)(standalone_mode=False) or 0)
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
