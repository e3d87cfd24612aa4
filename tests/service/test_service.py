"""`Service`: what a server process holds is wired together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.account_samples import act

from tallymark.challenges.attempt import Metrics
from tallymark.challenges.challenge import Challenge, Evaluator, ScoringRule
from tallymark.service.callers import Caller
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings

OPERATOR = Caller("default", "admin", "ada")
SUMS = Challenge(
    name="sums",
    title="Sums",
    goal="Add up.",
    version="v1",
    evaluator=Evaluator(type="reported"),
    scoring=ScoringRule(formula="tokens_total"),
)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(ServiceSettings(db=str(tmp_path / "tally.db"), workers=0))
    made.open()
    made.app.store.challenges.publish(SUMS, b"", at=0.0)
    yield made
    made.close()


def read_metric(service: Service, name: str) -> float:
    lines = service.metrics.render().decode().splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def test_who_listens_hears_of_a_commit_before_anybody_looks(service: Service) -> None:
    """The hub looks by itself only after an hour here, so the writer must have told it."""
    service.live._gathering_s = 3600.0

    async def main() -> bytes:
        competition = service.tenant("default").competition
        stream = await service.live.listen(service.app.store, "sums", "public")
        heard = b""
        async for data in stream:
            heard += data
            if b"event: ready" in data:
                assert read_metric(service, "tally_listeners") == 1
                await competition.areport("sums", "bot", Metrics(succeeded=True, tokens_total=5))
            if b"event: board" in data:
                break
        await service.live.close()
        return heard

    assert b'"agent":"bot"' in asyncio.run(main())


def test_the_writer_is_counted(service: Service) -> None:
    competition = service.tenant("default").competition
    competition.report("sums", "bot", Metrics(succeeded=True, tokens_total=5))
    assert read_metric(service, 'tally_writer{kind="written"}') >= 1
    assert read_metric(service, 'tally_writer{kind="waiting"}') == 0


def test_a_tenants_own_limits_hold(service: Service) -> None:
    reporter = Caller("default", "reporter", "rita", key_id="k1")
    usual = service.limits.find_limit(reporter, "report")
    act(service, OPERATOR).tenants.change("default", {"limits": {"report": 7}})
    assert service.limits.find_limit(reporter, "report") == 7
    assert usual > 7


def test_a_tenant_that_is_not_there_has_the_servers_limits(service: Service) -> None:
    nobody = Caller("elsewhere", "anonymous", "anonymous", address="192.0.2.1")
    assert service.limits.find_limit(nobody, "read") > 0
