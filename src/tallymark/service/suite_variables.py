"""Operations on variables and secrets, the values of templates in suites."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tallymark.service.callers import ORGANISERS, TEAM
from tallymark.service.operations import Resource, operation

Name = Annotated[str, Meta(max_length=200)]
VarValue = Annotated[str, Meta(max_length=100_000)]
SecretValue = Annotated[str, Meta(min_length=1, max_length=100_000)]


class Settings(Resource):
    """Variables and secrets of suites. No operation returns the value of a secret."""

    @operation("GET /vars", TEAM, noun="vars")
    def vars(self) -> dict[str, str]:
        """Get all variables by name."""
        return self.store.vars()

    @operation("PUT /vars/{name}", ORGANISERS, rate="write", noun="vars")
    def set_var(self, name: Name, value: VarValue) -> dict[str, str]:
        """Set a variable, and get all."""
        self.store.set_var(name, value)
        return self.store.vars()

    @operation("DELETE /vars/{name}", ORGANISERS, rate="write", noun="vars")
    def remove_var(self, name: Name) -> dict[str, str]:
        """Remove a variable, and get the others."""
        self.store.delete_var(name)
        return self.store.vars()

    @operation("GET /secrets", ORGANISERS, noun="secrets")
    def secrets(self) -> list[str]:
        """List the names of secrets."""
        return self.store.secret_names()

    @operation("PUT /secrets/{name}", ORGANISERS, rate="write", noun="secrets")
    def set_secret(self, name: Name, value: SecretValue) -> list[str]:
        """Set a secret, which is stored encrypted; lists the names of all."""
        self.store.set_secret(name, value)
        return self.store.secret_names()

    @operation("DELETE /secrets/{name}", ORGANISERS, rate="write", noun="secrets")
    def remove_secret(self, name: Name) -> list[str]:
        """Remove a secret, and list the names of the others."""
        self.store.delete_secret(name)
        return self.store.secret_names()
