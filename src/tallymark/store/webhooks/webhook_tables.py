"""The tables of webhooks. Something that happened is a delivery for each webhook that wants it."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKeyConstraint, Index, Integer, LargeBinary, Table
from sqlalchemy import PrimaryKeyConstraint as PrimaryKey

from tallymark.store.column_types import CodePointText, FiniteFloat, JsonText, RowKey, metadata

webhooks = Table(
    "webhooks",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("id", CodePointText, nullable=False),
    Column("url", CodePointText, nullable=False),
    Column("events", JsonText, nullable=False),
    Column("challenge", CodePointText),  # of this one alone; NULL is of all
    Column("suite", CodePointText),
    Column("state", CodePointText, nullable=False),
    Column("made_by", CodePointText, nullable=False),
    Column("created_at", FiniteFloat, nullable=False),
    # What signs is sealed, as other secrets are.
    Column("key_id", CodePointText, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    PrimaryKey("tenant", "id", name="pk_webhooks"),
)

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("number", RowKey, primary_key=True),  # the order in which they came
    Column("tenant", CodePointText, nullable=False),
    Column("webhook", CodePointText, nullable=False),
    Column("id", CodePointText, nullable=False),
    Column("event", CodePointText, nullable=False),
    # What happened, so that it is told once however often it is noticed.
    Column("occasion", CodePointText, nullable=False),
    Column("body", CodePointText, nullable=False),
    Column("created_at", FiniteFloat, nullable=False),
    Column("state", CodePointText, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("tried_at", FiniteFloat),
    Column("status", Integer),  # of the last answer; NULL where there was none
    Column("error", CodePointText),
    ForeignKeyConstraint(
        ["tenant", "webhook"],
        ["webhooks.tenant", "webhooks.id"],
        name="fk_webhook_deliveries",
        ondelete="CASCADE",
    ),
    Index("ux_webhook_deliveries_id", "tenant", "id", unique=True),
    Index("ux_webhook_deliveries_occasion", "tenant", "webhook", "occasion", unique=True),
    Index("ix_webhook_deliveries_order", "tenant", "webhook", "number"),
)

# Up to which entry of its log a challenge was told, and the record that was known then.
webhook_marks = Table(
    "webhook_marks",
    metadata,
    Column("challenge_id", RowKey, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("seq", RowKey, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("record", JsonText),
    PrimaryKey("challenge_id", name="pk_webhook_marks"),
)
