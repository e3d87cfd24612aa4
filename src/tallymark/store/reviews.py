"""People's own scores and comments on cases; each change by its author is logged.

A person has one score of each name for a case, which they may change or withdraw, and any number of
comments. A withdrawn one stays as a row that nothing shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import msgspec
from sqlalchemy import (
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    and_,
    exists,
    or_,
    select,
    update,
)

from tallymark.errors import InvalidInput, NotAllowed, NotFound
from tallymark.runs.reviews import COMMENT, CaseKey, GivenScore, Review
from tallymark.store.case_results import case_results
from tallymark.store.case_results import case_results as results
from tallymark.store.contests.audit_log import write_account_entry
from tallymark.store.database import TenantRows
from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    RowKey,
    dialect_insert,
    lock_rows,
    metadata,
    partial_index,
)
from tallymark.store.row_numbers import take_number
from tallymark.store.runs import run_rows
from tallymark.text import clean_line

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, RowMapping


review_rows = Table(
    "reviews",
    metadata,
    Column("id", RowKey, primary_key=True),
    Column("tenant", CodePointText, nullable=False),
    Column("run_id", CodePointText, nullable=False),
    Column("case_name", CodePointText, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("name", CodePointText, nullable=False),
    Column("author", CodePointText, nullable=False),
    Column("value", FiniteFloat),
    Column("label", CodePointText),
    Column("comment", CodePointText, nullable=False),
    Column("created_at", FiniteFloat, nullable=False),
    Column("changed_at", FiniteFloat, nullable=False),
    Column("withdrawn_at", FiniteFloat),
    ForeignKeyConstraint(
        ["tenant", "run_id"],
        ["runs.tenant", "runs.id"],
        name="fk_reviews_run",
        ondelete="CASCADE",
    ),
    partial_index(
        "ux_reviews_author",
        *("tenant", "run_id", "case_name", "epoch", "name", "author"),
        where=f"withdrawn_at IS NULL AND name <> '{COMMENT}'",
        unique=True,
    ),
    Index("ix_reviews_case", "tenant", "run_id", "case_name", "epoch"),
    Index("ix_reviews_order", "tenant", "id"),
    sqlite_autoincrement=True,
)
_LOOKED_INTO = 100
"""Results of a run that are searched for judged ones: a run of 100,000 is not read completely."""
_MARKS = ('"judge":{', '"kind":"llm_judge"')


def _is_judged() -> ColumnElement[bool]:
    return or_(*(results.c.detail.contains(mark, autoescape=True) for mark in _MARKS))


def list_judged_runs(
    connection: Connection, tenant: str, suite: str | None, *, newest: int, limit: int
) -> list[str]:
    """Newest runs that have results judged by a model."""
    query = select(run_rows.c.id).where(run_rows.c.tenant == tenant)
    if suite is not None:
        query = query.where(run_rows.c.suite == suite)
    query = query.order_by(run_rows.c.created_at.desc(), run_rows.c.id.desc()).limit(newest)
    found: list[str] = []
    for run in connection.scalars(query).all():
        if len(found) == limit:
            break
        first = (
            select(results.c.detail)
            .where(results.c.tenant == tenant, results.c.run_id == run)
            .order_by(results.c.case_name, results.c.epoch)
            .limit(_LOOKED_INTO)
            .subquery()
        )
        marked = or_(*(first.c.detail.contains(mark, autoescape=True) for mark in _MARKS))
        if connection.scalar(select(exists(select(1).select_from(first).where(marked)))):
            found.append(run)
    return found


def list_unseen(connection: Connection, tenant: str, run: str, limit: int) -> list[tuple[str, int]]:
    """Judged results of a run without a person's score, by case and epoch."""
    seen = exists().where(
        and_(
            review_rows.c.tenant == tenant,
            review_rows.c.run_id == run,
            review_rows.c.case_name == results.c.case_name,
            review_rows.c.epoch == results.c.epoch,
            review_rows.c.withdrawn_at.is_(None),
            review_rows.c.name != COMMENT,
        )
    )
    query = (
        select(results.c.case_name, results.c.epoch)
        .where(results.c.tenant == tenant, results.c.run_id == run, _is_judged(), ~seen)
        .order_by(results.c.case_name, results.c.epoch)
        .limit(limit)
    )
    return [(case, epoch) for case, epoch in connection.execute(query)]


_LONGEST_NOTE = 400
_BEYOND = 2**63


class ReviewFilter(TypedDict, total=False):
    """Filters of a list of reviews; None is any."""

    run: str | None
    case: str | None
    epoch: int | None
    name: str | None
    author: str | None
    before: int | None
    """A number: those that were given before it."""


_COLUMNS = {
    "run": review_rows.c.run_id,
    "case": review_rows.c.case_name,
    "epoch": review_rows.c.epoch,
    "name": review_rows.c.name,
    "author": review_rows.c.author,
}


def read_number(identifier: str) -> int | None:
    """Number in an id such as `s12`; None if it is no such id."""
    digits = identifier.removeprefix("s")
    known = identifier.startswith("s") and digits.isascii() and digits.isdigit()
    return int(digits) if known and int(digits) < _BEYOND else None


class Reviews(TenantRows):
    def give(
        self, key: CaseKey, author: str, given: GivenScore, *, at: float
    ) -> tuple[Review, bool]:
        """Store a score in place of the author's own of that name; also return if it is new."""
        said = given.check()

        def work(connection: Connection) -> tuple[Review, bool]:
            self.require_case(connection, key)
            row = {
                "id": take_number(connection, review_rows.name, self._tenant),
                "tenant": self._tenant,
                "run_id": key.run,
                "case_name": key.case,
                "epoch": key.epoch,
                "author": author,
                **msgspec.structs.asdict(said),
                "created_at": at,
                "changed_at": at,
            }
            statement = dialect_insert(connection, review_rows).values(row).on_conflict_do_nothing()
            number = connection.scalar(statement.returning(review_rows.c.id))
            if number is not None:
                new = self._require_own(connection, f"s{number}", author)
                self._log(connection, "score given", new, at)
                return new, True
            mine = self._find(connection, key, said.name, author)
            return self._change(connection, mine, said, at), False

        return self._database.write(work)

    def change(self, identifier: str, author: str, given: GivenScore, *, at: float) -> Review:
        """Change a review of this author, under its name."""

        def work(connection: Connection) -> Review:
            mine = self._require_own(connection, identifier, author)
            said = msgspec.structs.replace(given, name=mine.name).check()
            if said.name != mine.name:
                raise InvalidInput(
                    f"{identifier} is the score {mine.name!r}, and needs a value or a label",
                    hint="or withdraw it",
                )
            return self._change(connection, mine, said, at)

        return self._database.write(work)

    def withdraw(self, identifier: str, author: str, *, at: float) -> Review:
        """Withdraw a review of this author."""

        def work(connection: Connection) -> Review:
            mine = self._require_own(connection, identifier, author)
            query = update(review_rows).where(review_rows.c.id == read_number(mine.id))
            connection.execute(query.values(withdrawn_at=at))
            self._log(connection, "score withdrawn", mine, at)
            return mine

        return self._database.write(work)

    def all(self, *, limit: int = 100, **filters: Unpack[ReviewFilter]) -> list[Review]:
        """Reviews, newest first, without withdrawn ones."""
        if not self._database.look():
            return []
        query = select(review_rows).where(
            review_rows.c.tenant == self._tenant, review_rows.c.withdrawn_at.is_(None)
        )
        for name, value in filters.items():
            if value is not None:
                query = query.where(
                    review_rows.c.id < value if name == "before" else _COLUMNS[name] == value
                )
        with self._database.read() as connection:
            rows = connection.execute(
                query.order_by(review_rows.c.id.desc()).limit(limit)
            ).mappings()
            return [_read(row) for row in rows]

    def of_cases(self, run: str, keys: Iterable[tuple[str, int]]) -> list[Review]:
        """Reviews of some cases of a run, oldest first."""
        wanted = set(keys)
        if not wanted or not self._database.look():
            return []
        query = select(review_rows).where(
            review_rows.c.tenant == self._tenant,
            review_rows.c.withdrawn_at.is_(None),
            review_rows.c.run_id == run,
            review_rows.c.case_name.in_({case for case, _ in wanted}),
        )
        with self._database.read() as connection:
            found = [
                _read(row)
                for row in connection.execute(query.order_by(review_rows.c.id)).mappings()
            ]
        return [each for each in found if (each.case, each.epoch) in wanted]

    def judged_runs(
        self, suite: str | None = None, *, newest: int = 40, limit: int = 8
    ) -> list[str]:
        """Newest runs that have cases judged by a model."""
        with self._database.read() as connection:
            return list_judged_runs(connection, self._tenant, suite, newest=newest, limit=limit)

    def unseen(self, run: str, limit: int) -> list[tuple[str, int]]:
        """Judged cases of a run, with their epochs, without a person's score."""
        with self._database.read() as connection:
            return list_unseen(connection, self._tenant, run, limit)

    def require_case(self, connection: Connection, key: CaseKey) -> None:
        """Refuse a case without a result."""
        here = exists().where(
            case_results.c.tenant == self._tenant,
            case_results.c.run_id == key.run,
            case_results.c.case_name == key.case,
            case_results.c.epoch == key.epoch,
        )
        if not connection.scalar(select(here)):
            case = clean_line(key.case, 80)
            raise NotFound(
                f"the run {clean_line(key.run, 40)!r} has no result of the case {case!r}",
                hint="only what has run can be scored",
            )

    def _find(self, connection: Connection, key: CaseKey, name: str, author: str) -> Review:
        """The author's stored review of that name."""
        query = (
            select(review_rows)
            .where(review_rows.c.tenant == self._tenant, review_rows.c.run_id == key.run)
            .where(review_rows.c.case_name == key.case, review_rows.c.epoch == key.epoch)
            .where(
                review_rows.c.name == name,
                review_rows.c.author == author,
                review_rows.c.withdrawn_at.is_(None),
            )
        )
        return _read(connection.execute(lock_rows(query)).mappings().one())

    def _require_own(self, connection: Connection, identifier: str, author: str) -> Review:
        query = select(review_rows).where(
            review_rows.c.tenant == self._tenant,
            review_rows.c.id == (read_number(identifier) or 0),
            review_rows.c.withdrawn_at.is_(None),
        )
        row = connection.execute(lock_rows(query)).mappings().one_or_none()
        if row is None:
            raise NotFound(f"there is no score {clean_line(identifier, 40)!r}")
        if row["author"] != author:
            raise NotAllowed(f"{identifier} is another's", hint="give your own beside it")
        return _read(row)

    def _change(self, connection: Connection, mine: Review, said: GivenScore, at: float) -> Review:
        changes = {"value": said.value, "label": said.label, "comment": said.comment}
        if all(getattr(mine, name) == value for name, value in changes.items()):
            return mine
        query = update(review_rows).where(review_rows.c.id == read_number(mine.id))
        connection.execute(query.values(**changes, changed_at=at))
        new = msgspec.structs.replace(mine, **changes, changed_at=at)
        was = {name: value for name, value in _tell(mine).items() if value != _tell(new)[name]}
        self._log(connection, "score changed", new, at, was=was)
        return new

    def _log(
        self, connection: Connection, event: str, review: Review, at: float, **more: Any
    ) -> None:
        facts = {"score": review.id, "run": review.run, "case": review.case, "name": review.name}
        write_account_entry(
            connection, self._tenant, event, at, **facts, author=review.author, **_tell(review),
            **more,
        )  # fmt: skip


def _tell(review: Review) -> dict[str, Any]:
    comment = clean_line(review.comment, _LONGEST_NOTE)
    return {"value": review.value, "label": review.label, "comment": comment}


def _read(row: RowMapping) -> Review:
    names = ("epoch", "name", "author", "value", "label", "comment", "created_at", "changed_at")
    return Review(
        id=f"s{row['id']}",
        run=row["run_id"],
        case=row["case_name"],
        **{name: row[name] for name in names},
    )
