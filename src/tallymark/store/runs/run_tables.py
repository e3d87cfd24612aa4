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

from tallymark.store.column_types import CodePointText, FiniteFloat, JsonText, metadata

runs = Table(
    "runs",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("id", CodePointText, nullable=False),
    Column("suite", CodePointText, nullable=False),
    Column("model", CodePointText, nullable=False),
    Column("status", CodePointText, nullable=False),
    Column("run_group", CodePointText, key="group"),  # GROUP is a word of SQL
    Column("definition_hash", CodePointText, nullable=False),
    Column("epochs", Integer, nullable=False),
    Column("created_at", FiniteFloat, nullable=False),
    Column("started_at", FiniteFloat),
    Column("finished_at", FiniteFloat),
    Column("formula", CodePointText, key="score_formula", nullable=False),
    Column("score", FiniteFloat),
    Column("score_error", CodePointText),
    Column("score_low", FiniteFloat),
    Column("score_high", FiniteFloat),
    Column("metrics", JsonText, nullable=False),
    Column("passed", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("errors", Integer, nullable=False),
    Column("total", Integer, nullable=False),
    Column("error", CodePointText),
    Column("tags", JsonText, nullable=False),
    Column("definition", CodePointText, nullable=False),
    PrimaryKeyConstraint("tenant", "id", name="pk_runs"),
    Index("ix_runs_created", "tenant", "created_at"),
)

# The bulky columns come last, so that a query for the others does not read them: see
# docs/decisions/0006-store.md.
case_results = Table(
    "case_results",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("run_id", CodePointText, nullable=False),
    Column("case_name", CodePointText, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("status", CodePointText, nullable=False),
    Column("latency", FiniteFloat),
    Column("cost", FiniteFloat),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("detail", Text, nullable=False),
    Column("trace", Text),
    # One more with each storing of the run: whoever follows it goes on after the last one seen.
    # Behind the bulky columns, but read from its index alone.
    Column("seq", Integer, nullable=False, server_default="0"),
    PrimaryKeyConstraint("tenant", "run_id", "case_name", "epoch", name="pk_case_results"),
    ForeignKeyConstraint(
        ["tenant", "run_id"],
        ["runs.tenant", "runs.id"],
        name="fk_case_results_run",
        ondelete="CASCADE",
    ),
    Index("ix_case_results_order", "tenant", "run_id", "seq"),
)
