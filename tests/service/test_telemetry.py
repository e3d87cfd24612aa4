"""A server that traces itself to itself comes to rest."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.http.conftest import ADA, Server, listening, run_server

from tallymark.errors import InvalidInput
from tallymark.instrumentation import watch
from tallymark.service.settings import read_settings
from tallymark.service.telemetry import start_tracing
from tallymark.traces.trace_query import parse_query


def test_spans_come_to_our_own_intake_and_no_more_than_there_were(tmp_path: Path) -> None:
    with run_server(str(tmp_path / "tally.db"), workers=1) as server, listening(server) as url:
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization=Bearer%20{ADA}",
        }
        stop = start_tracing(environment)
        assert server.v1("ada", "GET", "/runs").status_code == 200
        with watch("sandbox", kind="plugin") as work:
            work.outcomes["ok"] += 3
        with watch("job", kind="rule"):
            pass
        stop()  # which sends all that there is
        store = server.service.app.store
        store.traces.finalise(1e12)
        first = _list_names(server)
        assert first["GET /api/v1/runs"] == 1
        assert first["sandbox plugin"] == 1
        assert not [name for name in first if "/v1/traces" in name or name == "job rule"]


def _list_names(server: Server) -> Counter[str]:
    page = server.service.app.store.traces.page(parse_query("", now=time.time()), limit=100)
    return Counter(each.name for each in page.items)


def test_nothing_is_loaded_where_nothing_is_configured() -> None:
    code = (
        "import sys; from tallymark.service.telemetry import start_tracing; start_tracing({})\n"
        "sys.exit(any(name.startswith('opentelemetry.sdk') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is no http address"):
        start_tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"})


def test_a_server_refuses_it_before_anything_starts() -> None:
    with pytest.raises(InvalidInput, match="TRACES_ENDPOINT is no http address"):
        read_settings({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "collector:4317"})
