"""Errors of database drivers in sentences for the user, and whether a retry may help.

The driver's exception is never chained: it can quote the address, and so a password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sqlalchemy.exc import DBAPIError

from tallymark.errors import Busy, InvalidInput, TallymarkError, WorkFailed

if TYPE_CHECKING:
    from tallymark.store.database_address import DatabaseAddress

FailureKind = Literal["busy", "lost", "final"]
_RETRY_AFTER = 1.0


@dataclass(frozen=True, slots=True)
class DatabaseFailure:
    """A failure: `busy` may pass, `lost` is a connection that may come back, `final` is neither."""

    kind: FailureKind
    error: TallymarkError


@dataclass(frozen=True, slots=True)
class _Meaning:
    message: str
    hint: str | None = None
    kind: FailureKind = "final"
    error: type[TallymarkError] = WorkFailed


_LOCKED = _Meaning(
    "{db} is locked by another process", "try again when that has finished", kind="busy"
)
_FULL = _Meaning(
    "the disk of {db} is full; what was stored before is safe", "make room, then try again"
)
_DENIED = _Meaning("there is no permission to use {db}", "ask its owner, or use another database")
_UNREACHABLE = _Meaning(
    "the server of {db} cannot be reached ({why})",
    "check its address, and that it is running",
    kind="lost",
)
_CHANGED = _Meaning(
    "{db} no longer has the tables of this version of Tallymark ({why})",
    "if another version upgraded it meanwhile, stop this one and start that",
)
# By the first word of SQLite's error name after `SQLITE_`.
_SQLITE = {
    "BUSY": _LOCKED,
    "LOCKED": _LOCKED,
    "FULL": _FULL,
    "PERM": _DENIED,
    "AUTH": _DENIED,
    "READONLY": _Meaning("{db} can be read but not written", "check the file's permissions"),
    "CANTOPEN": _Meaning("{db} cannot be opened", "check the permissions of the file and folder"),
    "NOTADB": _Meaning("{db} is not an SQLite database", "name another file", error=InvalidInput),
    "CORRUPT": _Meaning("{db} is damaged", "restore it from a copy, or use another database"),
    "IOERR": _Meaning("reading or writing {db} failed ({why})", "check the disk and its space"),
}
# By SQLSTATE, or its first characters.
_POSTGRES = {
    "08": _UNREACHABLE,
    "57P": _UNREACHABLE,  # the server is starting or shutting down
    "40": _LOCKED,  # rolled back because of a deadlock or another transaction: again may do
    "55P03": _LOCKED,  # `lock_timeout` of the engine ran out
    "57014": _Meaning(
        "{db} took too long to answer, and was stopped",
        "try again later, or ask for less",
        kind="busy",
    ),  # `statement_timeout` of the engine ran out
    "53100": _FULL,
    "53300": _Meaning("{db} has no connection left", "try again later", kind="busy"),
    "42501": _DENIED,
    "25006": _Meaning("{db} can be read but not written", "use a server that takes writes"),
    "28": _Meaning("{db} refused the login", "check user name and password"),
    "42703": _CHANGED,  # no such column
    "42P01": _CHANGED,  # no such table
    "3D000": _Meaning("there is no database at {db}", "create it with createdb"),
    "42P07": _Meaning(
        "{db} has a table that is not Tallymark's where one of its own should be ({why})",
        "use another database",
    ),
}
# Refused connections come without an SQLSTATE.
_POSTGRES_WORDS = {
    "password": _POSTGRES["28"],
    "authentication": _POSTGRES["28"],
    " role ": _POSTGRES["28"],
    "does not exist": _POSTGRES["3D000"],
}
_OTHER = _Meaning("{db} could not do the work ({why})")


def explain_locked(address: DatabaseAddress) -> TallymarkError:
    """The error of a thread that waited in vain for another."""
    return _make_error(_LOCKED, _LOCKED.message.format(db=address.shown))


def explain_driver_error(error: Exception, address: DatabaseAddress) -> DatabaseFailure:
    """The failure behind an exception of SQLAlchemy or of the driver itself."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    meaning = (
        _find_sqlite_meaning(cause) if address.path is not None else _find_postgres_meaning(cause)
    )
    words = meaning.message.format(db=address.shown, why=_quote_driver(cause, address))
    return DatabaseFailure(meaning.kind, _make_error(meaning, words))


def _make_error(meaning: _Meaning, words: str) -> TallymarkError:
    if meaning.kind == "final":
        return meaning.error(words, hint=meaning.hint)
    return Busy(words, hint=meaning.hint, retry_after=_RETRY_AFTER)


def _find_sqlite_meaning(cause: BaseException) -> _Meaning:
    name: str = getattr(cause, "sqlite_errorname", "")
    if name == "SQLITE_ERROR" and re.match(r"no such (column|table)|table \S+ has no", str(cause)):
        return _CHANGED
    return _SQLITE.get(name.removeprefix("SQLITE_").partition("_")[0], _OTHER)


def _find_postgres_meaning(cause: BaseException) -> _Meaning:
    state: str | None = getattr(cause, "sqlstate", None)
    if state:
        return next((_POSTGRES[state[:n]] for n in (5, 3, 2) if state[:n] in _POSTGRES), _OTHER)
    if type(cause).__name__ not in {"OperationalError", "ConnectionTimeout"}:
        return _OTHER
    said = str(cause)
    return next((each for word, each in _POSTGRES_WORDS.items() if word in said), _UNREACHABLE)


def _quote_driver(cause: BaseException, address: DatabaseAddress) -> str:
    """The driver's first line, with the password removed."""
    said = str(cause).strip().splitlines() or [type(cause).__name__]
    for password in (address.url.password, address.url.query.get("password")):
        if password:
            said[0] = said[0].replace(str(password), "***")
    return said[0]
