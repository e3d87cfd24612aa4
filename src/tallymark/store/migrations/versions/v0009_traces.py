"""Production traces, the rules that score them, and spans that witness attempts."""

from alembic import op

from tallymark.store.schema import make_tables
from tallymark.store.traces import rule_tables, trace_tables

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Makes the tables, all of them new."""
    make_tables(
        op.get_bind(),
        trace_tables.traces,
        trace_tables.trace_segments,
        trace_tables.trace_versions,
        trace_tables.labels,
        trace_tables.trace_labels,
        trace_tables.attempt_spans,
        trace_tables.witness_secrets,
        rule_tables.rules,
        rule_tables.rule_versions,
        rule_tables.trace_scores,
        rule_tables.trace_decisions,
        rule_tables.rule_days,
        rule_tables.rule_backfills,
    )
