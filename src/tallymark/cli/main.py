"""The `tally` command: the table of commands, and how they fail or are stopped.

Only the module of the command that is run is imported, so that `tally --help` is fast.
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
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command

from tallymark import text
from tallymark.errors import TallymarkError, suggest
from tallymark.text import say

if TYPE_CHECKING:
    from types import FrameType


class Command(NamedTuple):
    """A line of the table of commands."""

    place: str
    """Module below `tallymark.cli`, and the function or Typer group in it."""
    about: str


GROUPS = {
    "Evaluate": {
        "init": Command("suites:init", "Write an example suite to start from."),
        "import": Command("suites:import_", "Convert a promptfoo config or an Inspect log."),
        "validate": Command("suites:validate", "Check suite files and their formulas."),
        "run": Command("run:run", "Run a suite against one or more models."),
        "runs": Command("runs:app", "List stored runs; delete or rename one."),
        "show": Command("runs:show", "Show a run: its score and its cases."),
        "compare": Command("compare:compare", "Compare runs, and test if one is worse."),
        "rescore": Command("rescore:rescore", "Score a run or a challenge by another rule."),
        "formula": Command("formula:app", "Check a scoring formula, or explain a score."),
        "schema": Command("suites:schema", "Print the JSON Schema of suite files, for editors."),
        "vars": Command("vars_and_secrets:vars_app", "Values for {{var('name')}} in suites."),
        "secrets": Command(
            "vars_and_secrets:secrets_app", "Encrypted values for {{secret('name')}} in suites."
        ),
    },
    "Traces": {
        "score": Command("score:score", "Score traces, or run suites written in Python."),
        "scorers": Command("scorers:scorers", "List the installed scorers, or show one."),
        "traces": Command("traces:app", "Search, show, compare and score stored traces."),
        "rules": Command("rules:app", "Score traces automatically as they arrive."),
        "load": Command("load:app", "Load traces, results, attempts or scores from files."),
        "export": Command("export:app", "Export traces, results, attempts or scores as Parquet."),
    },
    "Compete": {
        "challenge": Command("challenge:app", "Create, check, publish and manage challenges."),
        "attempt": Command("attempt:app", "Enter a challenge, submit an answer, see the score."),
        "compete": Command("compete:compete", "Let an agent play a challenge in one command."),
        "leaderboard": Command("leaderboard:leaderboard", "Show the leaderboard of a challenge."),
        "ratings": Command("leaderboard:ratings", "Rate agents and the difficulty of challenges."),
        "versus": Command("versus:app", "Red against blue: submit attacks and defences."),
        "agent": Command("agent:app", "Name, disqualify or reinstate an agent."),
        "plugin": Command("plugin:app", "Check a scorer plugin, or resume a paused one."),
    },
    "Serve": {
        "view": Command("serve:view", "Open your own results as pages in a browser."),
        "serve": Command("serve:serve", "Start a server with an API and pages for a team."),
        "worker": Command("serve:worker", "Run queued jobs of a server."),
        "mcp": Command("serve:mcp", "Serve tools for agents over MCP."),
        "login": Command("login:login", "Save the key of a server."),
        "logout": Command("login:logout", "Remove the saved key of a server."),
        "whoami": Command("login:whoami", "Show which account a server knows you as."),
        "webhooks": Command("webhooks:app", "Send events to a URL: finished runs, failed gates."),
    },
    "Administer": {
        "admin": Command("admin:app", "Manage keys, tenants, invitations and backups."),
        "log": Command("agent:log", "Show what organisers and admins did, and why."),
        "doctor": Command("doctor:doctor", "Check the sandbox, and say what to install."),
        "docs": Command("docs:docs", "Read the documentation in the terminal."),
    },
}
"""All commands, in the order of `tally --help`, which reads this table and imports none."""
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}
SYNONYMS = {
    "eval": ["run"],
    "test": ["run", "score"],
    "list": ["runs"],
    "ls": ["runs"],
    "history": ["runs"],
    "results": ["show latest", "runs"],
    "report": ["show latest --report report.html", "attempt report"],
    "diff": ["compare"],
    "delete": ["runs delete", "challenge delete"],
    "rm": ["runs delete"],
    "remove": ["runs delete", "challenge delete"],
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
"""Commands of other tools, and words that people try first."""
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
        from importlib.metadata import version as find_version  # noqa: PLC0415 (only for --version)

        say(f"tally {find_version('tallymark')}")
        raise typer.Exit
    if (path := find_settings_file()) is not None:
        from tallymark.cli.settings_file import SettingsFile  # noqa: PLC0415 (most folders have no settings file)

        SettingsFile(path, context).apply(COMMANDS)


def find_settings_file() -> Path | None:
    """The nearest `tally.toml`, in this folder or one above it."""
    here = Path("tally.toml").absolute()
    paths = (here, *(folder / here.name for folder in here.parent.parents))
    return next((path for path in paths if path.is_file()), None)


class _Outlet(io.FileIO):
    """A stream that discards its output once the reader is gone.

    A command finishes its work although `| head` or a closed terminal has ended its output.
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
    """Wrap a stream so that it survives its reader; a missing stream discards its output."""
    if stream is None:  # closed by the parent process
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
    """Read settings of all commands from `sys.argv`: colours, width, `help`, names in hints."""
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
        if value and "@" not in value:  # an address with a password is not repeated
            text.place = f" --db {shlex.quote(value)}"


class _TopGroup(TyperGroup):
    """`tally`: its help shows commands by subject, a line each and none cut short."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (its signature)
        """Write a section for each group of commands."""
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                for name, command in commands.items():
                    formatter.write(f"  {name:{width}}  {command.about}\n")


def _explain_misuse(error: TyperException) -> str:
    """Message for a wrong option or argument; the help of a group without a command."""
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
    """Suggestions for a command, an option or a value that does not exist."""
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
    if context.parent is None:
        close = SYNONYMS.get(typed) or _find_in_groups(typed)
        if 0 < len(close) <= _MOST_SUGGESTED:
            return [f"{called} {name}" for name in close]
    return [f"{called} {near}"] if (near := suggest(typed, groups)) else []


def _has_folder() -> bool:
    """Check that the current folder still exists."""
    try:
        os.getcwd()  # noqa: PTH109 (it is the question itself)
    except FileNotFoundError:
        return False
    return True


def _explain_surprise(error: Exception) -> tuple[str, int]:
    """Message and exit code of an unexpected error, mostly a bug."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
        return "the output could not be written: no space is left", 3
    if not _has_folder():
        return "the current folder was deleted; change to another folder", 2
    hint = "this is a bug in Tallymark; set TALLY_DEBUG=1 to see the traceback"
    return f"{type(error).__name__}: {error}; {hint}", 3


def _load_commands(app: typer.Typer) -> TyperGroup:
    """Load the command that is named; the others are only lines of the table."""
    words = sys.argv[1:]
    if "_TALLY_COMPLETE" in os.environ:  # a shell completes a line that is typed
        words += shlex.split(os.environ.get("COMP_WORDS", ""))
        words += shlex.split(os.environ.get("_TYPER_COMPLETE_ARGS", ""))
    named = [name for name in COMMANDS if name in words]
    for name in named:
        module, found = _import_command(name)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name, help=COMMANDS[name].about)
        else:
            app.command(name, epilog=getattr(module, "EPILOG", None))(found)
    top = get_command(app)
    assert isinstance(top, TyperGroup)  # noqa: S101 (for the type checker)
    for name, command in COMMANDS.items():
        if name not in named:
            top.commands[name] = TyperCommand(name, help=command.about)
    return top


def _import_command(name: str) -> tuple[Any, Any]:
    """Import the module of a command; return it with the command's function or group."""
    place, _, attribute = COMMANDS[name].place.partition(":")
    module = import_module(f"tallymark.cli.{place}")
    return module, getattr(module, attribute)


def _find_in_groups(word: str) -> list[str]:
    """The commands of groups that are called so, as `attempt enter` for `enter`."""
    found = []
    for name, command in COMMANDS.items():
        if command.place.endswith("app"):
            group = get_command(_import_command(name)[1])
            found += [f"{name} {word}"] if word in getattr(group, "commands", ()) else []
    return found


def main() -> None:
    """Run `tally`. Errors become one sentence on stderr and an exit code, never a traceback."""
    # Results have no reference cycles, and a run may have 100,000: collecting garbage at the
    # default frequency takes a sixth of the time, and finds none.
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
        """End like Ctrl-C, with the handler that an event loop may have set for it."""
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
        # Python would scan every object again at exit: a fifth of the time of a short command.
        gc.freeze()
