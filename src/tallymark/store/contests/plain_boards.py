"""Questions about a plain board, each in one statement: on PostgreSQL a statement is a round trip.

A board is plain where everybody who has a row on it is shown: nobody of the tenant is disqualified,
and it does not show one agent per owner. Of any other, of an unknown challenge and of what is empty
these find no rows, and `boards` asks step by step. See
docs/decisions/0064-boards-in-one-statement.md.
"""

from __future__ import annotations

from sqlalchemy import text

from tallymark.store.quick_statements import QuickSelect

_BOARD = "challenge_id = (SELECT id FROM shown) AND edition = (SELECT edition FROM shown)"
_SPOT = "place, submitted_at, attempt"
_BACKWARD = "place DESC, submitted_at DESC, attempt DESC"
_ROW = f"{_SPOT}, agent, value, score, tries"
_SHOWN = """
    shown AS MATERIALIZED (
        SELECT id, CASE WHEN frozen_at IS NOT NULL AND :is_public THEN 0 ELSE edition END AS edition
        FROM challenges
        WHERE tenant = :whose AND name = :called AND coalesce(one_per, '') <> 'owner'
          AND NOT EXISTS (SELECT 1 FROM disqualified_agents WHERE tenant = :whose)
    )
"""
# Looked up for the rows that are shown alone, not for those that are passed over.
_LEVEL = "(SELECT trajectory_level FROM attempts WHERE key = found.attempt)"


def _write(query: str) -> QuickSelect:
    return QuickSelect(text(query))


FIRST_PAGE = _write(f"""
    WITH {_SHOWN}
    SELECT {_ROW}, {_LEVEL} FROM (
        SELECT {_ROW} FROM boards WHERE {_BOARD} ORDER BY {_SPOT} LIMIT :most
    ) AS found ORDER BY {_SPOT}
""")  # noqa: S608
"""So many rows from the best down."""

LATER_PAGE = _write(f"""
    WITH {_SHOWN}, block AS MATERIALIZED (
        SELECT {_SPOT}, ahead FROM (
            SELECT {_SPOT}, sum(size) OVER (ORDER BY {_SPOT}) - size AS ahead
            FROM board_blocks WHERE {_BOARD}
        ) AS summed WHERE ahead <= :skipped ORDER BY {_BACKWARD} LIMIT 1
    )
    SELECT {_ROW}, {_LEVEL} FROM (
        SELECT {_ROW} FROM boards WHERE {_BOARD} AND ({_SPOT}) >= (SELECT {_SPOT} FROM block)
        ORDER BY {_SPOT} LIMIT :most OFFSET :skipped - coalesce((SELECT ahead FROM block), 0)
    ) AS found ORDER BY {_SPOT}
""")  # noqa: S608
"""The same after some that are skipped."""

_HERE = "challenge_id = mine.challenge_id AND edition = mine.edition"
_RANK = f"""
    SELECT 1 + (
        SELECT coalesce(sum(size), 0) FROM board_blocks
        WHERE {_HERE} AND ({_SPOT}) < (block.place, block.submitted_at, block.attempt)
    ) + (
        SELECT count(*) FROM boards
        WHERE {_HERE} AND ({_SPOT}) >= (block.place, block.submitted_at, block.attempt)
          AND ({_SPOT}) < (mine.place, mine.submitted_at, mine.attempt)
    ) FROM (
        SELECT {_SPOT} FROM board_blocks
        WHERE {_HERE} AND ({_SPOT}) <= (mine.place, mine.submitted_at, mine.attempt)
        ORDER BY {_BACKWARD} LIMIT 1
    ) AS block
"""  # noqa: S608
"""One more than the rows before the block that holds a row, and those in it before that row."""
_MINE = f"SELECT * FROM boards WHERE {_BOARD} AND agent = :agent"  # noqa: S608

PLACE = _write(f"""
    WITH {_SHOWN}
    SELECT {_ROW}, {_LEVEL.replace("found", "mine")}, ({_RANK}) FROM ({_MINE}) AS mine
""")  # noqa: S608
"""An agent's row, with its rank at the end."""

NEIGHBOURS = _write(f"""
    WITH {_SHOWN}, mine AS MATERIALIZED ({_MINE})
    SELECT {_ROW}, {_LEVEL}, (SELECT ({_RANK}) FROM mine) FROM (
        SELECT * FROM (
            SELECT {_ROW} FROM boards WHERE {_BOARD} AND ({_SPOT}) < (SELECT {_SPOT} FROM mine)
            ORDER BY {_BACKWARD} LIMIT :most
        ) AS before
        UNION ALL SELECT {_ROW} FROM mine
        UNION ALL SELECT * FROM (
            SELECT {_ROW} FROM boards WHERE {_BOARD} AND ({_SPOT}) > (SELECT {_SPOT} FROM mine)
            ORDER BY {_SPOT} LIMIT :most
        ) AS behind
    ) AS found
""")  # noqa: S608
"""An agent's row and so many on either side, each with that agent's rank at the end.

In any order: PostgreSQL takes longer to put so few in theirs than the caller does.
"""

SIZE = _write(f"""
    WITH {_SHOWN} SELECT sum(size) FROM board_blocks WHERE {_BOARD} HAVING sum(size) > 0
""")  # noqa: S608
"""How many agents there are."""
