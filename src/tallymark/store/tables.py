"""The tables. Every row belongs to a tenant; `migrations/` makes what is declared here.

Times are seconds since 1970, UTC, as floats: the same on both databases and in the records.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeDecorator

from tallymark.store.text import json_text, storable

if TYPE_CHECKING:
    from sqlalchemy import Dialect
    from sqlalchemy.types import TypeEngine


class Words(TypeDecorator[str]):
    """Text that is compared and sorted by code points on every database."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """PostgreSQL would otherwise sort by the server's language."""
        return postgresql.TEXT(collation="C") if dialect.name == "postgresql" else Text()

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Text on its way in."""
        return None if value is None else storable(value)


class Number(TypeDecorator[float]):
    """A float, or NULL when it is not known; one that is not finite is not known."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:  # noqa: ARG002
        """A number on its way in."""
        return value if value is not None and math.isfinite(value) else None


class Json(TypeDecorator[Any]):
    """Plain data as JSON text: never searched by the database, so it need not be understood."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:  # noqa: ARG002
        """Data on its way in."""
        return json_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002
        """Data on its way out."""
        return None if value is None else msgspec.json.decode(value)


metadata = MetaData()

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

variables = Table(
    "vars",
    metadata,
    Column("tenant", Words, nullable=False),
    Column("name", Words, nullable=False),
    Column("value", Words, nullable=False),
    PrimaryKeyConstraint("tenant", "name", name="pk_vars"),
)

secrets = Table(
    "secrets",
    metadata,
    Column("tenant", Words, nullable=False),
    Column("name", Words, nullable=False),
    Column("key_id", Words, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant", "name", name="pk_secrets"),
)
