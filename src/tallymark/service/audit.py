"""The audit log: what organisers, admins and operators did, and why."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tallymark.service.callers import ORGANISERS
from tallymark.service.cursors import Cursor, Limit, read_cursor, write_cursor
from tallymark.service.operations import Page, Resource, operation
from tallymark.store.contests.audit_log import HIDDEN as HIDDEN  # noqa: PLC0414 (records here)
from tallymark.store.contests.audit_log import AuditEntry as AuditEntry  # noqa: PLC0414
from tallymark.store.contests.audit_log import LogEntry as LogEntry  # noqa: PLC0414

Name = Annotated[str, Meta(max_length=200)]
Moment = Annotated[float, Meta(description="Seconds since 1970, UTC.")]


class Audit(Resource):
    """The audit log of a tenant."""

    @operation("GET /audit", ORGANISERS)
    def list(  # noqa: PLR0913, PLR0917 (the filters of the log)
        self,
        challenge: Name | None = None,
        agent: Annotated[str, Meta(max_length=40)] | None = None,
        actor: Name | None = None,
        event: Annotated[str, Meta(max_length=40)] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: Limit = 100,
        cursor: Cursor | None = None,
    ) -> Page[LogEntry]:
        """List what was done, by whom, why and from where, newest first."""
        before = read_cursor(cursor, int)
        if not self.store.exists:
            return Page(items=[])
        found = self.store.audit_log.entries(
            challenge=challenge,
            agent=agent,
            actor=actor,
            event=event,
            earliest=since,
            latest=until,
            before=before[0] if before else None,
            limit=limit + 1,
        )
        following = write_cursor(found[limit - 1].seq) if len(found) > limit else None
        return Page(items=found[:limit], next=following)
