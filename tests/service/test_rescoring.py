"""Rescoring as organisers ask for it: at once, or as a job that tells how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.web.page_samples import fill_contests

from tallymark.challenges.rescore_plan import Rescoring
from tallymark.errors import Conflict
from tallymark.service import rescoring, workers
from tallymark.service.callers import Caller
from tallymark.service.rescoring import (
    NewRule,
    apply_rescoring,
    is_large,
    preview_rescoring,
    queue_rescoring,
)
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings
from tallymark.service.tenant import TenantServices

ORGANISER = Caller("default", "organiser", "organiser olga", owner="olga")
WEIGHTS = NewRule(changes={"weights": {"correctness": 0.1, "speed": 0.9}})


@pytest.fixture
def services(tmp_path: Path) -> Iterator[TenantServices]:
    """A server with one worker over boards that were played."""
    service = Service(ServiceSettings(db=str(tmp_path / "tally.db"), workers=1))
    fill_contests(service.app.store)
    service.open()
    yield service.tenant("default")
    service.close()


def test_weights_are_rescored_by_a_worker_as_they_would_be_at_once(
    services: TenantServices,
) -> None:
    job = queue_rescoring(services, ORGANISER, "maze", WEIGHTS, reason="speed matters")
    done = asyncio.run(services.jobs.await_end(job.id))
    assert (done.state, done.error) == ("done", None)
    weights = {
        each.key: each.weight for each in services.store.challenges.get("maze").scoring.dimensions
    }
    assert weights == {"correctness": 0.1, "speed": 0.9}
    entry = services.store.audit_log.entries(event="rescored")[0]
    assert entry.note is not None
    assert entry.note["reason"] == "speed matters"


def test_a_preview_by_a_worker_changes_nothing_and_tells_who_moves(
    services: TenantServices,
) -> None:
    rule = NewRule(changes={"formula": "tokens_total", "strategy": "custom"})
    at_once = preview_rescoring(services, "frugal", rule)
    job = queue_rescoring(services, ORGANISER, "frugal", rule, apply=False)
    done = asyncio.run(services.jobs.await_end(job.id))

    assert msgspec.convert(done.result["rescoring"], Rescoring).moves == at_once.moves
    assert at_once.moved == 2
    assert services.store.challenges.get("frugal").scoring.formula == "1000 - tokens_total"


def test_what_was_looked_at_and_changed_since_is_not_rescored(services: TenantServices) -> None:
    looked_at = services.store.challenges.get("frugal").version
    first = NewRule(changes={"formula": "tokens_total", "strategy": "custom"})
    apply_rescoring(services, "frugal", first, based_on=looked_at)
    second = NewRule(changes={"formula": "2", "strategy": "custom"})
    with pytest.raises(Conflict, match="changed 'frugal' since you looked"):
        apply_rescoring(services, "frugal", second, based_on=looked_at)
    job = queue_rescoring(services, ORGANISER, "frugal", second, based_on=looked_at)
    assert asyncio.run(services.jobs.await_end(job.id)).state == "failed"


def test_arithmetic_is_never_large_and_scoring_many_again_is(
    services: TenantServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_large(services, "maze", WEIGHTS)
    monkeypatch.setattr(rescoring, "MOST_AT_ONCE", 2)
    assert is_large(services, "maze", WEIGHTS)
    rule = NewRule(changes={"formula": "tokens_total", "strategy": "custom"})
    assert not is_large(services, "frugal", rule)


def test_a_job_tells_how_far_it_is(
    services: TenantServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    queue = type(services.store.job_queue)
    note = queue.note_progress

    def look(self: object, claimed: object, done: int, total: int | None) -> None:
        note(self, claimed, done, total)  # type: ignore[arg-type]
        told.append(services.store.jobs.find("rescore", "maze"))

    monkeypatch.setattr(queue, "note_progress", look)
    monkeypatch.setattr(workers, "_NOTED_EVERY", 0.0)
    asyncio.run(services.jobs.await_end(queue_rescoring(services, ORGANISER, "maze", WEIGHTS).id))
    seen = [each.result for each in told if each is not None]
    assert {"progress": {"done": 0, "of": 4}} in seen
