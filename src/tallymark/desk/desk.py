"""`Desk`: the one thing that commands ask, and it is the same whether they work here or there.

A command opens a desk (`cli/app_session.py: open_desk`), asks it, and lays out what comes back. It
does not know who answered:

- `LocalDesk` passes on to the services of `service/`, over a database.
- `RemoteDesk` asks a server by `client/`, and turns what comes over the wire into the same values
  that the services give, so that the same code prints the same text.

A subject is a file here (`boards.py`), with the protocol that commands see and both who answer,
side by side, so that who changes one sees the other. To have a command speak to servers: give it
the option `server: Server = None` beside `db`, add what it asks to its subject's protocol, write it
for both, and give the command a row in `tests/cli/test_both_ways.py`. Where the API does not tell
what the command shows, the API is extended; nothing is guessed here. What is refused is raised
as the same error on both sides (`client/exchange.py`), so messages and exit codes need nothing.

Neither side is loaded before somebody asks: a command on a database never loads HTTP.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tallymark.client import Client
    from tallymark.client.addresses import Address
    from tallymark.desk.attempts import AttemptDesk
    from tallymark.desk.boards import BoardDesk
    from tallymark.desk.challenges import ChallengeDesk
    from tallymark.desk.organising import OrganiserDesk
    from tallymark.desk.tables import TableDesk
    from tallymark.desk.versus import VersusDesk
    from tallymark.service.app import App
    from tallymark.service.resources import Resources


class Desk(Protocol):
    """All that commands ask, by subject."""

    @property
    def there(self) -> str | None:
        """What is added to a command so that it asks the same server; None: it is all here."""

    @property
    def tally(self) -> Resources:
        """Operations in the same place."""

    @property
    def challenges(self) -> ChallengeDesk:
        """Challenges, and whom plugins are paused for."""

    @property
    def attempts(self) -> AttemptDesk:
        """Attempts."""

    @property
    def versus(self) -> VersusDesk:
        """Red against blue."""

    @property
    def boards(self) -> BoardDesk:
        """Boards, ratings, and what agents are called."""

    @property
    def organising(self) -> OrganiserDesk:
        """Agents."""

    @property
    def tables(self) -> TableDesk:
        """Everything of a kind, out and in."""


class LocalDesk:
    """What is kept in a database."""

    there = None

    def __init__(self, app: App) -> None:
        self.app = app

    @cached_property
    def tally(self) -> Resources:
        """Operations over the same database."""
        from tallymark.service.resources import Resources  # noqa: PLC0415 (who asks loads it)
        from tallymark.service.settings import ServiceSettings  # noqa: PLC0415
        from tallymark.service.tenant import TenantServices  # noqa: PLC0415

        return Resources(TenantServices(self.app, ServiceSettings(own=True)))

    @cached_property
    def challenges(self) -> ChallengeDesk:
        """Challenges, and whom plugins are paused for."""
        from tallymark.desk.challenges import LocalChallenges  # noqa: PLC0415

        return LocalChallenges(self.app)

    @cached_property
    def attempts(self) -> AttemptDesk:
        """Attempts."""
        from tallymark.desk.attempts import LocalAttempts  # noqa: PLC0415

        return LocalAttempts(self.app)

    @cached_property
    def versus(self) -> VersusDesk:
        """Red against blue."""
        from tallymark.desk.versus import LocalVersus  # noqa: PLC0415

        return LocalVersus(self.app)

    @cached_property
    def boards(self) -> BoardDesk:
        """Boards, ratings, and what agents are called."""
        from tallymark.desk.boards import LocalBoards  # noqa: PLC0415

        return LocalBoards(self.app)

    @cached_property
    def organising(self) -> OrganiserDesk:
        """Agents."""
        from tallymark.desk.organising import LocalOrganiser  # noqa: PLC0415

        return LocalOrganiser(self.app)

    @cached_property
    def tables(self) -> TableDesk:
        """Everything of a kind, out and in."""
        from tallymark.desk.tables import LocalTables  # noqa: PLC0415

        return LocalTables(self.app)


class RemoteDesk:
    """What is kept by a server."""

    def __init__(self, client: Client, there: str) -> None:
        self.client, self.there = client, there
        self.tally = client

    @cached_property
    def challenges(self) -> ChallengeDesk:
        """Challenges, and whom plugins are paused for."""
        from tallymark.desk.challenges import RemoteChallenges  # noqa: PLC0415

        return RemoteChallenges(self.client)

    @cached_property
    def attempts(self) -> AttemptDesk:
        """Attempts."""
        from tallymark.desk.attempts import RemoteAttempts  # noqa: PLC0415

        return RemoteAttempts(self.client)

    @cached_property
    def versus(self) -> VersusDesk:
        """Red against blue."""
        from tallymark.desk.versus import RemoteVersus  # noqa: PLC0415

        return RemoteVersus(self.client)

    @cached_property
    def boards(self) -> BoardDesk:
        """Boards, ratings, and what agents are called."""
        from tallymark.desk.boards import RemoteBoards  # noqa: PLC0415

        return RemoteBoards(self.client)

    @cached_property
    def organising(self) -> OrganiserDesk:
        """Agents."""
        from tallymark.desk.organising import RemoteOrganiser  # noqa: PLC0415

        return RemoteOrganiser(self.client)

    @cached_property
    def tables(self) -> TableDesk:
        """Everything of a kind, out and in."""
        from tallymark.desk.tables import RemoteTables  # noqa: PLC0415

        return RemoteTables(self.client)


@contextmanager
def open_local(db: str | None, tenant: str = "default") -> Iterator[Desk]:
    """A desk over a database."""
    from tallymark.service.app import App  # noqa: PLC0415 (databases load slowly)

    with closing(App(db, tenant)) as app:
        yield LocalDesk(app)


@contextmanager
def open_remote(address: Address, typed: str | None) -> Iterator[Desk]:
    """A desk at a server; `typed` is what it was called, unless variables or a file name it."""
    from tallymark.client import Client  # noqa: PLC0415 (and so does HTTP)

    with Client(address.url, address.key) as client:
        yield RemoteDesk(client, "" if typed is None else f" --server {shlex.quote(typed)}")
