"""`Accounts`: keys, invitations and tenants."""

# Written by `make client` from client/aio/accounts.py: change that one.

from __future__ import annotations

import secrets
from typing import Unpack

from tallymark.client.exchange import CallOptions, leave_out_none
from tallymark.client.sync.resource import Resource
from tallymark.wire import accounts as wire
from tallymark.wire.parts import Told


class Accounts(Resource):
    """Keys, invitations and tenants."""

    def keys(
        self,
        *,
        owner: str | None = None,
        agent: str | None = None,
        **options: Unpack[CallOptions],
    ) -> list[wire.KeyState]:
        """Keys that yours may manage."""
        params = {"owner": owner, "agent": agent}
        return (self._ask(wire.KeyPage, "GET", "keys", params=params, **options)).items

    def create_key(
        self,
        name: str,
        *,
        role: wire.KeyRole = "viewer",
        agent: str | None = None,
        owner: str | None = None,
        expires_in_s: float | None = None,
        **options: Unpack[CallOptions],
    ) -> wire.MadeKey:
        """Makes a key; its secret is shown this once."""
        given = leave_out_none(agent=agent, owner=owner, expires_in_s=expires_in_s)
        body = {"name": name, "role": role, **given}
        return self._ask(wire.MadeKey, "POST", "keys", body=body, **options)

    def rotate_key(
        self,
        key: str,
        *,
        overlap_s: float = 3600,
        expires_in_s: float | None = None,
        **options: Unpack[CallOptions],
    ) -> wire.MadeKey:
        """A new key for an old one, which works for a while longer."""
        body = {"overlap_s": overlap_s, **leave_out_none(expires_in_s=expires_in_s)}
        return self._ask(wire.MadeKey, "POST", "keys", key, "rotate", body=body, **options)

    def revoke_key(self, key: str, **options: Unpack[CallOptions]) -> wire.KeyState:
        """Ends a key."""
        return (self._ask(wire.OneKey, "POST", "keys", key, "revoke", **options)).key

    def invitations(self, **options: Unpack[CallOptions]) -> list[wire.InvitationState]:
        """Invitations that yours could have made."""
        return (self._ask(wire.InvitationPage, "GET", "invitations", **options)).items

    def invite(
        self,
        *,
        role: wire.InvitedRole = "agent",
        owner: str | None = None,
        uses: int | None = None,
        expires_in_s: float | None = None,
        **options: Unpack[CallOptions],
    ) -> wire.MadeInvitation:
        """An invitation; its code is shown this once."""
        given = leave_out_none(owner=owner, uses=uses, expires_in_s=expires_in_s)
        body = {"role": role, **given}
        return self._ask(wire.MadeInvitation, "POST", "invitations", body=body, **options)

    def accept(
        self,
        code: str,
        *,
        owner: str | None = None,
        agent: str | None = None,
        **options: Unpack[CallOptions],
    ) -> wire.MadeKey:
        """Takes an invitation up: a key of your own, and your agent registered.

        The key is made here, so that it is not lost with an answer; the server keeps its hash.
        """
        secret = f"tly_{secrets.token_urlsafe(32)}"
        body = leave_out_none(code=code, owner=owner, agent=agent, secret=secret)
        path = ("invitations", "accept")
        made = self._ask(wire.MadeKey, "POST", *path, body=body, **options)
        return made.model_copy(update={"secret": secret})

    def revoke_invitation(self, invitation: str, **options: Unpack[CallOptions]) -> None:
        """Nobody can accept it any more."""
        self._ask(Told, "POST", "invitations", invitation, "revoke", **options)

    def tenants(self, **options: Unpack[CallOptions]) -> list[wire.TenantState]:
        """For operators: who share the server, unseen by each other."""
        return (self._ask(wire.TenantPage, "GET", "tenants", **options)).items
