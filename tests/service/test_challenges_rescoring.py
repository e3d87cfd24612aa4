"""Rescoring as organisers ask for it: at once, or as a job that tells how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.web.page_samples import fill_contests

from tallymark.challenges.rescoring import Rescoring
from tallymark.errors import Conflict
from tallymark.service import challenges, workers
from tallymark.service.callers import Caller
from tallymark.service.challenges import Challenges
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings
from tallymark.service.tenant import TenantServices

ORGANISER = Caller("default", "organiser", "organiser olga", owner="olga")
WEIGHTS = {"correctness": 0.1, "speed": 0.9}


@pytest.fixture
def services(tmp_path: Path) -> Iterator[TenantServices]:
    """A server with one worker over boards that were played."""
    service = Service(ServiceSettings(db=str(tmp_path / "tally.db"), workers=1))
    fill_contests(service.app.store)
    service.open()
    yield service.tenant("default")
    service.close()


@pytest.fixture
def organiser(services: TenantServices) -> Challenges:
    return Challenges(services, ORGANISER)


@pytest.fixture
def _queued(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything but arithmetic is large."""
    monkeypatch.setattr(challenges, "MOST_AT_ONCE", 0)


def wait(services: TenantServices, job: str | None) -> Any:
    assert job is not None
    return asyncio.run(services.jobs.await_end(job))


@pytest.mark.usefixtures("_queued")
def test_weights_are_rescored_by_a_worker_as_they_would_be_at_once(
    services: TenantServices, organiser: Challenges
) -> None:
    done = organiser.rescore("maze", weights=WEIGHTS, reason="speed matters")
    assert done.rescoring is None
    job = wait(services, done.job)
    assert (job.state, job.error) == ("done", None)
    dimensions = organiser.get("maze").scoring.dimensions
    assert {each.key: each.weight for each in dimensions} == WEIGHTS
    entry = services.store.audit_log.entries(event="rescored")[0]
    assert entry.note is not None
    assert entry.note["reason"] == "speed matters"


def test_a_preview_by_a_worker_changes_nothing_and_tells_who_moves(
    services: TenantServices, organiser: Challenges, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = organiser.rescore("maze", weights=WEIGHTS, preview=True).rescoring
    assert at_once is not None
    monkeypatch.setattr(challenges, "MOST_AT_ONCE", 0)
    assert organiser.rescore("maze", weights=WEIGHTS, preview=True, queue=False).job is None
    job = wait(services, organiser.rescore("maze", weights=WEIGHTS, preview=True).job)
    assert msgspec.convert(job.result["rescoring"], Rescoring).moves == at_once.moves
    dimensions = organiser.get("maze").scoring.dimensions
    assert {each.key: each.weight for each in dimensions} != WEIGHTS


def test_what_was_looked_at_and_changed_since_is_not_rescored(
    services: TenantServices, organiser: Challenges, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = organiser.get("maze").version
    organiser.rescore("maze", weights=WEIGHTS, reason="a", based_on=looked_at)
    how: Any = {"weights": {"correctness": 0.2, "speed": 0.8}, "based_on": looked_at}
    with pytest.raises(Conflict, match="'maze' has changed since you looked"):
        organiser.rescore("maze", reason="b", **how)
    monkeypatch.setattr(challenges, "MOST_AT_ONCE", 0)
    assert wait(services, organiser.rescore("maze", reason="b", **how).job).state == "failed"


@pytest.mark.usefixtures("_queued")
def test_arithmetic_is_done_at_once_however_much_it_is(organiser: Challenges) -> None:
    done = organiser.rescore("frugal", formula="tokens_total", strategy="custom", preview=True)
    assert done.rescoring is not None
    assert done.rescoring.moved == 2
    assert organiser.get("frugal").scoring.formula == "1000 - tokens_total"


@pytest.mark.usefixtures("_queued")
def test_a_job_tells_how_far_it_is(
    services: TenantServices, organiser: Challenges, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    queue = type(services.store.job_queue)
    note = queue.note_progress

    def look(self: object, claimed: object, done: int, total: int | None) -> None:
        note(self, claimed, done, total)  # type: ignore[arg-type]
        told.append(services.store.jobs.find("rescore", "maze"))

    monkeypatch.setattr(queue, "note_progress", look)
    monkeypatch.setattr(workers, "_NOTED_EVERY", 0.0)
    wait(services, organiser.rescore("maze", weights=WEIGHTS, reason="x").job)
    seen = [each.result for each in told if each is not None]
    assert {"progress": {"done": 0, "of": 4}} in seen
