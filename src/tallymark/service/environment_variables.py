"""Environment variables that Tallymark reads, and where the value of each setting comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MASK = "********"


class Variable(NamedTuple):
    """An environment variable."""

    name: str
    default: str = ""
    """Default, as it would be written."""
    secret: bool = False


class Setting(NamedTuple):
    """The current value of a setting, and its origin."""

    name: str
    value: str
    source: str
    """default, environment, tally.toml or flag."""


VARIABLES = (
    Variable("TALLY_DB", ".tally/tally.db"),
    Variable("TALLY_SECRET_KEY", "a key file", secret=True),
    Variable("TALLY_SECRET_KEY_BEFORE", secret=True),
    Variable("TALLY_ADMIN_KEY", "made at the first start", secret=True),
    Variable("TALLY_SERVER"),
    Variable("TALLY_KEY", secret=True),
    Variable("TALLY_LOG", "quiet"),
    Variable("TALLY_READY_WITHOUT"),
    Variable("TALLY_MIN_FREE_MB", "100"),
    Variable("TALLY_CORS_ORIGINS"),
    Variable("TALLY_METRICS_FROM", "127.0.0.0/8,::1"),
    Variable("TALLY_PROXY_HEADER"),
    Variable("TALLY_PROXY_FROM"),
    Variable("TALLY_PROXY_ROLE", "viewer"),
    Variable("TALLY_PROXY_TENANT", "default"),
    Variable("TALLY_HTTP_KEY", secret=True),
    Variable("TALLY_SANDBOX", "the strongest that works"),
    Variable("TALLY_ALLOW"),
    Variable("TALLY_ENGINE", "one process"),
    Variable("TALLY_RAY_ADDRESS"),
    Variable("TALLY_MAX_CASES", "10000"),
    Variable("TALLY_MAX_SECONDS", "3600"),
    Variable("TALLY_MAX_THREADS", "32"),
    Variable("TALLY_MAX_SUITE_BYTES", "2000000"),
    Variable("TALLY_DEBUG"),
    Variable("OTEL_EXPORTER_OTLP_ENDPOINT"),
    Variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
    Variable("OTEL_EXPORTER_OTLP_HEADERS", secret=True),
    Variable("OTEL_SERVICE_NAME", "tallymark"),
)
"""In the order of docs/settings.md."""
OURS = (
    *("TALLY_MESSAGES", "TALLY_TRIAL", "TALLY_FOLDER", "TALLY_ANSWER", "TALLY_ATTEMPT"),
    *("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"),
    *("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"),
    *("OTEL_LOGS_EXPORTER", "OTEL_BSP_SCHEDULE_DELAY"),
)
"""Set for programs that Tallymark starts; not read by Tallymark."""


def list_settings(
    environment: Mapping[str, str], tables: Mapping[str, Any], db: str | None = None
) -> Iterator[Setting]:
    """List variables first, then the values of a `tally.toml`, given as `tables`."""
    for each in VARIABLES:
        value = environment.get(each.name, "")
        if each.name == "TALLY_DB":
            yield _find_db(environment, tables, db)
        elif value:
            yield Setting(each.name, _MASK if each.secret else _hide(value), "environment")
        else:
            yield Setting(each.name, each.default, "default")
    yield from _list_table(tables, "")


def _find_db(environment: Mapping[str, str], tables: Mapping[str, Any], db: str | None) -> Setting:
    """The option wins over the variable, and that over the file."""
    given = environment.get("TALLY_DB")
    if db is not None and not (db == given or db.endswith(str(tables.get("db", "\0")))):
        return Setting("TALLY_DB", _hide(db), "flag")
    if given:
        return Setting("TALLY_DB", _hide(given), "environment")
    if "db" in tables:
        return Setting("TALLY_DB", _hide(str(tables["db"])), "tally.toml")
    return Setting("TALLY_DB", VARIABLES[0].default, "default")


def _list_table(table: Mapping[str, Any], place: str) -> Iterator[Setting]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _list_table(value, f"{place}{name}.")
        elif place or name != "db":
            yield Setting(f"{place}{name}", _hide(str(value)), "tally.toml")


def _hide(value: str) -> str:
    """Without the user and the password of an address."""
    scheme, separator, rest = value.partition("://")
    if not separator or "@" not in rest:
        return value
    return f"{scheme}://{_MASK}@{rest.rpartition('@')[2]}"
