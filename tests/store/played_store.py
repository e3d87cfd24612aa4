"""A store with something of everything: that of version 0.1, and what came since."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.store.contest_samples import quick_store
from tests.traces.otlp_samples import START, as_json, model_call, span, tool_call

from tallymark.service.trace_intake import TraceIntake
from tallymark.store import Store, open_store
from tallymark.store.jobs import NewJob
from tallymark.store.retention_policy import TraceSettings
from tallymark.store.webhook_deliveries import Occurrence
from tallymark.store.webhooks import EVENTS, Webhook

STORED = Path(__file__).parents[1] / "golden" / "stored" / "tally.db.gz"


def make_played(path: Path) -> Path:
    """Challenges, attempts, a frozen board, runs, traces, jobs and a secret."""
    path.write_bytes(gzip.decompress(STORED.read_bytes()))
    open_store(str(path), upgrade=True).close()
    with quick_store(f"sqlite:///{path}") as store:
        fill(store)
    return path


def fill(store: Store) -> None:
    """What version 0.1 had not."""
    intake = TraceIntake(store, settings=TraceSettings, clock=lambda: START + 60.0)
    spans = [span(name="ask", session__id="s1"), model_call(), tool_call()]
    intake.keep(*intake.read(as_json(*spans), "json"))
    intake.keep(*intake.read(as_json(span(2), model_call(trace=2)), "json"))
    store.traces.finalise(START + 1000.0)
    store.jobs.add(NewJob(kind="settle", subject="all", owner="operator"))
    store.job_queue.claim(["settle"], 1)
    store.set_secret("token", "a word that nobody knows")
    hook = Webhook(
        id="whk_1", url="https://example.com", events=EVENTS, made_by="operator", created_at=START
    )
    store.webhooks.add(hook, "whsec_")
    told = Occurrence(event="ping", occasion="ping", at=START, data={})
    store.deliveries.announce(told, only=hook.id)
