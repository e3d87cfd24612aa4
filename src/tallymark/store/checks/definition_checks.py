"""Challenges: what counts is what was published under its version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import select

from tallymark.challenges.challenge import Challenge
from tallymark.store.contests.tables import challenge_versions, challenges

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tallymark.store.checks.findings import Findings
    from tallymark.store.contests.challenges import StoredChallenge

KIND = "challenges"
_decode = msgspec.json.Decoder(Challenge).decode


def check_definition(connection: Connection, kept: StoredChallenge, findings: Findings) -> None:
    """The definition that counts, by the one that is kept for good."""
    findings.note_checked(KIND)
    subject = f"challenge {kept.challenge.name}"
    counts = connection.execute(
        select(challenges.c.version, challenges.c.published_at).where(challenges.c.id == kept.id)
    ).one()
    query = select(challenge_versions.c.definition, challenge_versions.c.published_at)
    mine = challenge_versions.c.challenge_id == kept.id
    published = connection.execute(
        query.where(mine, challenge_versions.c.version == counts.version)
    ).first()
    if published is None:
        findings.add(KIND, kept.tenant, subject, "version", counts.version, "one that is kept")
        return
    if published.published_at != counts.published_at:
        # A later Tallymark may have read more in the same files.
        findings.note_skipped("definitions that were published again")
        return
    told, should = (
        msgspec.to_builtins(each) for each in (kept.challenge, _decode(published.definition))
    )
    # Defaults are left out: what only one of the two says is a difference as well.
    findings.compare(KIND, kept.tenant, subject, told, dict.fromkeys(told) | should)
