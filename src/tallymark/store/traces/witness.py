"""Witnessed spans: those that carry the token of an open attempt, stored while it runs.

A token is derived from a secret of the tenant and the attempt's id, so entering again gives the
same one, and none is stored. Rows are only added while the attempt is open, under its lock.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b32encode
from typing import TYPE_CHECKING, NamedTuple

from tallymark.store.contests.attempt_rows import TOO_MANY_BYTES, attempt_key, count_agent_bytes
from tallymark.store.contests.tables import witness_secrets
from tallymark.store.database import TenantRows
from tallymark.store.dialects import insert_once
from tallymark.store.quick_statements import QuickStatements
from tallymark.store.traces.segments import measure_body, unpack_groups

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tallymark.store.traces.trace_batch import WitnessedPiece
    from tallymark.traces.otlp_export import SpanGroup


MOST_SPANS = 20_000
"""Limit for one attempt."""
MOST_BYTES = 16 * 2**20
"""Limit for one attempt, unpacked: that of a trajectory."""
_BEGIN = "tlw_"
_OPEN = "SELECT agent, expires_at FROM attempts WHERE tenant = ? AND key = ? AND state = 'entered'"
_SO_FAR = (
    "SELECT coalesce(max(number), 0), coalesce(sum(spans), 0), coalesce(sum(bytes), 0)"
    " FROM attempt_spans WHERE attempt = ?"
)
_READ = "SELECT secret FROM witness_secrets WHERE tenant = ?"
_NAMES = ("attempt", "number", "tenant", "at", "spans", "body", "bytes")


class WitnessedSpans(NamedTuple):
    """Spans of an attempt in one request, and the server's time of its arrival."""

    at: float
    groups: list[SpanGroup]


class Witness(TenantRows):
    _secret: bytes | None = None

    def make_token(self, attempt_id: str) -> str:
        """Make the token that an agent puts on its spans as `tally.attempt`; it is a secret of the
        agent.
        """
        return f"{_BEGIN}{attempt_id}_{self._sign(attempt_id)}"

    def read_token(self, token: object) -> str | None:
        """The attempt of a token; None for anything else."""
        if not isinstance(token, str) or not token.startswith(_BEGIN) or not token.isascii():
            return None
        attempt_id, _, signature = token.removeprefix(_BEGIN).partition("_")
        if attempt_key(attempt_id) is None:
            return None
        return attempt_id if hmac.compare_digest(signature, self._sign(attempt_id)) else None

    def read(self, attempt_id: str) -> list[WitnessedSpans]:
        """All witnessed spans of an attempt, in the order of arrival."""
        query = (
            "SELECT at, body FROM attempt_spans WHERE tenant = ? AND attempt = ? ORDER BY number"
        )
        with self._database.statement() as statements:
            rows = statements.read(query, self._tenant, attempt_key(attempt_id))
        return [WitnessedSpans(at, unpack_groups(bytes(body))) for at, body in rows]

    def _sign(self, attempt_id: str) -> str:
        if self._secret is None:
            # Missing only for the first token; a snapshot may be open, which forbids writing.
            self._secret = self._read_secret() or self._database.write(self._make_secret)
        said = f"{self._tenant}\0{attempt_id}".encode()
        return b32encode(hmac.digest(self._secret, said, hashlib.sha256)).decode().lower()[:32]

    def _read_secret(self) -> bytes | None:
        with self._database.statement() as statements:
            found = statements.read(_READ, self._tenant)
        return bytes(found[0][0]) if found else None

    def _make_secret(self, connection: Connection) -> bytes:
        row = {"tenant": self._tenant, "secret": secrets.token_bytes(32)}
        insert_once(connection, witness_secrets, row)
        return bytes(QuickStatements(connection).read(_READ, self._tenant)[0][0])


def keep_witnessed(
    statements: QuickStatements, tenant: str, at: float, piece: WitnessedPiece
) -> str | None:
    """Store spans of an attempt; return the reason if they are refused."""
    key = attempt_key(piece.attempt)
    lock = " FOR UPDATE" if statements.is_postgres else ""
    found = statements.read(_OPEN + lock, tenant, key)
    if not found or at >= found[0][1]:
        return "their attempt is not open"
    if piece.agent is not None and piece.agent != found[0][0]:
        return "their attempt is another agent's"
    number, spans, size = statements.read(_SO_FAR, key)[0]
    if spans + piece.spans > MOST_SPANS:
        return f"an attempt has at most {MOST_SPANS:,} spans"
    own = measure_body(piece.body)
    if size + own > MOST_BYTES:
        return f"an attempt has at most {MOST_BYTES:,} bytes of spans"
    if not count_agent_bytes(statements, tenant, found[0][0], at, len(piece.body)):
        return TOO_MANY_BYTES
    row = (key, number + 1, tenant, at, piece.spans, piece.body, own)
    statements.insert("attempt_spans", _NAMES, [row])
    return None
