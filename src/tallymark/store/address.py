"""Where a store is: a file's path, `sqlite:///…` or `postgresql://…`, read from a user's text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from tallymark.errors import InvalidInput

DEFAULT = ".tally/tally.db"
_FORMS = "write a file's path, sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"
_SQLITE = {"sqlite", "sqlite+pysqlite"}
_POSTGRES = {"postgresql", "postgres", "postgresql+psycopg"}


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """A database, with a name for it that may be shown: no user, no password."""

    url: URL
    shown: str
    path: Path | None = None
    """Of an SQLite database: its file, absolute, so that a later change of folder is harmless."""


def parse_address(text: str | None) -> DatabaseAddress:
    """The address that a user wrote; None is the default one. A wrong one is an `InvalidInput`."""
    text = DEFAULT if text is None else text.strip()
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
    return DatabaseAddress(
        url=URL.create("sqlite", database=str(path.absolute())),
        shown=str(path),
        path=path.absolute(),
    )


def _find_file(url: URL) -> str:
    """The file of an SQLite address."""
    if url.drivername not in _SQLITE:
        message = f"a store is kept in SQLite or PostgreSQL, and {url.drivername!r} is neither"
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
        raise InvalidInput(
            "PostgreSQL needs a driver", hint="install it with: pip install 'tallymark[postgres]'"
        )
    shown = URL.create("postgresql", host=url.host, port=url.port, database=url.database)
    return DatabaseAddress(
        url=url.set(drivername="postgresql+psycopg"),
        shown=shown.render_as_string(),
    )
