"""The tables of runs. Every row belongs to a tenant; `migrations/` makes what is declared here."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
)

from tallymark.store.column_types import Json, Number, Words, metadata

runs = Table(
    "runs",
    metadata,
    Column("tenant", Words, nullable=False),
    Column("id", Words, nullable=False),
    Column("suite", Words, nullable=False),
    Column("model", Words, nullable=False),
    Column("status", Words, nullable=False),
    Column("run_group", Words, key="group"),  # GROUP is a word of SQL
    Column("definition_hash", Words, nullable=False),
    Column("epochs", Integer, nullable=False),
    Column("created_at", Number, nullable=False),
    Column("started_at", Number),
    Column("finished_at", Number),
    Column("formula", Words, nullable=False),
    Column("score", Number),
    Column("score_error", Words),
    Column("score_low", Number),
    Column("score_high", Number),
    Column("metrics", Json, nullable=False),
    Column("passed", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("errors", Integer, nullable=False),
    Column("total", Integer, nullable=False),
    Column("error", Words),
    Column("tags", Json, nullable=False),
    Column("definition", Words, nullable=False),
    PrimaryKeyConstraint("tenant", "id", name="pk_runs"),
    Index("ix_runs_created", "tenant", "created_at"),
)

# The bulky columns come last, so that a query for the others does not read them: see
# docs/decisions/0006-store.md.
case_results = Table(
    "case_results",
    metadata,
    Column("tenant", Words, nullable=False),
    Column("run_id", Words, nullable=False),
    Column("case_name", Words, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("status", Words, nullable=False),
    Column("latency", Number),
    Column("cost", Number),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("detail", Text, nullable=False),
    Column("trace", Text),
    PrimaryKeyConstraint("tenant", "run_id", "case_name", "epoch", name="pk_case_results"),
    ForeignKeyConstraint(
        ["tenant", "run_id"],
        ["runs.tenant", "runs.id"],
        name="fk_case_results_run",
        ondelete="CASCADE",
    ),
)
