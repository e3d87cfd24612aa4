"""`Settings`: variables and secrets of suites."""

# Written by `make client` from client/aio/settings.py: change that one.

from __future__ import annotations

from typing import Unpack

from tallymark.client.exchange import CallOptions
from tallymark.client.sync.resource import Resource
from tallymark.wire import accounts as wire


class Settings(Resource):
    """Variables and secrets of suites."""

    def vars(self, **options: Unpack[CallOptions]) -> dict[str, str]:
        """Variables by name."""
        return (self._ask(wire.Variables, "GET", "vars", **options)).vars

    def set_var(self, name: str, value: str, **options: Unpack[CallOptions]) -> None:
        """Sets a variable."""
        self._ask(wire.Variables, "PUT", "vars", name, body={"value": value}, **options)

    def remove_var(self, name: str, **options: Unpack[CallOptions]) -> None:
        """Forgets a variable."""
        self._ask(wire.Variables, "DELETE", "vars", name, **options)

    def secrets(self, **options: Unpack[CallOptions]) -> list[str]:
        """Names of secrets; their values are shown to nobody."""
        return (self._ask(wire.SecretNames, "GET", "secrets", **options)).secrets

    def set_secret(self, name: str, value: str, **options: Unpack[CallOptions]) -> None:
        """Sets a secret."""
        self._ask(wire.SecretNames, "PUT", "secrets", name, body={"value": value}, **options)

    def remove_secret(self, name: str, **options: Unpack[CallOptions]) -> None:
        """Forgets a secret."""
        self._ask(wire.SecretNames, "DELETE", "secrets", name, **options)
