"""What was submitted, in the database: bulky, so apart from the attempts themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import insert, select

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.payload import Payload, encode_json
from tallymark.store.attempt_tables import attempt_details
from tallymark.store.text import make_storable

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row


def payload_row(payload: Payload) -> dict[str, Any]:
    """The columns of a payload; what JSON cannot carry is refused."""
    reported, trajectory = payload.reported, payload.trajectory
    return {
        "digest": payload.digest(),
        "submission": encode_json(payload.submission).decode(),
        "metadata": encode_json(payload.metadata).decode(),
        "reported": None if reported is None else encode_json(reported).decode(),
        "trajectory": None if trajectory is None else make_storable(trajectory),
    }


def insert_payload(connection: Connection, attempt: Row[Any], row: dict[str, Any]) -> None:
    """Stores the payload of an attempt. `attempt` is its row."""
    values = row | {"attempt": attempt.key, "tenant": attempt.tenant}
    connection.execute(insert(attempt_details).values(values))


def read_digest(connection: Connection, key: int) -> str | None:
    """The digest of what was submitted with an attempt."""
    found: str | None = connection.scalar(
        select(attempt_details.c.digest).where(attempt_details.c.attempt == key)
    )
    return found


def read_payload(connection: Connection, key: int) -> Payload | None:
    """What was submitted with an attempt; None when nothing was."""
    row = connection.execute(
        select(attempt_details).where(attempt_details.c.attempt == key)
    ).one_or_none()
    if row is None or row.digest is None:
        return None
    names = ("submission", "metadata", "reported")
    parts = {name: msgspec.Raw((getattr(row, name) or "null").encode()) for name in names}
    text = msgspec.json.encode(parts | {"trajectory": row.trajectory})
    return msgspec.json.decode(text, type=Payload)


def read_evaluation(connection: Connection, key: int) -> Evaluation | None:
    """What the evaluator found; None when the attempt was not evaluated here."""
    text = connection.scalar(
        select(attempt_details.c.evaluation).where(attempt_details.c.attempt == key)
    )
    return None if text is None else msgspec.json.decode(text, type=Evaluation)
