"""`Sender`: sends operations to a server, and reads their answers."""

# Written by `make client` from client/aio/sender.py: change that one.

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.client.exchange import Call, CallOptions
from tallymark.client.sync.connection import Connection
from tallymark.errors import WorkFailed
from tallymark.service.operations import IDEMPOTENCY_KEY, Event

if TYPE_CHECKING:
    from tallymark.service.operations import Operation


class Sender:
    """A connection with the options of its calls."""

    def __init__(self, connection: Connection, options: CallOptions | None = None) -> None:
        self.connection = connection
        self.options = options or CallOptions()

    def listen(self, path: str, after: int | None, *, ends: bool) -> Iterator[Event]:
        """Follow events; `ends` says that the stream is over when the server ends it."""
        return self.connection.listen(Call(method="GET", path=path), after, ends=ends)

    def read_rows(self, path: str) -> Iterator[dict[str, Any]]:
        """Read rows as the server streams them."""
        call = Call(method="GET", path=path, timeout=self.options.get("timeout"))
        return self.connection.read_rows(call)

    def send(self, operation: Operation, arguments: Mapping[str, Any]) -> Any:
        """Call an operation of the server; a refusal is raised as the service raises it."""
        arguments = operation.bring_secret(arguments)
        path, body = operation.write(arguments)
        options = dict(self.options)
        if (key := arguments.get(IDEMPOTENCY_KEY)) is not None:
            options["idempotency_key"] = key
        if operation.body is bytes:
            options["content_type"] = operation.media_type
        call = Call(method=operation.method, path=path, body=body, **options)  # type: ignore[arg-type]
        answer = self.connection.send(call)
        try:
            return operation.unpack(answer.content, arguments)
        except msgspec.DecodeError as error:
            raise WorkFailed(
                f"{self.connection.address} returned an unexpected answer: {error}",
                hint="its version may differ from this client's",
            ) from None
