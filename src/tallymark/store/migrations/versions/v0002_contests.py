"""Challenges, attempts, scores, boards, ratings, and the logs that are only ever added to."""

from alembic import op

from tallymark.store.contests import attempt_tables, contest_tables
from tallymark.store.schema import make_tables

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Makes the tables of the competition side."""
    make_tables(
        op.get_bind(),
        contest_tables.challenges,
        contest_tables.challenge_versions,
        attempt_tables.attempts,
        attempt_tables.attempt_details,
        contest_tables.idempotency,
        attempt_tables.attempt_scores,
        attempt_tables.scorings,
        attempt_tables.score_history,
        contest_tables.boards,
        contest_tables.board_blocks,
        contest_tables.ratings,
        contest_tables.rating_pairs,
        contest_tables.contest_audit,
    )
