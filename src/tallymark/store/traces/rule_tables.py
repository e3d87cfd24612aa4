"""The tables of rules, of what they decided, and of scores of traces.

**Rules** have a name and a state, **rule_versions** what they say: editing adds a version.

**Scores.** `trace_scores` has one row for each trace version, rule version and name of a score (a
scorer may give several), so that nothing is scored twice whoever tries. A person's own score has
the rule 0 and the rule version 0, and its `author`; a rule's author is ''. `is_current` marks, for
each trace, name, rule and author, the newest one: that is what filters, lists and sums see. A new
version of the trace or the rule takes it over only with its own score. Of rules with one name, all
but one archived, only the newest one's count.

**Decisions.** `trace_decisions` says what each rule version did with each trace version and why.
A waiting one has its time (`due_at`) and, while it is being scored, what it has reserved of its
day. `backfill` is 0 for traces as they come: one worker at a time has those of a rule, and one has
each backfill.

**Days.** `rule_days` is one row per rule and day (UTC). Before a trace is scored, its share is
reserved there under the lock of the row, in the transaction that writes it to the decision: sums
never pass the cap, however many workers there are. With the score, what was reserved becomes what
was spent. What a dead worker had reserved counts as spent by whoever takes over: nobody knows
whether it was. The row also counts the day's decisions, so that lists need not.

**Backfills.** `rule_backfills` is how far each has come, and what was said of it before.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, Integer, PrimaryKeyConstraint, Table, Text

from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    JsonText,
    RowKey,
    metadata,
    partial_index,
)

DECIDED = ("scored", "failed", "filtered", "not_drawn", "capped")
"""What may become of a trace by a rule, once nothing is waited for."""

rules = Table(
    "rules",
    metadata,
    Column("id", RowKey, primary_key=True),
    Column("tenant", CodePointText, nullable=False),
    Column("name", CodePointText, nullable=False),
    Column("state", CodePointText, nullable=False),  # active, paused or deleted
    Column("version", Integer, nullable=False),  # rule_versions.number that counts
    Column("owner", CodePointText, nullable=False),
    Column("created_at", FiniteFloat, nullable=False),
    Column("changed_at", FiniteFloat, nullable=False),
    # What keeps it from scoring, for how many tries, and when it is tried again.
    Column("trouble", CodePointText),
    Column("failures", Integer, nullable=False),
    Column("again_at", FiniteFloat),
    partial_index("ux_rules_name", "tenant", "name", where="state <> 'deleted'", unique=True),
    sqlite_autoincrement=True,
)

rule_versions = Table(
    "rule_versions",
    metadata,
    Column("id", RowKey, primary_key=True),
    Column("tenant", CodePointText, nullable=False),
    Column("rule", RowKey, nullable=False),  # rules.id
    Column("number", Integer, nullable=False),
    Column("at", FiniteFloat, nullable=False),
    Column("author", CodePointText, nullable=False),
    Column("digest", CodePointText, nullable=False),  # of the definition
    Column("definition", JsonText, nullable=False),  # scorer, filter, rate, caps, quiet time
    Index("ux_rule_versions", "rule", "number", unique=True),
    sqlite_autoincrement=True,
)

trace_scores = Table(
    "trace_scores",
    metadata,
    Column("trace", RowKey, nullable=False),  # traces.key
    Column("version", Integer, nullable=False),  # of the trace
    Column("rule_version", RowKey, nullable=False),  # rule_versions.id; 0 is a person's own
    Column("name", CodePointText, nullable=False),
    Column("author", CodePointText, nullable=False),  # '' is the rule
    Column("tenant", CodePointText, nullable=False),
    Column("rule", RowKey, nullable=False),  # rules.id; 0 is a person's own
    Column("value", FiniteFloat),  # NULL: it could not be scored
    Column("label", CodePointText),
    Column("reason", CodePointText),
    Column("error", CodePointText),
    Column("metadata", Text),  # JSON
    Column("at", FiniteFloat, nullable=False),
    Column("cost", FiniteFloat),  # of the judge
    Column("started_at", FiniteFloat, nullable=False),  # of the trace, for sums over time
    Column("is_current", Boolean, nullable=False),
    PrimaryKeyConstraint(
        "trace", "version", "rule_version", "name", "author", name="pk_trace_scores"
    ),
    partial_index("ix_trace_scores_value", "tenant", "name", "value", "trace", where="is_current"),
    partial_index(
        "ix_trace_scores_time", "tenant", "name", "started_at", "value", "trace", where="is_current"
    ),
    partial_index(
        *("ix_trace_scores_people", "tenant", "name", "value", "trace"),
        where="is_current AND author <> ''",
    ),
)

trace_decisions = Table(
    "trace_decisions",
    metadata,
    Column("trace", RowKey, nullable=False),
    Column("version", Integer, nullable=False),
    Column("rule_version", RowKey, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("rule", RowKey, nullable=False),
    # scored, not_drawn, filtered, capped, failed or waiting
    Column("decision", CodePointText, nullable=False),
    Column("reason", CodePointText, nullable=False),
    Column("at", FiniteFloat, nullable=False),
    Column("due_at", FiniteFloat),  # of one that waits
    Column("tries", Integer, nullable=False),
    Column("backfill", RowKey, nullable=False),  # rule_backfills.id; 0 is as it came
    Column("day", CodePointText),  # rule_days.day on whose account it is
    Column("reserved", FiniteFloat),  # US dollars, while it is being scored
    Column("cost", FiniteFloat),  # what it came to
    PrimaryKeyConstraint("trace", "version", "rule_version", name="pk_trace_decisions"),
    Index("ix_trace_decisions_rule", "rule", "at"),
    partial_index(
        "ix_trace_decisions_waiting",
        *("rule", "backfill", "due_at"),
        where="decision = 'waiting'",
    ),
    sqlite_with_rowid=False,
)

rule_days = Table(
    "rule_days",
    metadata,
    Column("rule", RowKey, nullable=False),
    Column("day", CodePointText, nullable=False),  # 2026-01-31
    Column("tenant", CodePointText, nullable=False),
    *(Column(name, Integer, nullable=False) for name in DECIDED),
    Column("spent", FiniteFloat, nullable=False),
    Column("reserved_count", Integer, nullable=False),
    Column("reserved_cost", FiniteFloat, nullable=False),
    PrimaryKeyConstraint("rule", "day", name="pk_rule_days"),
    sqlite_with_rowid=False,
)

rule_backfills = Table(
    "rule_backfills",
    metadata,
    Column("id", RowKey, primary_key=True),
    Column("tenant", CodePointText, nullable=False),
    Column("rule", RowKey, nullable=False),
    Column("rule_version", RowKey, nullable=False),
    Column("author", CodePointText, nullable=False),
    Column("at", FiniteFloat, nullable=False),
    Column("since", FiniteFloat, nullable=False),  # of traces, by their beginning
    Column("until", FiniteFloat, nullable=False),
    Column("state", CodePointText, nullable=False),  # running, done, cancelled or superseded
    Column("job", CodePointText, nullable=False),  # jobs.id
    Column("expected", Integer, nullable=False),  # traces to be scored, as it was said before
    Column("expected_cost", FiniteFloat),
    Column("last_key", RowKey, nullable=False),  # traces.key up to which all are queued
    Column("queued", Integer, nullable=False),
    *(Column(name, Integer, nullable=False) for name in DECIDED),
    Column("spent", FiniteFloat, nullable=False),
    Index("ix_rule_backfills_rule", "rule", "id"),
    sqlite_autoincrement=True,
)
