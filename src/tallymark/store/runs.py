"""Runs: stored, found by id, prefix, name or `latest`, filtered and sorted."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, get_args

import msgspec
from sqlalchemy import (
    Column,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    and_,
    case,
    cast,
    exists,
    func,
    or_,
    select,
    tuple_,
    type_coerce,
)
from sqlalchemy import delete as delete_from

from tallymark.errors import Conflict, InvalidInput, NotFound, suggest
from tallymark.runs.record import RunRecord, RunStatus
from tallymark.store import leases
from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    JsonText,
    bind_value,
    json_text,
    metadata,
)
from tallymark.store.quick_statements import QuickStatements, write_insert

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import ColumnElement, Connection, Row, Select

    from tallymark.store.leases import Lease


run_rows = Table(
    "runs",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("id", CodePointText, nullable=False),
    Column("suite", CodePointText, nullable=False),
    Column("model", CodePointText, nullable=False),
    Column("status", CodePointText, nullable=False),
    Column("run_group", CodePointText, key="group"),  # GROUP is a word of SQL
    Column("definition_hash", CodePointText, nullable=False),
    Column("epochs", Integer, nullable=False),
    Column("created_at", FiniteFloat, nullable=False),
    Column("started_at", FiniteFloat),
    Column("finished_at", FiniteFloat),
    Column("formula", CodePointText, key="score_formula", nullable=False),
    Column("score", FiniteFloat),
    Column("score_error", CodePointText),
    Column("score_low", FiniteFloat),
    Column("score_high", FiniteFloat),
    Column("metrics", JsonText, nullable=False),
    Column("passed", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("errors", Integer, nullable=False),
    Column("total", Integer, nullable=False),
    Column("error", CodePointText),
    Column("tags", JsonText, nullable=False),
    Column("definition", CodePointText, nullable=False),
    PrimaryKeyConstraint("tenant", "id", name="pk_runs"),
    Index("ix_runs_created", "tenant", "created_at"),
)
SORTS = ("created_at", "started_at", "finished_at", "score", "suite", "model", "status")
"""Fields that runs can be sorted by."""
KIND = "run"
"""Kind of the leases of runs."""
_FIELDS = RunRecord.__struct_fields__
_LISTED = tuple(name for name in _FIELDS if name != "definition")
_NAMES = tuple(run_rows.c[name].name for name in ("tenant", *_FIELDS))
_INSERT = f"{write_insert(run_rows.name, _NAMES)} ON CONFLICT DO NOTHING"
# After every other character, so that a prefix and all that begins with it form one range.
_LATEST = re.compile(r"latest(?:~([0-9]{1,6}))?")
"""As in git: `latest~1` is the one before the latest."""
_MADE_ID = re.compile("r[0-9a-hjkmnp-tv-z]{10}")
"""An id as it is made here, of a run that is there, was there, or will be."""
_LAST = "\U0010ffff"
_SHOWN = 3
"""Ids in a message."""
_LARGE = 40_000
"""Characters of metrics from which on a list does not read all of them."""


class RunFilter(TypedDict, total=False):
    """Filters of a list of runs; None, like leaving one out, is any."""

    suite: str | None
    model: str | None
    status: str | None
    group: str | None
    since: float | None
    """Created at this Unix time or later."""
    min_score: float | None
    text: str | None
    """Stands somewhere in its id, suite, model or tags."""


class SuiteSummary(NamedTuple):
    """Runs of a suite, counted."""

    suite: str
    runs: int
    newest: float
    """When the newest was made."""


def create_run(
    connection: Connection, tenant: str, record: RunRecord, lease: Lease | None = None
) -> None:
    """Store a new run, held by `lease`; storing the very same run again changes nothing."""
    if lease is not None:
        lease.claim(connection)
    row = {"tenant": tenant, **msgspec.structs.asdict(record)}
    done = QuickStatements(connection).run(_INSERT, *_bind_values(row))
    # After a lost connection the work is done again, and may find its own row.
    if not done and read_run(connection, tenant, record.id) != record:
        raise InvalidInput(f"there is already a run {record.id!r}")


def _bind_values(row: Mapping[str, Any]) -> list[Any]:
    return [bind_value(run_rows.c[name], value) for name, value in row.items()]


def change_run(
    connection: Connection,
    tenant: str,
    run_id: str,
    changes: dict[str, Any],
    lease: Lease | None = None,
) -> None:
    """Change some fields of a run, but never its id and tenant.

    The lease ends with the run.
    """
    if lease is not None:
        goes_on = changes.get("status", "running") == "running"
        lease.hold(connection, seconds=leases.SECONDS if goes_on else 0)
    wrong = set(changes) - (set(_FIELDS) - {"id"})
    if wrong:
        raise TypeError(f"not a field of a run that can change: {', '.join(sorted(wrong))}")
    if not changes:
        require_run(connection, tenant, run_id)
        return
    sets = ", ".join(f"{run_rows.c[name].name} = ?" for name in changes)
    query = f"UPDATE runs SET {sets} WHERE tenant = ? AND id = ?"  # noqa: S608  our columns
    values = _bind_values({**changes, "tenant": tenant, "id": run_id})
    if not QuickStatements(connection).run(query, *values):
        raise _explain_unknown(connection, tenant, run_id)


def take_ended(connection: Connection, tenant: str, wanted: str) -> tuple[RunRecord, Lease]:
    """Find a run that is not being worked on and claim its lease."""
    record = find_run(connection, tenant, wanted)
    if record.status == "queued":
        raise Conflict(f"run {record.id} waits for a worker", hint="cancel it first")
    lease = leases.Lease(tenant, KIND, record.id)
    lease.claim(connection)
    return record, lease


def delete_run(connection: Connection, tenant: str, run_id: str) -> None:
    """Delete a run and its results."""
    query = delete_from(run_rows).where(run_rows.c.tenant == tenant, run_rows.c.id == run_id)
    if not connection.execute(query).rowcount:
        raise _explain_unknown(connection, tenant, run_id)
    leases.Lease(tenant, KIND, run_id).remove(connection)


def require_run(connection: Connection, tenant: str, run_id: str) -> None:
    """Refuse the id of a run that does not exist."""
    here = exists().where(run_rows.c.tenant == tenant, run_rows.c.id == run_id)
    if not connection.scalar(select(here)):
        raise _explain_unknown(connection, tenant, run_id)


def find_run(connection: Connection, tenant: str, wanted: str) -> RunRecord:
    """Find a run by its id, a prefix of it, a unique name, or `latest`."""
    run = read_run(connection, tenant, _find_full_id(connection, tenant, wanted))
    if run is None:
        raise _explain_unknown(connection, tenant, wanted)
    return run


def find_brief_run(
    connection: Connection, tenant: str, wanted: str, metrics_for: str = ""
) -> RunRecord:
    """Find a run without its definition; of very many metrics, only those that formulas may use."""
    columns = _list_columns(connection, tenant)
    run_id = _find_full_id(connection, tenant, wanted)
    query = select(*_list_brief(columns)).where(
        run_rows.c.tenant == tenant, run_rows.c.id == run_id
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        raise _explain_unknown(connection, tenant, wanted)
    return _read_brief(row, metrics_for)


class RunPage(NamedTuple):
    """Order and position of a page of runs."""

    sort: str
    descending: bool
    limit: int | None
    offset: int = 0
    after: tuple[Any, float, str] | None = None
    """Position of the last run of the page before: its value of `sort`, its time, its id."""
    metrics_for: str = ""
    """Another formula, whose metrics are wanted too."""


def search_runs(
    connection: Connection,
    tenant: str,
    filters: RunFilter,
    page: RunPage,
) -> list[RunRecord]:
    """Runs that pass the filters, without their definitions; missing sort values come last."""
    sort, descending, limit, offset, after, _ = page
    _check_word("runs cannot be sorted by", sort, SORTS)
    _check_word("no run has the status", filters.get("status"), get_args(RunStatus))
    if limit is not None and limit < 1:
        raise InvalidInput(f"a limit of {limit} would show nothing", hint="give at least 1")
    if (group := filters.get("group")) is not None:
        groups = select(run_rows.c.group).where(run_rows.c.tenant == tenant).distinct()
        filters = {**filters, "group": _find_whole(connection, groups, group, "groups")}
    columns = _list_columns(connection, tenant)
    by = columns[sort]
    query = (
        select(*_list_brief(columns))
        .where(run_rows.c.tenant == tenant, *_list_conditions(filters, columns))
        .where(*([] if after is None else [_is_behind(by, descending, after)]))
        .order_by(
            (by.desc() if descending else by.asc()).nulls_last(),
            run_rows.c.created_at.desc(),
            run_rows.c.id.desc(),
        )
        .limit(limit)
        .offset(offset)
    )
    return [_read_brief(row, page.metrics_for) for row in connection.execute(query)]


def _list_brief(columns: dict[str, ColumnElement[Any]]) -> list[ColumnElement[Any]]:
    plain = columns | {"metrics": type_coerce(run_rows.c.metrics, Text)}
    return [plain[name] for name in _LISTED]


def _read_brief(row: Row[Any], metrics_for: str) -> RunRecord:
    fields = dict(zip(_LISTED, row, strict=True))
    metrics = read_metrics(fields["metrics"], f"{fields['score_formula']} {metrics_for}")
    return RunRecord(**fields | {"metrics": metrics})


def read_metrics(text: str, formulas: str) -> dict[str, float | None]:
    """Decode the metrics of a run; of very many, only those of all runs and of the formulas.

    A run of 100,000 named cases has 300,000: skipping them is 20 times faster than decoding.
    """
    if len(text) <= _LARGE:
        found: dict[str, float | None] = msgspec.json.decode(text)
        return found
    names, decode = _make_decoder(formulas)
    told = decode(text)
    values = ((name, getattr(told, f"m{place}")) for place, name in enumerate(names))
    return {name: value for name, value in values if value is not msgspec.UNSET}


@lru_cache(maxsize=128)
def _make_decoder(formulas: str) -> tuple[tuple[str, ...], Callable[[str], Any]]:
    from tallymark.formula.formula_names import (  # noqa: PLC0415 (only large runs need it)
        MORE_METRICS,
        RUN_METRICS,
        WELL_FORMED,
    )

    names = dict.fromkeys([*RUN_METRICS, *MORE_METRICS])
    for word in WELL_FORMED.findall(formulas):
        parts = word.split("-")  # `a-b` is a name, or two
        for first in range(len(parts)):
            joined = ("-".join(parts[first:last]) for last in range(first + 1, len(parts) + 1))
            names |= dict.fromkeys(joined)
    fields = [
        (
            f"m{place}",
            float | None | msgspec.UnsetType,
            msgspec.field(name=name, default=msgspec.UNSET),
        )
        for place, name in enumerate(names)
    ]
    return tuple(names), msgspec.json.Decoder(msgspec.defstruct("Metrics", fields)).decode


def _is_behind(
    by: ColumnElement[Any], descending: bool, after: tuple[Any, float, str]
) -> ColumnElement[bool]:
    """Condition for rows after a position in the order of `search_runs`."""
    value, *place = after
    later = tuple_(run_rows.c.created_at, run_rows.c.id) < tuple_(*place)
    if value is None:
        return and_(by.is_(None), later)
    further = by < value if descending else by > value
    return or_(further, by.is_(None), and_(by == value, later))


def count_runs(connection: Connection, tenant: str, filters: RunFilter) -> int:
    conditions = _list_conditions(filters, _list_columns(connection, tenant))
    query = (
        select(func.count()).select_from(run_rows).where(run_rows.c.tenant == tenant, *conditions)
    )
    return int(connection.scalar(query) or 0)


def list_suites(connection: Connection, tenant: str, limit: int) -> list[SuiteSummary]:
    """Suites that have runs, the one with the newest run first."""
    newest = func.max(run_rows.c.created_at)
    query = (
        select(run_rows.c.suite, func.count(), newest)
        .where(run_rows.c.tenant == tenant)
        .group_by(run_rows.c.suite)
        .order_by(newest.desc(), run_rows.c.suite)
        .limit(limit)
    )
    return [SuiteSummary(*row) for row in connection.execute(query)]


def _check_word(refusal: str, word: str | None, known: tuple[str, ...]) -> None:
    if word is not None and word not in known:
        close = suggest(word, known)
        hint = f"did you mean {close!r}?" if close else f"use one of {', '.join(known)}"
        raise InvalidInput(f"{refusal} {word!r}", hint=hint)


def _list_columns(connection: Connection, tenant: str) -> dict[str, ColumnElement[Any]]:
    """The fields of a run. A run without a live lease counts as interrupted."""
    columns: dict[str, ColumnElement[Any]] = {name: run_rows.c[name] for name in _FIELDS}
    live = run_rows.c.id.in_(leases.find_live(connection, tenant, KIND))
    left = and_(run_rows.c.status == "running", ~live)
    return columns | {"status": case((left, "interrupted"), else_=run_rows.c.status)}


def _list_conditions(
    filters: RunFilter, columns: dict[str, ColumnElement[Any]]
) -> list[ColumnElement[bool]]:
    tests = {
        "since": lambda value: run_rows.c.created_at >= value,
        "min_score": lambda value: run_rows.c.score >= value,
        "text": _contains,
    }
    return [
        tests[name](value) if name in tests else columns[name] == value
        for name, value in filters.items()
        if value is not None
    ]


def _contains(text: str) -> ColumnElement[bool]:
    places = (run_rows.c.id, run_rows.c.suite, run_rows.c.model, cast(run_rows.c.tags, Text))
    return or_(*(place.icontains(text, autoescape=True) for place in places))


def read_run(connection: Connection, tenant: str, run_id: str) -> RunRecord | None:
    columns = _list_columns(connection, tenant).values()
    query = select(*columns).where(run_rows.c.tenant == tenant, run_rows.c.id == run_id)
    row = connection.execute(query).one_or_none()
    return None if row is None else RunRecord(**dict(zip(_FIELDS, row, strict=True)))


def _find_full_id(connection: Connection, tenant: str, wanted: str) -> str:
    ids = select(run_rows.c.id).where(run_rows.c.tenant == tenant)
    if (latest := _LATEST.fullmatch(wanted)) is not None:
        newest = ids.order_by(run_rows.c.created_at.desc(), run_rows.c.id.desc())
        return str(connection.scalar(newest.offset(int(latest[1] or 0)).limit(1)) or wanted)
    begun = _find_beginning(connection, ids, wanted)
    if begun == [wanted]:
        return wanted
    named = _find_named(connection, tenant, wanted)
    if named and set(begun) - set(named):
        shown = f"{_list_ids(named)}, and the beginning of {_list_ids(begun)}"
        raise InvalidInput(f"{wanted!r} is the name of {shown}", hint="give the whole id")
    if len(named) > 1:
        said = f"several runs are called {wanted!r}: {_list_ids(named)}"
        raise InvalidInput(said, hint="give the id of one")
    return _pick_one(named or begun, wanted, "runs")


def _find_named(connection: Connection, tenant: str, wanted: str) -> list[str]:
    """Ids of the runs with this name, newest first."""
    # The tags are JSON text: only a run with this name has it there, with some others.
    text = type_coerce(run_rows.c.tags, Text)
    written = text.contains(f'"name":{json_text(wanted)}', autoescape=True)
    query = select(run_rows.c.id, run_rows.c.tags).where(run_rows.c.tenant == tenant, written)
    newest = query.order_by(run_rows.c.created_at.desc(), run_rows.c.id.desc())
    found = connection.execute(newest)
    return [run_id for run_id, tags in found if wanted and tags.get("name") == wanted]


def check_name(connection: Connection, tenant: str, run_id: str, name: str) -> None:
    """Refuse a name by which the run could not be found."""
    if _LATEST.fullmatch(name) is not None:
        raise InvalidInput(f"a run cannot be called {name!r}, which means the newest or one before")
    if "/" in name or set(name) == {"."}:  # in the address of the run
        raise InvalidInput(f"a run cannot be called {name!r}: a name has no '/', nor only dots")
    looks = _MADE_ID.fullmatch(name) or read_run(connection, tenant, name) is not None
    if looks and name != run_id:
        raise InvalidInput(f"a run cannot be called {name!r}: it would be taken for an id")


def _find_whole(connection: Connection, ids: Select[Any], wanted: str, what: str) -> str:
    """The id with this prefix; a prefix of none stays as it is."""
    return _pick_one(_find_beginning(connection, ids, wanted), wanted, what)


def _find_beginning(connection: Connection, ids: Select[Any], wanted: str) -> list[str]:
    """Some ids with this prefix, or the one that equals it."""
    (column,) = ids.selected_columns
    begins = ids.where(column >= wanted, column < wanted + _LAST)
    matches: list[str] = list(connection.scalars(begins.order_by(column).limit(_SHOWN + 1)))
    if not wanted:
        return []
    return matches[:1] if matches[:1] == [wanted] else matches


def _pick_one(matches: list[str], wanted: str, what: str) -> str:
    if len(matches) > 1:
        shown = _list_ids(matches)
        raise InvalidInput(f"several {what} begin with {wanted!r}: {shown}", hint="give more of it")
    return matches[0] if matches else wanted


def _list_ids(ids: list[str]) -> str:
    return ", ".join(ids[:_SHOWN]) + (", …" if len(ids) > _SHOWN else "")


def _explain_unknown(connection: Connection, tenant: str, wanted: str) -> NotFound:
    newest = select(run_rows.c.id, run_rows.c.tags).where(run_rows.c.tenant == tenant)
    rows = connection.execute(newest.order_by(run_rows.c.created_at.desc()).limit(500)).all()
    known = [run_id for run_id, _ in rows]
    if not known:
        return NotFound("there are no runs yet", hint="run a suite first")
    names = [name for _, tags in rows if isinstance(name := tags.get("name"), str)]
    close = suggest(wanted, [*known, *names])
    hint = f"did you mean {close!r}?" if close else f"the latest is {known[0]!r}"
    return NotFound(f"there is no run {wanted!r}", hint=hint)
