"""Runs, their case results, variables and secrets."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None

_WORDS = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """Makes the first tables."""
    _runs()
    _case_results()
    op.create_table(
        "vars",
        sa.Column("tenant", _WORDS, nullable=False),
        sa.Column("name", _WORDS, nullable=False),
        sa.Column("value", _WORDS, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name", name="pk_vars"),
    )
    op.create_table(
        "secrets",
        sa.Column("tenant", _WORDS, nullable=False),
        sa.Column("name", _WORDS, nullable=False),
        sa.Column("key_id", _WORDS, nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name", name="pk_secrets"),
    )


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("tenant", _WORDS, nullable=False),
        sa.Column("id", _WORDS, nullable=False),
        sa.Column("suite", _WORDS, nullable=False),
        sa.Column("model", _WORDS, nullable=False),
        sa.Column("status", _WORDS, nullable=False),
        sa.Column("run_group", _WORDS),
        sa.Column("definition_hash", _WORDS, nullable=False),
        sa.Column("epochs", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double()),
        sa.Column("finished_at", sa.Double()),
        sa.Column("formula", _WORDS, nullable=False),
        sa.Column("score", sa.Double()),
        sa.Column("score_error", _WORDS),
        sa.Column("score_low", sa.Double()),
        sa.Column("score_high", sa.Double()),
        sa.Column("metrics", sa.Text(), nullable=False),
        sa.Column("passed", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("errors", sa.Integer(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("error", _WORDS),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("definition", _WORDS, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "id", name="pk_runs"),
    )
    op.create_index("ix_runs_created", "runs", ["tenant", "created_at"])


def _case_results() -> None:
    op.create_table(
        "case_results",
        sa.Column("tenant", _WORDS, nullable=False),
        sa.Column("run_id", _WORDS, nullable=False),
        sa.Column("case_name", _WORDS, nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("status", _WORDS, nullable=False),
        sa.Column("latency", sa.Double()),
        sa.Column("cost", sa.Double()),
        sa.Column("input_tokens", sa.BigInteger()),
        sa.Column("output_tokens", sa.BigInteger()),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("trace", sa.Text()),
        sa.PrimaryKeyConstraint("tenant", "run_id", "case_name", "epoch", name="pk_case_results"),
        sa.ForeignKeyConstraint(
            ["tenant", "run_id"],
            ["runs.tenant", "runs.id"],
            name="fk_case_results_run",
            ondelete="CASCADE",
        ),
    )
