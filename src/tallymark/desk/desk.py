"""`Desk`: the one thing that commands ask, and it is the same whether they work here or there.

A command opens a desk (`cli/app_session.py: open_desk`), asks it, and lays out what comes back. It
does not know who answered:

- `LocalDesk` passes on to the services of `app/`, over a database.
- `RemoteDesk` asks a server by `client/`, and turns what comes over the wire into the same values
  that the services give, so that the same code prints the same text.

A subject is a file here (`runs.py`), with the protocol that commands see and both who answer, side
by side, so that who changes one sees the other. To have a command speak to servers: give it the
option `server: Server = None` beside `db`, add what it asks to its subject's protocol, write it for
both, and give the command a row in `tests/cli/test_both_ways.py`. Where the API does not tell what
the command shows, the API is extended; nothing is guessed here. What is refused is raised as the
same error on both sides (`client/exchange.py`), so messages and exit codes need nothing.

Neither side is loaded before somebody asks: a command on a database never loads HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from tallymark.errors import InvalidInput

if TYPE_CHECKING:
    from tallymark.app.app import App
    from tallymark.client.addresses import Address
    from tallymark.client.sync.client import Client
    from tallymark.desk.runs import RunDesk
    from tallymark.desk.webhooks import WebhookDesk


class Desk(Protocol):
    """All that commands ask, by subject."""

    @property
    def runs(self) -> RunDesk:
        """Runs and their results."""

    @property
    def webhooks(self) -> WebhookDesk:
        """Who is told of what happens."""

    def has_challenge(self, name: str) -> bool:
        """Whether a challenge is called so: runs and challenges are scored again alike."""


class LocalDesk:
    """What is kept in a database."""

    def __init__(self, app: App) -> None:
        self.app = app

    @cached_property
    def runs(self) -> RunDesk:
        """Runs and their results."""
        from tallymark.desk.runs import LocalRuns  # noqa: PLC0415 (who asks loads it)

        return LocalRuns(self.app)

    @cached_property
    def webhooks(self) -> WebhookDesk:
        """Who is told of what happens."""
        from tallymark.desk.webhooks import LocalWebhooks  # noqa: PLC0415 (who asks loads it)

        return LocalWebhooks(self.app)

    def has_challenge(self, name: str) -> bool:
        """Whether a challenge is called so."""
        with suppress(InvalidInput):
            self.app.store.challenges.find(name)
            return True
        return False


class RemoteDesk:
    """What is kept by a server."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @cached_property
    def runs(self) -> RunDesk:
        """Runs and their results."""
        from tallymark.desk.runs import RemoteRuns  # noqa: PLC0415 (who asks loads it)

        return RemoteRuns(self.client)

    @cached_property
    def webhooks(self) -> WebhookDesk:
        """Who is told of what happens."""
        from tallymark.desk.webhooks import RemoteWebhooks  # noqa: PLC0415 (who asks loads it)

        return RemoteWebhooks(self.client)

    def has_challenge(self, name: str) -> bool:
        """Whether a challenge is called so."""
        with suppress(InvalidInput):
            self.client.challenges.get(name)
            return True
        return False


@contextmanager
def open_local(db: str | None, tenant: str = "default") -> Iterator[Desk]:
    """A desk over a database."""
    from tallymark.app.app import App  # noqa: PLC0415 (databases load slowly)

    with closing(App(db, tenant)) as app:
        yield LocalDesk(app)


@contextmanager
def open_remote(address: Address) -> Iterator[Desk]:
    """A desk at a server."""
    from tallymark.client import Client  # noqa: PLC0415 (and so does HTTP)

    with Client(address.url, address.key) as client:
        yield RemoteDesk(client)
