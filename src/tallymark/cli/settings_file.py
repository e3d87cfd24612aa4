"""`tally.toml`: default options of commands.

A table for each command holds its options by their long names; `db` and `judge` may also be at the
top level, for every command that has them, and `server` only there. Options take precedence over
`TALLY_DB` and `TALLY_SERVER`, and these over the file. The file cannot start a program or name an
unknown server, as it may have come with a folder that the user has not inspected.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperGroup, TyperOption
from typer.models import TyperPath

from tallymark.cli import session
from tallymark.errors import InvalidInput, suggest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_FOR_ALL = ("db", "judge")
_AT_TOP = (*_FOR_ALL, "server")
_TYPED_ONLY = ("insecure-local", "help", "server", "yes")
"""Options that must be typed each time, as a file of a project must not set them."""
_RUNS_CODE = {
    "model": re.compile(r"\s*(cmd|python)[/:]", re.IGNORECASE),
    "judge": re.compile(r"\s*(cmd|python)[/:]", re.IGNORECASE),
    "score.scorer": re.compile(r"[^(]*:"),
    "score.function": re.compile(r""),
    "compete.function": re.compile(r""),
    "compete.program": re.compile(r""),
    # The owner of a cluster sees what is sent there, and controls the results.
    "engine": re.compile(r"\s*ray\s*:", re.IGNORECASE),
}
"""Values that name a program or Python code, by the option or its place."""


class SettingsFile:
    """A `tally.toml` that was found, for the command that was called."""

    def __init__(self, path: Path, context: typer.Context) -> None:
        self.path = path
        self.context = context
        self.tables = read_tables(path)

    def apply(self, commands: Collection[str]) -> None:
        """The command takes the file's values where none is typed."""
        for name in self.tables:
            if name not in commands and name not in _AT_TOP:
                raise self._refuse("there is no command", name, [*commands, *_AT_TOP])
        self._read_server()
        called, group = self.context.invoked_subcommand, self.context.command
        if called is not None and isinstance(group, TyperGroup):
            values = self._map(group.commands[called], self.tables.get(called, {}), called)
            self.context.default_map = {called: values}

    def _read_server(self) -> None:
        named = self.tables.get("server")
        if named is None:
            return
        if not isinstance(named, str) or not named.strip():
            raise InvalidInput(f"{self.path}: server must be an address or a name of a server")
        if "db" in self.tables:
            raise InvalidInput(f"{self.path}: db and server exclude each other")
        session.server_in_file = named.strip()

    def _map(self, command: Any, table: Any, place: str) -> dict[str, Any]:
        """Values by the names of parameters, those of a group's commands one level deeper."""
        if not isinstance(table, dict):
            hint = f"write [{place}] above its options"
            raise InvalidInput(f"{self.path}: {place} must be a table", hint=hint)
        options = dict(_list_options(command.params))
        if not isinstance(command, TyperGroup):
            return self._map_options(command, options, table, place)
        own = {name: value for name, value in table.items() if name not in command.commands}
        for name in own if not options else ():
            raise self._refuse(f"{place!r} has no command", name, command.commands)
        return self._map_options(command, options, own, place) | {
            name: self._map(each, table.get(name, {}), f"{place}.{name}")
            for name, each in command.commands.items()
        }

    def _map_options(
        self, command: Any, options: dict[str, TyperOption], table: dict[str, Any], place: str
    ) -> dict[str, Any]:
        given = {f"{place}.{name}": value for name, value in table.items()}
        for name in self.tables.keys() & options & set(_FOR_ALL) - table.keys():
            given[name] = self.tables[name]
        mapped = {}
        for where, value in given.items():
            name = where.rpartition(".")[2].replace("_", "-")
            if name not in options:
                raise self._refuse(f"[{place}] has no option", name, options)
            overruled = name == "engine" and os.environ.get("TALLY_ENGINE")
            if not overruled and (name != "db" or not _is_db_overruled(command.params)):
                read = self._read(options[name], value, where)
                code = _RUNS_CODE.get(where) or _RUNS_CODE.get(name)
                many = read if isinstance(read, list) else [read]
                found = next((each for each in many if code and code.match(str(each))), None)
                # Called only if the option is not typed.
                asked = read if found is None else _RefusedCode(self.path, where, found)
                mapped[options[name].name or name] = asked
        return mapped

    def _read(self, option: TyperOption, value: Any, where: str) -> Any:
        many = value if isinstance(value, list) else [value]
        if len(many) != 1 and not option.multiple:
            raise InvalidInput(f"{self.path}: {where} takes one value", hint="leave out the list")
        for each in many:
            if isinstance(each, bool) != option.is_flag or not isinstance(each, str | int | float):
                wanted = "true or false" if option.is_flag else "text or a number"
                raise InvalidInput(f"{self.path}: {where} must be {wanted}, not {each!r}")
        placed = [self._place(option, each) for each in many]
        read = placed if option.multiple else placed[0]
        try:
            # Here, where the file can be named: later, the message would speak of an option.
            option.type_cast_value(self.context, read)
        except typer.BadParameter as error:
            raise InvalidInput(f"{self.path}: {where}: {error.message}") from None
        return read

    def _place(self, option: TyperOption, value: Any) -> Any:
        """Paths start where the file is, so that it means the same in every folder below."""
        is_path = isinstance(option.type, TyperPath)
        if isinstance(value, str) and (is_path or (option.name == "db" and "://" not in value)):
            return str(self.path.parent / value)
        return value

    def _refuse(self, what: str, name: str, known: Collection[str]) -> InvalidInput:
        near = suggest(name, known)
        hint = f"did you mean {near!r}?" if near else "see `tally --help` and `tally docs settings`"
        return InvalidInput(f"{self.path}: {what} {name!r}", hint=hint)


def read_tables(path: Path) -> dict[str, Any]:
    """Read the tables of the file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not TOML: {error}") from None


@dataclass(frozen=True)
class _RefusedCode:
    """Default value that names code: using it raises an error that asks to type it."""

    path: Path
    where: str
    value: str

    def __call__(self) -> NoReturn:
        said = f"{self.path}: {self.where} = {self.value!r} runs code, and a settings file may not"
        option = self.where.rpartition(".")[2]
        hint = f"type it if you trust it: --{option} {shlex.quote(self.value)}"
        raise InvalidInput(said, hint=hint)

    def __str__(self) -> str:
        return f"{self.value}, which must be typed"


def _is_db_overruled(parameters: list[Any]) -> bool:
    """Check if a variable or a named server takes precedence over the database of the file."""
    asks = any("--server" in each.opts for each in parameters)
    typed = any(each.partition("=")[0] == "--server" for each in sys.argv)
    named = typed or bool(os.environ.get("TALLY_SERVER"))
    return bool(os.environ.get("TALLY_DB")) or (asks and named)


def _list_options(parameters: list[Any]) -> Iterator[tuple[str, TyperOption]]:
    for each in parameters:
        if isinstance(each, TyperOption):
            names = (name[2:] for name in each.opts if name.startswith("--"))
            yield from ((name, each) for name in names if name not in _TYPED_ONLY)
