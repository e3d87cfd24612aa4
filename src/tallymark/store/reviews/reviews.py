"""People's own scores of cases: given, changed and withdrawn by their author, each in the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import msgspec
from sqlalchemy import exists, select, update

from tallymark.errors import InvalidInput, NotAllowed, NotFound
from tallymark.runs.reviews import CaseKey, GivenScore, Review
from tallymark.store.contests.audit_log import write_account_entry
from tallymark.store.database import TenantRows
from tallymark.store.database_dialects import dialect_insert, lock_rows
from tallymark.store.reviews import judged_cases
from tallymark.store.reviews.review_tables import reviews as table
from tallymark.store.row_numbers import take_number
from tallymark.store.runs.run_tables import case_results
from tallymark.text import clean_line

if TYPE_CHECKING:
    from sqlalchemy import Connection, RowMapping

_LONGEST_NOTE = 400
_BEYOND = 2**63


class ReviewFilter(TypedDict, total=False):
    """Which to list; None is as if it were not there."""

    run: str | None
    case: str | None
    epoch: int | None
    name: str | None
    author: str | None
    before: int | None
    """A number: those that were given before it."""


_COLUMNS = {
    "run": table.c.run_id,
    "case": table.c.case_name,
    "epoch": table.c.epoch,
    "name": table.c.name,
    "author": table.c.author,
}


def read_number(identifier: str) -> int | None:
    """The number in an id such as `s12`; None where it is no such id."""
    digits = identifier.removeprefix("s")
    known = identifier.startswith("s") and digits.isascii() and digits.isdigit()
    return int(digits) if known and int(digits) < _BEYOND else None


class Reviews(TenantRows):
    """What `store.reviews` is."""

    def give(
        self, key: CaseKey, author: str, given: GivenScore, *, at: float
    ) -> tuple[Review, bool]:
        """Keeps a score, in place of the author's own of that name; True where it is new."""
        said = given.check()

        def work(connection: Connection) -> tuple[Review, bool]:
            self.require_case(connection, key)
            row = {
                "id": take_number(connection, table.name, self._tenant),
                "tenant": self._tenant,
                "run_id": key.run,
                "case_name": key.case,
                "epoch": key.epoch,
                "author": author,
                **msgspec.structs.asdict(said),
                "created_at": at,
                "changed_at": at,
            }
            statement = dialect_insert(connection, table).values(row).on_conflict_do_nothing()
            number = connection.scalar(statement.returning(table.c.id))
            if number is not None:
                new = self._require_own(connection, f"s{number}", author)
                self._log(connection, "score given", new, at)
                return new, True
            mine = self._find(connection, key, said.name, author)
            return self._change(connection, mine, said, at), False

        return self._database.write(work)

    def change(self, identifier: str, author: str, given: GivenScore, *, at: float) -> Review:
        """Changes what its author said, under the name that it has; nobody else may."""

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
        """Takes back what its author said."""

        def work(connection: Connection) -> Review:
            mine = self._require_own(connection, identifier, author)
            query = update(table).where(table.c.id == read_number(mine.id))
            connection.execute(query.values(withdrawn_at=at))
            self._log(connection, "score withdrawn", mine, at)
            return mine

        return self._database.write(work)

    def all(self, *, limit: int = 100, **filters: Unpack[ReviewFilter]) -> list[Review]:
        """What was said, newest first; what was withdrawn is not shown."""
        if not self._database.look():
            return []
        query = select(table).where(table.c.tenant == self._tenant, table.c.withdrawn_at.is_(None))
        for name, value in filters.items():
            if value is not None:
                query = query.where(
                    table.c.id < value if name == "before" else _COLUMNS[name] == value
                )
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(table.c.id.desc()).limit(limit)).mappings()
            return [_read(row) for row in rows]

    def of_cases(self, run: str, keys: Iterable[tuple[str, int]]) -> list[Review]:
        """What was said of some cases of a run, the oldest first."""
        wanted = set(keys)
        if not wanted or not self._database.look():
            return []
        query = select(table).where(
            table.c.tenant == self._tenant,
            table.c.withdrawn_at.is_(None),
            table.c.run_id == run,
            table.c.case_name.in_({case for case, _ in wanted}),
        )
        with self._database.read() as connection:
            found = [
                _read(row) for row in connection.execute(query.order_by(table.c.id)).mappings()
            ]
        return [each for each in found if (each.case, each.epoch) in wanted]

    def judged_runs(
        self, suite: str | None = None, *, newest: int = 40, limit: int = 8
    ) -> list[str]:
        """Of the newest runs those with cases that a model judged."""
        with self._database.read() as connection:
            return judged_cases.list_judged_runs(
                connection, self._tenant, suite, newest=newest, limit=limit
            )

    def unseen(self, run: str, limit: int) -> list[tuple[str, int]]:
        """Judged cases of a run, with their epochs, that nobody has scored."""
        with self._database.read() as connection:
            return judged_cases.list_unseen(connection, self._tenant, run, limit)

    def require_case(self, connection: Connection, key: CaseKey) -> None:
        """Refuses a case that has no result."""
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
        """The author's own of that name, which is there."""
        query = (
            select(table)
            .where(table.c.tenant == self._tenant, table.c.run_id == key.run)
            .where(table.c.case_name == key.case, table.c.epoch == key.epoch)
            .where(table.c.name == name, table.c.author == author, table.c.withdrawn_at.is_(None))
        )
        return _read(connection.execute(lock_rows(query)).mappings().one())

    def _require_own(self, connection: Connection, identifier: str, author: str) -> Review:
        query = select(table).where(
            table.c.tenant == self._tenant,
            table.c.id == (read_number(identifier) or 0),
            table.c.withdrawn_at.is_(None),
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
        query = update(table).where(table.c.id == read_number(mine.id))
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
