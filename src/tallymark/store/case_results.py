"""Case results of runs.

They come by the ten thousand, so rows are tuples passed to the driver: inserting through SQLAlchemy
takes three times as long.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    and_,
    func,
    or_,
    select,
    tuple_,
)

from tallymark.errors import WorkFailed
from tallymark.judging.spending import JudgeSpending
from tallymark.runs.record import CaseResult, CaseStatus, CheckResult
from tallymark.store import runs
from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    json_text,
    make_storable,
    metadata,
)
from tallymark.store.quick_statements import QuickStatements
from tallymark.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection, Select

    from tallymark.store.leases import Lease


# The bulky columns come last, so that a query for the others does not read them: see
# docs/decisions/0006-store.md.
case_results = Table(
    "case_results",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("run_id", CodePointText, nullable=False),
    Column("case_name", CodePointText, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("status", CodePointText, nullable=False),
    Column("latency", FiniteFloat),
    Column("cost", FiniteFloat),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("detail", Text, nullable=False),
    Column("trace", Text),
    # Incremented with each commit of the run, so that followers continue after the last one seen.
    # After the bulky columns, but read from its index alone.
    Column("seq", Integer, nullable=False, server_default="0"),
    PrimaryKeyConstraint("tenant", "run_id", "case_name", "epoch", name="pk_case_results"),
    ForeignKeyConstraint(
        ["tenant", "run_id"],
        ["runs.tenant", "runs.id"],
        name="fk_case_results_run",
        ondelete="CASCADE",
    ),
    Index("ix_case_results_order", "tenant", "run_id", "seq"),
)
_KEY = ("tenant", "run_id", "case_name", "epoch")
_UNREAD = ("tenant", "run_id", "seq")
_CHUNK = 500
_TOGETHER = 50
"""Rows of one statement in SQLite: its driver lets other threads in at each, and they take turns.

With twelve columns that is less than the 999 values that an older SQLite takes.
"""
_AT_HAND = 250
_JUDGE = "llm_judge"
_LAST = "SELECT max(seq) FROM case_results WHERE tenant = ? AND run_id = ?"
_TAKE_TURN = "SELECT 1 FROM runs WHERE tenant = ? AND id = ? FOR UPDATE"
# Results are scanned once, so caching their pages helps little; only those of one batch would be
# written twice.
_SMALL_CACHE = "PRAGMA cache_size = -8000"  # negative: in KiB
_BEYOND = 2**63  # a BIGINT is smaller


class _Detail(msgspec.Struct, frozen=True, omit_defaults=True):
    """Content of the column `detail`: the fields of a result that no query filters by."""

    output: str = ""
    checks: tuple[CheckResult, ...] = ()
    tokens_counted_by: Any = None
    error: str | None = None
    tries: int = 1
    input: str = ""


class _CountedDetail(msgspec.Struct, frozen=True, gc=False):
    """The part of `detail` that a tally reads; the decoder skips the rest."""

    checks: tuple[_CountedCheck, ...] = ()
    tokens_counted_by: Any = None


class _CountedMetadata(msgspec.Struct, frozen=True, gc=False):
    """The part of a check's metadata that a tally reads: the expected label."""

    expected: Any = None

    def get(self, name: str) -> Any:
        """Read a key as from the whole mapping."""
        return getattr(self, name, None)


class _CountedCheck(msgspec.Struct, frozen=True, gc=False):
    """A `CheckResult` without its texts."""

    kind: str
    passed: bool = False
    name: str | None = None
    value: float | None = None
    label: str | None = None
    error: str | None = None
    parts: tuple[_CountedCheck, ...] = ()
    judge: JudgeSpending | None = None
    metadata: _CountedMetadata = _CountedMetadata()


_decode_detail = msgspec.json.Decoder(_Detail).decode
_decode_counted = msgspec.json.Decoder(_CountedDetail).decode
_decode_trace = msgspec.json.Decoder(Trace).decode


def add_results(
    connection: Connection,
    tenant: str,
    run_id: str,
    results: Sequence[CaseResult],
    lease: Lease | None = None,
) -> None:
    """Store results; a stored result is replaced only if it is an error."""
    if lease is not None:
        lease.hold(connection)
    else:
        runs.require_run(connection, tenant, run_id)
    _spare_memory(connection)
    statements = QuickStatements(connection)
    if statements.is_postgres:  # SQLite has one writer at a time
        statements.read(_TAKE_TURN, tenant, run_id)
    ((last,),) = statements.read(_LAST, tenant, run_id)
    seq = (last or 0) + 1
    for start in range(0, len(results), _CHUNK):
        rows = [_make_row(tenant, run_id, seq, each) for each in results[start : start + _CHUNK]]
        if not statements.is_postgres:
            while len(rows) >= _TOGETHER:
                some, rows = rows[:_TOGETHER], rows[_TOGETHER:]
                statements.run(_INSERT_TOGETHER, *chain.from_iterable(some))
        statements.run_many(_INSERT, rows)


def stream_results(
    connection: Connection, tenant: str, run_id: str, *, with_traces: bool
) -> Iterator[CaseResult]:
    """The results of a run by case and epoch, a hundred in memory at a time."""
    columns = [each for each in case_results.c if each.name not in (*_UNREAD, "trace")]
    if with_traces:
        columns.append(case_results.c.trace)
    query = (
        select(*columns)
        .where(_is_of_run(tenant, run_id))
        .order_by(case_results.c.case_name, case_results.c.epoch)
    )
    with connection.execution_options(yield_per=100).execute(query) as rows:
        for some in rows.partitions():
            yield from [_read_result(run_id, *row) for row in some]


class ResultPage(NamedTuple):
    """Position and filters of a page of results."""

    after: tuple[str, int] | None
    limit: int
    status: CaseStatus | None = None
    with_traces: bool = False


def read_after(
    connection: Connection, tenant: str, run_id: str, page: ResultPage
) -> list[CaseResult]:
    """Results after a case and epoch."""
    columns = [each for each in case_results.c if each.name not in (*_UNREAD, "trace")]
    if page.with_traces:
        columns.append(case_results.c.trace)
    query = select(*columns).where(_is_of_run(tenant, run_id))
    if page.after is not None:
        query = query.where(tuple_(case_results.c.case_name, case_results.c.epoch) > page.after)
    if page.status is not None:
        query = query.where(case_results.c.status == page.status)
    query = query.order_by(case_results.c.case_name, case_results.c.epoch).limit(page.limit)
    return [_read_result(run_id, *row) for row in connection.execute(query)]


def stream_counted(connection: Connection, tenant: str, run_id: str) -> Iterator[CaseResult]:
    """Results in the same order, with only what a tally reads."""
    names = ("case_name", "epoch", "status", "latency", "cost", "input_tokens", "output_tokens")
    query: Select[Any] = (
        select(*(case_results.c[name] for name in names), case_results.c.detail)
        .where(_is_of_run(tenant, run_id))
        .order_by(case_results.c.case_name, case_results.c.epoch)
    )
    _spare_memory(connection)
    with connection.execution_options(yield_per=_AT_HAND).execute(query) as rows:
        for some in rows.partitions():
            yield from [_read_counted(run_id, *row) for row in some]


def pick_results(
    connection: Connection,
    tenant: str,
    run_id: str,
    keys: Iterable[tuple[str, int]],
    *,
    with_traces: bool = True,
) -> Iterator[CaseResult]:
    """The results with these cases and epochs, in this order, few in memory at a time."""
    unread = _UNREAD if with_traces else (*_UNREAD, "trace")
    columns = [each for each in case_results.c if each.name not in unread]
    _spare_memory(connection)
    left = iter(keys)
    while wanted := list(islice(left, _AT_HAND)):
        query = select(*columns).where(
            _is_of_run(tenant, run_id),
            case_results.c.case_name.in_({case for case, _ in wanted}),
            case_results.c.epoch.in_({epoch for _, epoch in wanted}),
        )
        found = {(row[0], row[1]): row for row in connection.execute(query)}
        yield from (_read_result(run_id, *found[key]) for key in wanted if key in found)


class ResultFilter(NamedTuple):
    """Filters of a list of results."""

    status: CaseStatus | None = None
    text: str | None = None
    """Part of the case's name, input, output or reasons."""


RunKey = tuple[str, str]
"""A tenant, and the id of one of its runs."""


def read_page(
    connection: Connection, run: RunKey, wanted: ResultFilter, *, limit: int, offset: int
) -> list[CaseResult]:
    """Some results without their traces, by case and epoch."""
    columns = [each for each in case_results.c if each.name not in (*_UNREAD, "trace")]
    query = select(*columns).where(_is_of_run(*run), *_list_conditions(wanted))
    query = (
        query.order_by(case_results.c.case_name, case_results.c.epoch).limit(limit).offset(offset)
    )
    return [_read_result(run[1], *row) for row in connection.execute(query)]


def count_results(connection: Connection, run: RunKey, wanted: ResultFilter) -> int:
    query = select(func.count()).where(_is_of_run(*run), *_list_conditions(wanted))
    return int(connection.scalar(query) or 0)


def measure_results(connection: Connection, run: RunKey) -> tuple[float | None, float | None]:
    """Sum of the known costs, and mean of the latencies."""
    query = select(func.sum(case_results.c.cost), func.avg(case_results.c.latency)).where(
        _is_of_run(*run)
    )
    cost, latency = connection.execute(query).one()
    return cost, latency


def _list_conditions(wanted: ResultFilter) -> list[ColumnElement[bool]]:
    found = [] if wanted.status is None else [case_results.c.status == wanted.status]
    if wanted.text:
        # Characters that JSON escapes are searched for as their escapes.
        told = json_text(wanted.text)[1:-1]
        places = (
            case_results.c.case_name.icontains(wanted.text, autoescape=True),
            case_results.c.detail.icontains(told, autoescape=True),
        )
        found.append(or_(*places))
    return found


def find_neighbours(
    connection: Connection, run: RunKey, key: tuple[str, int]
) -> tuple[tuple[str, int] | None, tuple[str, int] | None]:
    """The keys before and after one."""
    place = tuple_(case_results.c.case_name, case_results.c.epoch)
    query: Select[Any] = (
        select(case_results.c.case_name, case_results.c.epoch).where(_is_of_run(*run)).limit(1)
    )
    before = query.where(place < key).order_by(
        case_results.c.case_name.desc(), case_results.c.epoch.desc()
    )
    after = query.where(place > key).order_by(case_results.c.case_name, case_results.c.epoch)
    found = [connection.execute(each).one_or_none() for each in (before, after)]
    first, last = (None if row is None else (str(row[0]), int(row[1])) for row in found)
    return first, last


def stream_statuses(
    connection: Connection, tenant: str, run_id: str
) -> Iterator[tuple[str, int, CaseStatus]]:
    """Case, epoch and status of every result."""
    columns = (case_results.c.case_name, case_results.c.epoch, case_results.c.status)
    query = select(*columns).where(_is_of_run(tenant, run_id))
    query = query.order_by(case_results.c.case_name, case_results.c.epoch)
    _spare_memory(connection)
    with connection.execution_options(yield_per=_CHUNK).execute(query) as rows:
        for some in rows.partitions():
            yield from [(case, epoch, status) for case, epoch, status in some]


def count_statuses(
    connection: Connection, tenant: str, run_ids: Iterable[str]
) -> dict[str, Counter[str]]:
    """Number of results of each status, by run."""
    columns = (case_results.c.run_id, case_results.c.status)
    chosen = and_(case_results.c.tenant == tenant, case_results.c.run_id.in_(list(run_ids)))
    query = select(*columns, func.count()).where(chosen).group_by(*columns)
    found: dict[str, Counter[str]] = {}
    for run_id, status, count in connection.execute(query):
        found.setdefault(run_id, Counter())[status] = count
    return found


def _spare_memory(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(_SMALL_CACHE)


def _is_of_run(tenant: str, run_id: str) -> ColumnElement[bool]:
    return and_(case_results.c.tenant == tenant, case_results.c.run_id == run_id)


def _build_insert(rows: int = 1) -> str:
    """The statement for one row or several, in the table's order of columns."""
    names = [column.name for column in case_results.c]
    # Resuming replaces errors; an outcome never changes, and storing it twice is storing it once.
    changes = ", ".join(f"{name} = excluded.{name}" for name in names if name not in _KEY)
    places = f"({', '.join('?' * len(names))})"
    return (
        f"INSERT INTO {case_results.name} ({', '.join(names)})"  # noqa: S608  the table's own names
        f" VALUES {', '.join([places] * rows)}"
        f" ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {changes}"
        f" WHERE {case_results.name}.status = 'error'"
    )


_INSERT = _build_insert()
_INSERT_TOGETHER = _build_insert(_TOGETHER)


def _make_row(tenant: str, run_id: str, seq: int, result: CaseResult) -> tuple[Any, ...]:
    detail = _Detail(
        result.output,
        result.checks,
        result.tokens_counted_by,
        result.error,
        result.tries,
        result.input,
    )
    try:
        told = json_text(detail)
    except RecursionError:  # a scorer's metadata may hold itself
        from tallymark.scoring.score import make_json_safe  # noqa: PLC0415 (hardly ever needed)

        told = json_text(make_json_safe(detail))
    numbers = (result.latency, result.cost, result.input_tokens, result.output_tokens)
    return (
        tenant,
        run_id,
        make_storable(result.case),
        result.epoch,
        result.status,
        # NaN, and what no column can hold, is not known.
        *[each if each is not None and -_BEYOND < each < _BEYOND else None for each in numbers],
        told,
        None if result.trace is None else _encode_trace(result.trace),
        seq,
    )


def _encode_trace(trace: Trace) -> str:
    try:
        return json_text(trace)
    except RecursionError:
        # One odd trace must not cost the result, let alone the run.
        lost = {"not_stored": "the trace is nested too deeply"}
        return json_text(Trace(trace_id=trace.trace_id, name=trace.name, metadata=lost))


def _pick_counted(checks: tuple[Any, ...]) -> tuple[CheckResult, ...]:
    """Select the checks of which a tally reads more than `passed`; few cases have any."""
    counted = [
        check
        for check in checks
        if check.name is not None or check.parts or check.judge is not None or check.kind == _JUDGE
    ]
    return tuple(counted)


def _refuse_row(run_id: str, case: str, error: Exception) -> WorkFailed:
    said = f"the stored result of case {case!r} of run {run_id} cannot be read: {error}"
    return WorkFailed(said)


def _read_counted(run_id: str, case: str, epoch: int, *row: Any) -> CaseResult:
    status, latency, cost, input_tokens, output_tokens, text = row
    try:
        detail = _decode_counted(text)
    except msgspec.MsgspecError as error:
        raise _refuse_row(run_id, case, error) from None
    return CaseResult(
        case=case,
        epoch=epoch,
        status=status,
        checks=_pick_counted(detail.checks),
        latency=latency,
        cost=cost,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        tokens_counted_by=detail.tokens_counted_by,
    )


def _read_result(run_id: str, case: str, epoch: int, *row: Any) -> CaseResult:
    status, latency, cost, input_tokens, output_tokens, detail_text, *trace_text = row
    try:
        detail = _decode_detail(detail_text)
        trace = _decode_trace(trace_text[0]) if trace_text and trace_text[0] is not None else None
    except msgspec.MsgspecError as error:
        raise _refuse_row(run_id, case, error) from None
    return CaseResult(
        case=case,
        epoch=epoch,
        status=status,
        input=detail.input,
        output=detail.output,
        checks=detail.checks,
        latency=latency,
        cost=cost,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        tokens_counted_by=detail.tokens_counted_by,
        error=detail.error,
        tries=detail.tries,
        trace=trace,
    )
