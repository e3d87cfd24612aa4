"""`Resource`: how every resource asks, and how an answer is opened."""

# Written by `make client` from client/aio/resource.py: change that one.

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, Unpack

from pydantic import BaseModel

from tallymark.client.exchange import Call, CallOptions, write_path
from tallymark.client.sync.connection import Connection

T = TypeVar("T", bound=BaseModel)


class Resource:
    """A kind of thing on a server; paths are its parts, so that a name is one whatever it holds."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _ask(
        self,
        kind: type[T],
        method: str,
        *path: str,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        **options: Unpack[CallOptions],
    ) -> T:
        call = Call(
            method=method, path=write_path(*path), params=params or {}, body=body, **options
        )
        return self._connection.ask(kind, call)

    def _page(
        self,
        kind: type[T],
        *path: str,
        limit: int | None = None,
        params: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Iterator[T]:
        call = Call(method="GET", path=write_path(*path), params=params or {}, **options)
        return self._connection.page(kind, call, limit)

    def _listen(
        self, *path: str, after: int | None, ends: bool, **options: Unpack[CallOptions]
    ) -> Iterator[Any]:
        call = Call(method="GET", path=write_path(*path), **options)
        return self._connection.listen(call, after, ends=ends)
