"""What commands ask about variables and secrets, the values of templates in suites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tallymark.service.app import App


class TemplateDesk(Protocol):
    """Variables, and names of secrets."""

    def vars(self) -> dict[str, str]:
        """Variables by name."""

    def set_var(self, name: str, value: str) -> None:
        """Keeps one."""

    def remove_var(self, name: str) -> None:
        """Forgets one."""

    def secrets(self) -> list[str]:
        """Their names."""

    def set_secret(self, name: str, value: str) -> None:
        """Keeps one."""

    def remove_secret(self, name: str) -> None:
        """Forgets one."""


@dataclass(frozen=True)
class LocalTemplates:
    """In a database."""

    app: App

    def vars(self) -> dict[str, str]:
        """Variables by name."""
        return dict(self.app.store.vars())

    def set_var(self, name: str, value: str) -> None:
        """Keeps one."""
        self.app.store.set_var(name, value)

    def remove_var(self, name: str) -> None:
        """Forgets one."""
        self.app.store.require()
        self.app.store.delete_var(name)

    def secrets(self) -> list[str]:
        """Their names."""
        return self.app.store.secret_names()

    def set_secret(self, name: str, value: str) -> None:
        """Keeps one."""
        self.app.store.set_secret(name, value)

    def remove_secret(self, name: str) -> None:
        """Forgets one."""
        self.app.store.require()
        self.app.store.delete_secret(name)
