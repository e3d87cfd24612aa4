"""A short, stable hash of a scorer's code, so that a score says which code made it."""

from __future__ import annotations

import hashlib
import inspect
import textwrap
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING

from tallymark.importing import parse_alone

if TYPE_CHECKING:
    from collections.abc import Iterable


def code_hash(sources: Iterable[object]) -> str:
    """Twelve hex digits over the source of functions, classes or callable objects."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(_read_code(source))
        digest.update(b"\0")  # so that text moved from one source to the next changes the hash
    return digest.hexdigest()[:12]


def _read_code(source: object) -> bytes:
    if isinstance(source, partial):
        return _read_code(source.func)
    named = source if hasattr(source, "__qualname__") else type(source)
    try:
        # A class is found by parsing its whole file.
        text = parse_alone(lambda: inspect.getsource(named))  # type: ignore[arg-type]
        return textwrap.dedent(text).encode()
    except (OSError, TypeError, SyntaxError):
        return _read_bytecode(named)


def _read_bytecode(source: object) -> bytes:
    """The bytecode, for code without a source file: a shell, `exec`, a compiled module."""
    code = getattr(source, "__code__", None)
    if code is not None:
        return _flatten_bytecode(code)
    if isinstance(source, type):
        parts = [_read_bytecode(each) for _, each in sorted(vars(source).items()) if callable(each)]
        return b"\0".join([source.__qualname__.encode(), *parts])
    return str(getattr(source, "__qualname__", source)).encode()


def _flatten_bytecode(code: CodeType) -> bytes:
    consts = [
        _flatten_bytecode(const) if isinstance(const, CodeType) else repr(const).encode()
        for const in code.co_consts
    ]
    return b"\0".join([code.co_code, " ".join(code.co_names).encode(), *consts])
