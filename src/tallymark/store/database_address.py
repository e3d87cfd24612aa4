"""Database addresses: what a user writes, what may be shown, and the default database."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.installation import explain_install

if TYPE_CHECKING:
    pass


_OWN_FOLDER = ".tally"
DEFAULT = f"{_OWN_FOLDER}/tally.db"
_FORMS = "write a file's path, sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"
_SQLITE = {"sqlite", "sqlite+pysqlite"}
_POSTGRES = {"postgresql", "postgres", "postgresql+psycopg"}


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """A database, and a name for it without user and password."""

    url: URL
    shown: str
    path: Path | None = None
    """File of an SQLite database, absolute, so that a later change of folder is harmless."""

    def make_folder(self) -> None:
        """Make the folder of an SQLite database's file."""
        path = self.path
        try:
            if path is not None and not path.parent.is_dir():
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.parent.name == _OWN_FOLDER:
                    (path.parent / ".gitignore").write_text("*\n", encoding="utf-8")
        except OSError as error:
            raise WorkFailed(
                f"the folder of {self.shown} cannot be made: {error.strerror}",
                hint="name another place with --db",
            ) from None


def parse_address(text: str | None) -> DatabaseAddress:
    """Parse an address written by a user; None is the default. A wrong one is an `InvalidInput`."""
    text = find_default() if text is None else text.strip()
    if not text:
        raise InvalidInput("the database address is empty", hint=_FORMS)
    if "://" in text:
        try:
            url = make_url(text)
        except (ArgumentError, ValueError):
            # Not quoted: what cannot be parsed may hold a password anywhere.
            raise InvalidInput("the database address cannot be read", hint=_FORMS) from None
        if url.drivername in _POSTGRES:
            return _make_postgres_address(url)
        text = _find_file(url)
    elif re.match(r"(sqlite|postgres(ql)?|file)(\+\w+)?:", text):
        scheme = text.partition(":")[0]
        raise InvalidInput(f"the database address lacks '//' after '{scheme}:'", hint=_FORMS)
    path = Path(text).expanduser()
    try:
        if path.is_dir():
            raise InvalidInput(f"{path} is a folder", hint="name a file in it")
    except OSError as error:
        raise WorkFailed(f"{path} cannot be reached: {error.strerror}") from None
    return DatabaseAddress(
        url=URL.create("sqlite", database=str(path.absolute())),
        shown=str(path),
        path=path.absolute(),
    )


def find_default() -> str:
    """Path of the default database: in this folder, or in the nearest parent that has one.

    The search ends below the home folder, where a database made by mistake would collect every
    project. A database above counts only if it is the user's own: in a folder that others may write
    to, another user could have placed it.
    """
    here = Path.cwd()
    # `Path.home` fails where there is none. What the current folder is called has no links in it.
    home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111
    if not os.path.lexists(here / DEFAULT):
        for folder in here.parents:
            if folder in (home, home.parent):
                break
            path = folder / DEFAULT
            with suppress(OSError):  # there is none, or it cannot be seen
                # lstat: another user could link to a file of this user.
                if path.lstat().st_uid == path.parent.lstat().st_uid == os.getuid():
                    return os.path.relpath(path)
    return DEFAULT


def _find_file(url: URL) -> str:
    """File of an SQLite address."""
    if url.drivername not in _SQLITE:
        message = f"a store is in SQLite or PostgreSQL, and {url.drivername!r} is neither"
        raise InvalidInput(message, hint=_FORMS)
    if url.host:
        raise InvalidInput("the SQLite address has two slashes where it needs three", hint=_FORMS)
    if not url.database or url.database == ":memory:":
        raise InvalidInput("a store in memory would be gone at the end", hint="name a file")
    if url.query:
        raise InvalidInput("an SQLite address takes no options after '?'", hint=_FORMS)
    return url.database


def _make_postgres_address(url: URL) -> DatabaseAddress:
    # The rest of a password with an '@' in it, which would be shown as if it were the host.
    if "@" in f"{url.host}{url.database}":
        raise InvalidInput(
            "the database address has more than one '@'", hint="write an '@' in a password as %40"
        )
    if find_spec("psycopg") is None:
        hint = explain_install("tallymark[postgres]")
        raise InvalidInput("PostgreSQL needs a driver", hint=hint)
    shown = URL.create("postgresql", host=url.host, port=url.port, database=url.database)
    return DatabaseAddress(
        url=url.set(drivername="postgresql+psycopg"),
        shown=shown.render_as_string(),
    )
