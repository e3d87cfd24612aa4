"""A store of its own on each database, and spans that come to it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.store.contest_samples import quick_store
from tests.traces.otlp_samples import START, as_json

from tallymark.service.trace_intake import Taken, TraceIntake
from tallymark.store import Store
from tallymark.store.retention_policy import TraceSettings
from tallymark.store.traces.trace_rows import TraceRecord
from tallymark.traces.span_limits import LIMITS, SpanLimits
from tallymark.traces.trace_query import parse_query


@dataclass
class Keeper:
    """A store, and a clock that tests move."""

    store: Store
    now: float = START + 60.0
    limits: SpanLimits = LIMITS

    def send(self, *spans: Any, **resource: Any) -> Taken:
        """What an exporter sends."""
        intake = self.intake
        return intake.keep(*intake.read(as_json(*spans, **resource), "json"))

    @property
    def intake(self) -> TraceIntake:
        """As a server has one."""
        return TraceIntake(
            self.store, settings=TraceSettings, clock=lambda: self.now, limits=self.limits
        )

    def settle(self, after: float = 100.0) -> int:
        """All is quiet for so long."""
        self.now += after
        return self.store.traces.finalise(self.now)

    def find(self, text: str = "", **more: Any) -> list[TraceRecord]:
        """The traces that fit."""
        return self.store.traces.page(parse_query(text, now=self.now), **more).items

    def ids(self, text: str = "") -> list[int]:
        """Their ids as numbers, in the order of time."""
        return sorted(int(each.id, 16) for each in self.find(text))


@pytest.fixture
def keeper(shared_url: str) -> Iterator[Keeper]:
    with quick_store(shared_url, uuid.uuid4().hex) as store:
        store.prepare()
        yield Keeper(store)
