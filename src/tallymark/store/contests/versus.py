"""Red against blue: submissions, pairings, and verdicts that are given exactly once.

A submission, its pairings and their pending verdicts are stored in one transaction that holds the
lock of the challenge's row: of two racing submissions the second sees the first and pairs with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import msgspec
from sqlalchemy import case, exists, func, insert, literal, or_, select, update

from tallymark.challenges.attempt import Payload
from tallymark.challenges.versus.pairings import (
    OTHER_SIDE,
    BreachVerdict,
    Ruling,
    Side,
    SideSubmission,
    make_pairings,
    require_versus,
)
from tallymark.challenges.versus.standings import VersusTally
from tallymark.errors import Conflict, InvalidInput, NotFound
from tallymark.store.contests import agents, audit_log, challenges
from tallymark.store.contests.agents import have_one_owner, register_agent
from tallymark.store.contests.attempt_rows import make_digest
from tallymark.store.contests.audit_log import JUDGED, SENT
from tallymark.store.contests.tables import challenges as challenge_rows
from tallymark.store.contests.tables import (
    is_unjudged,
    versus_submissions,
    versus_verdicts,
)
from tallymark.store.database import TenantRows
from tallymark.store.dialects import json_text, make_storable
from tallymark.store.row_numbers import take_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection, Subquery, TextClause

    from tallymark.store.contests.challenges import StoredChallenge


_DAY = 86_400
_BEYOND = 2**63
_COLUMNS = {"agent": "player", "submitted_at": "at"}
"""Columns by the fields of a submission, where they are called otherwise."""
_SUBMISSION = [
    versus_submissions.c[_COLUMNS.get(name, name)].label(name)
    for name in SideSubmission.__struct_fields__
]
_VERDICT = [versus_verdicts.c[name] for name in BreachVerdict.__struct_fields__]


class VersusRows(TenantRows):
    """Submissions and verdicts; a `VersusStore`."""

    def submit(
        self, challenge: str, player: str, side: Side, content: Any, *, at: float
    ) -> SideSubmission:
        """Store a submission with a pending verdict for each pairing and category.

        Submitting the player's newest content on that side again changes nothing.
        """
        if side not in get_args(Side):
            raise InvalidInput(f"there is no side {side!r}", hint="choose red or blue")
        digest = make_digest(Payload(submission=content))

        def work(connection: Connection) -> SideSubmission:
            if refusal := agents.find_disqualification(connection, self._tenant, player):
                raise refusal
            register_agent(connection, self._tenant, player, at)
            kept = challenges.find_challenge(connection, self._tenant, challenge, lock=True)
            newest = _find_newest(connection, kept, side, player)
            if newest is not None and newest.digest == digest:
                return _read_submission(newest)
            number = 1 if newest is None else newest.number + 1
            _check_rules(connection, kept, (side, player, number), at)
            row = {
                "version": kept.challenge.version,
                "player": player,
                "side": side,
                "number": number,
                "at": at,
            }
            new = _insert_submission(
                connection, kept, row, digest=digest, content=json_text(content)
            )
            _pair_submission(connection, kept, new)
            note = {"agent": player, "side": side, "number": number}
            _write_log(connection, kept, SENT, at, player, note)
            return new

        return self._database.write(work)

    def content(self, submission: int) -> Any:
        """Content of a submission."""
        query = select(versus_submissions.c.content).where(
            versus_submissions.c.tenant == self._tenant, versus_submissions.c.id == submission
        )
        with self._database.read() as connection:
            text: str | None = connection.scalar(query)
        if text is None:
            raise NotFound(f"there is no submission {submission}")
        return msgspec.json.decode(text)

    def played_by(self, player: str) -> list[str]:
        """Name of challenges with a submission of this player."""
        query = (
            select(challenge_rows.c.name)
            .distinct()
            .join(versus_submissions, versus_submissions.c.challenge_id == challenge_rows.c.id)
            .where(
                challenge_rows.c.tenant == self._tenant,
                versus_submissions.c.player == make_storable(player),
            )
            # With all of its key a row is looked up.
            .where(versus_submissions.c.side.in_(get_args(Side)))
            .order_by(challenge_rows.c.name)
        )
        with self._database.snapshot() as snapshot:
            return list(snapshot.connection.scalars(query))

    def submissions(self, challenge: str) -> list[SideSubmission]:
        """Every attack and defence, oldest first."""
        return self.newest(challenge)[::-1]

    def newest(
        self,
        challenge: str,
        *,
        player: str | None = None,
        side: Side | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> list[SideSubmission]:
        """Attacks and defences, newest first: all, or those of a player or a side."""
        wanted = [
            column == value
            for column, value in (
                (versus_submissions.c.player, player),
                (versus_submissions.c.side, side),
            )
            if value is not None
        ]
        if before is not None:
            wanted.append(versus_submissions.c.id < before)
        with self._database.read() as connection:
            kept = challenges.find_challenge(connection, self._tenant, challenge)
            query = select(*_SUBMISSION).where(
                versus_submissions.c.challenge_id == kept.id, *wanted
            )
            found = connection.execute(query.order_by(versus_submissions.c.id.desc()).limit(limit))
            return [_read_submission(row) for row in found]

    def find(self, challenge: str, submission: int) -> SideSubmission:
        if not 0 < submission < _BEYOND:  # larger numbers do not fit the column
            raise explain_unknown_submission(challenge, submission)
        with self._database.read() as connection:
            kept = challenges.find_challenge(connection, self._tenant, challenge)
            query = select(*_SUBMISSION).where(
                versus_submissions.c.challenge_id == kept.id, versus_submissions.c.id == submission
            )
            row = connection.execute(query).one_or_none()
        if row is None:
            raise explain_unknown_submission(challenge, submission)
        return _read_submission(row)

    def verdicts(self, challenge: str, *, submission: int | None = None) -> list[BreachVerdict]:
        """All verdicts, or those of one submission, in the order in which they were made."""
        wanted: list[ColumnElement[bool] | TextClause] = []
        if submission is not None:
            wanted.append(_is_of(submission))
        return self._read_verdicts(challenge, wanted, None)

    def unjudged(
        self,
        challenge: str,
        *,
        failed: bool,
        limit: int | None = None,
        submission: int | None = None,
    ) -> list[BreachVerdict]:
        """Pending verdicts, optionally with failed ones, oldest first.

        Verdicts with a disqualified player, or between agents of one owner, are left out.
        """
        open_states = ["pending", "failed"] if failed else ["pending"]
        wanted: list[ColumnElement[bool] | TextClause] = [
            is_unjudged,
            versus_verdicts.c.state.in_(open_states),
            self._is_admitted(versus_verdicts.c.red),
            self._is_admitted(versus_verdicts.c.blue),
            self._have_two_owners(),
        ]
        if submission is not None:
            wanted.append(_is_of(submission))
        return self._read_verdicts(challenge, wanted, limit)

    def suspects(self, challenge: str) -> set[int]:
        """Submissions in verdicts where the judge failed."""
        with self._database.read() as connection:
            kept = challenges.find_challenge(connection, self._tenant, challenge)
            query = select(versus_verdicts.c.red, versus_verdicts.c.blue).where(
                versus_verdicts.c.challenge_id == kept.id,
                is_unjudged,
                versus_verdicts.c.state == "failed",
            )
            return {each for met in connection.execute(query) for each in met}

    def rule(
        self, rulings: Sequence[tuple[BreachVerdict, Ruling]], *, judge: str, at: float
    ) -> list[bool]:
        """Store rulings; return False for each whose verdict was judged already."""

        def work(connection: Connection) -> list[bool]:
            kept = self._lock_challenge(connection, rulings)
            stored = [
                _store_ruling(connection, self._tenant, verdict, _list_changes(ruling, judge, at))
                for verdict, ruling in rulings
            ]
            if kept is not None and any(stored):
                note = {"verdicts": sum(stored), "judge": judge}
                _write_log(connection, kept, JUDGED, at, audit_log.SYSTEM, note)
            return stored

        return self._database.write(work)

    def _lock_challenge(
        self, connection: Connection, rulings: Sequence[tuple[BreachVerdict, Ruling]]
    ) -> StoredChallenge | None:
        """Lock the challenge before its log is written, so that numbers grow in commit order."""
        query = select(versus_verdicts.c.challenge_id).where(
            versus_verdicts.c.tenant == self._tenant,
            versus_verdicts.c.red.in_([each.red for each, _ in rulings]),
        )
        found: int | None = connection.scalar(query.limit(1))
        if found is None:
            return None
        return challenges.find_challenge_by_id(connection, found, lock=True)

    def tallies(self, challenge: str, *, before: float | None = None) -> list[VersusTally]:
        """Count verdicts between players' newest submissions; `before` counts as of that time."""
        with self._database.read() as connection:
            kept = challenges.find_challenge(connection, self._tenant, challenge)
            red, blue = (
                _select_newest(kept, side, before)
                .where(agents.is_admitted(self._tenant, versus_submissions.c.player))
                .subquery(side)
                for side in get_args(Side)
            )
            one = have_one_owner(self._tenant, red.c.player, blue.c.player)
            return _read_tallies(connection, red, blue, before, ~one)

    def _is_admitted(self, submission: ColumnElement[int]) -> ColumnElement[bool]:
        return exists().where(
            versus_submissions.c.id == submission,
            agents.is_admitted(self._tenant, versus_submissions.c.player),
        )

    def _have_two_owners(self) -> ColumnElement[bool]:
        """Condition: different owners. One owner's agents could play for each other."""
        red, blue = versus_submissions.alias(), versus_submissions.alias()
        return ~exists().where(
            *(red.c.id == versus_verdicts.c.red, blue.c.id == versus_verdicts.c.blue),
            have_one_owner(self._tenant, red.c.player, blue.c.player),
        )

    def _read_verdicts(
        self, challenge: str, wanted: list[ColumnElement[bool] | TextClause], limit: int | None
    ) -> list[BreachVerdict]:
        with self._database.read() as connection:
            kept = challenges.find_challenge(connection, self._tenant, challenge)
            query = select(*_VERDICT).where(versus_verdicts.c.challenge_id == kept.id, *wanted)
            later = case(
                (versus_verdicts.c.red > versus_verdicts.c.blue, versus_verdicts.c.red),
                else_=versus_verdicts.c.blue,
            )
            order = (
                later,
                versus_verdicts.c.red,
                versus_verdicts.c.blue,
                versus_verdicts.c.category,
            )
            found = connection.execute(query.order_by(*order).limit(limit))
            return [BreachVerdict(**row) for row in found.mappings()]


def explain_unknown_submission(challenge: str, submission: int) -> NotFound:
    return NotFound(f"there is no submission {submission} to {challenge}", hint="check its number")


def _is_of(submission: int) -> ColumnElement[bool]:
    return or_(versus_verdicts.c.red == submission, versus_verdicts.c.blue == submission)


def _read_submission(row: Any) -> SideSubmission:
    return SideSubmission(**{name: getattr(row, name) for name in SideSubmission.__struct_fields__})


def _write_log(
    connection: Connection,
    kept: StoredChallenge,
    event: str,
    at: float,
    actor: str,
    note: dict[str, Any],
) -> None:
    entry = audit_log.AuditEntry(at=at, actor=actor, event=event, note=note)
    audit_log.write_entry(connection, kept.tenant, kept.id, None, entry)


def _find_newest(connection: Connection, kept: StoredChallenge, side: Side, player: str) -> Any:
    query = select(*_SUBMISSION, versus_submissions.c.digest).where(
        versus_submissions.c.challenge_id == kept.id,
        versus_submissions.c.side == side,
        versus_submissions.c.player == player,
    )
    return connection.execute(
        query.order_by(versus_submissions.c.number.desc()).limit(1)
    ).one_or_none()


def _check_rules(
    connection: Connection, kept: StoredChallenge, submission: tuple[Side, str, int], at: float
) -> None:
    """Check the challenge's kind, its times, and the player's quota."""
    challenge = kept.challenge
    require_versus(challenge)
    _check_times(kept, at)
    side, player, number = submission
    if challenge.attempts is not None and number > challenge.attempts:
        raise Conflict(
            f"{player} has made all {challenge.attempts} submissions as {side} at {challenge.name}"
        )
    if challenge.attempts_per_day is not None:
        today = select(func.count()).where(
            versus_submissions.c.challenge_id == kept.id,
            versus_submissions.c.side == side,
            versus_submissions.c.player == player,
            versus_submissions.c.at >= at - at % _DAY,
        )
        if (connection.scalar(today) or 0) >= challenge.attempts_per_day:
            raise Conflict(
                f"{player} has made all {challenge.attempts_per_day} submissions of today as {side}"
                f" at {challenge.name}",
                hint="the next day begins at midnight UTC",
            )


def _check_times(kept: StoredChallenge, at: float) -> None:
    challenge = kept.challenge
    if challenge.opens_at is not None and at < challenge.opens_at:
        raise Conflict(f"{challenge.name} is not open yet")
    planned = challenge.closes_at is not None and at >= challenge.closes_at
    if planned or kept.closed_at is not None:
        raise Conflict(f"{challenge.name} is closed")


def _insert_submission(
    connection: Connection, kept: StoredChallenge, row: dict[str, Any], **stored: str
) -> SideSubmission:
    number = take_number(connection, versus_submissions.name, kept.tenant)
    values = {"id": number, "tenant": kept.tenant, "challenge_id": kept.id, **row, **stored}
    connection.execute(insert(versus_submissions).values(values))
    return SideSubmission(
        id=number,
        **{name: row[_COLUMNS.get(name, name)] for name in SideSubmission.__struct_fields__[1:]},
    )


def _pair_submission(connection: Connection, kept: StoredChallenge, new: SideSubmission) -> None:
    """Store a pending verdict for each category of each pairing."""
    newest = _select_newest(kept, OTHER_SIDE[new.side], None).subquery()
    ours = have_one_owner(kept.tenant, literal(new.agent), versus_submissions.c.player)
    query = select(*_SUBMISSION).join(newest, newest.c.id == versus_submissions.c.id).where(~ours)
    others = [_read_submission(row) for row in connection.execute(query)]
    mine = {"tenant": kept.tenant, "challenge_id": kept.id}
    rows = [
        mine | msgspec.structs.asdict(BreachVerdict(red=red, blue=blue, category=category))
        for red, blue in make_pairings(new, others)
        for category in dict.fromkeys(require_versus(kept.challenge).categories)
    ]
    if rows:
        connection.execute(insert(versus_verdicts), rows)


def _list_changes(ruling: Ruling, judge: str, at: float) -> dict[str, Any]:
    """Column values of a ruling; an earlier error stays visible if this one has none."""
    failed = {} if ruling.error is None else {"error": ruling.error}
    if ruling.waiting:
        return failed
    return {
        "state": "failed" if failed else "judged",
        "breached": ruling.breached,
        "reason": ruling.reason,
        "judge": judge,
        "tries": versus_verdicts.c.tries + 1,
        "judged_at": at,
        **failed,
    }


def _store_ruling(
    connection: Connection, tenant: str, verdict: BreachVerdict, change: dict[str, Any]
) -> bool:
    # If judges race, the last condition lets one of them change the row.
    statement = update(versus_verdicts).where(
        versus_verdicts.c.tenant == tenant,
        versus_verdicts.c.red == verdict.red,
        versus_verdicts.c.blue == verdict.blue,
        versus_verdicts.c.category == verdict.category,
        versus_verdicts.c.state != "judged",
    )
    return connection.execute(statement.values(change)).rowcount == 1


def _select_newest(kept: StoredChallenge, side: Side, before: float | None) -> Any:
    """Id of every player's newest submission on a side, as of a time."""
    query = select(
        versus_submissions.c.player, func.max(versus_submissions.c.id).label("id")
    ).where(versus_submissions.c.challenge_id == kept.id, versus_submissions.c.side == side)
    if before is not None:
        query = query.where(versus_submissions.c.at < before)
    return query.group_by(versus_submissions.c.player)


def _read_tallies(
    connection: Connection,
    red: Subquery,
    blue: Subquery,
    before: float | None,
    counts: ColumnElement[bool],
) -> list[VersusTally]:
    known = versus_verdicts.c.state == "judged"
    broken = versus_verdicts.c.state == "failed"
    if before is not None:
        known &= versus_verdicts.c.judged_at < before
        broken &= versus_verdicts.c.judged_at < before

    def count(condition: ColumnElement[bool]) -> ColumnElement[int]:
        return func.sum(case((condition, 1), else_=0))

    query = (
        select(
            red.c.player.label("red"),
            blue.c.player.label("blue"),
            versus_verdicts.c.category,
            count(known & versus_verdicts.c.breached).label("breached"),
            count(known & ~versus_verdicts.c.breached).label("held"),
            count(~known).label("unjudged"),
            count(broken).label("broken"),
            count(broken & (red.c.id > blue.c.id)).label("completed_by_red"),
        )
        .select_from(versus_verdicts)
        .join(red, red.c.id == versus_verdicts.c.red)
        .join(blue, blue.c.id == versus_verdicts.c.blue)
        .where(counts)
        .group_by(red.c.player, blue.c.player, versus_verdicts.c.category)
        .order_by(red.c.player, blue.c.player, versus_verdicts.c.category)
    )
    return [VersusTally(**row) for row in connection.execute(query).mappings()]
