"""`AsyncSettings`: variables and secrets of suites."""

from __future__ import annotations

from typing import Unpack

from tallymark.client.aio.resource import AsyncResource
from tallymark.client.exchange import CallOptions
from tallymark.wire import accounts as wire


class AsyncSettings(AsyncResource):
    """Variables and secrets of suites."""

    async def vars(self, **options: Unpack[CallOptions]) -> dict[str, str]:
        """Variables by name."""
        return (await self._ask(wire.Variables, "GET", "vars", **options)).vars

    async def set_var(self, name: str, value: str, **options: Unpack[CallOptions]) -> None:
        """Sets a variable."""
        await self._ask(wire.Variables, "PUT", "vars", name, body={"value": value}, **options)

    async def remove_var(self, name: str, **options: Unpack[CallOptions]) -> None:
        """Forgets a variable."""
        await self._ask(wire.Variables, "DELETE", "vars", name, **options)

    async def secrets(self, **options: Unpack[CallOptions]) -> list[str]:
        """Names of secrets; their values are shown to nobody."""
        return (await self._ask(wire.SecretNames, "GET", "secrets", **options)).secrets

    async def set_secret(self, name: str, value: str, **options: Unpack[CallOptions]) -> None:
        """Sets a secret."""
        await self._ask(wire.SecretNames, "PUT", "secrets", name, body={"value": value}, **options)

    async def remove_secret(self, name: str, **options: Unpack[CallOptions]) -> None:
        """Forgets a secret."""
        await self._ask(wire.SecretNames, "DELETE", "secrets", name, **options)
