"""The audit log: filtered and paged on the server, and written whole as CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.web.page_samples import NOW

from tallymark.service.app import App

PATH = "/organiser/audit"
DAY = 86_400.0


@pytest.fixture
def log(own_app: App) -> App:
    """Eleven acts on eleven days, and one on an agent."""
    for place in range(11):
        act = (
            own_app.store.challenges.freeze if place % 2 == 0 else own_app.store.challenges.unfreeze
        )
        act("frugal", at=NOW - (10 - place) * DAY, reason=f"day {place}")
    own_app.store.disqualifications.disqualify("bob", at=NOW, reason="=cmd()")
    return own_app


def ask(client: TestClient, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"{PATH}?{query}&format=json").json()["entries"]
    return found


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("event=frozen", 6),
        ("event=frozen&challenge=frugal", 6),
        ("event=frozen&challenge=maze", 0),
        ("agent=bob", 1),
        ("actor=nobody", 0),
        ("event=unfrozen&from=2026-09-19&until=2026-09-20", 1),
    ],
)
def test_filters(log: App, organiser: TestClient, query: str, count: int) -> None:
    assert len(ask(organiser, query)) == count


def test_pages_go_on_where_the_last_ended(log: App, organiser: TestClient) -> None:
    whole = [each["seq"] for each in ask(organiser, "challenge=frugal")]
    seen: list[int] = []
    query = "challenge=frugal&limit=5"
    while True:
        told = organiser.get(f"{PATH}?{query}&format=json").json()
        seen += [each["seq"] for each in told["entries"]]
        if told["next"] is None:
            break
        query = f"challenge=frugal&limit=5&cursor={told['next']}"
    assert seen == whole == sorted(whole, reverse=True)


def test_a_csv_has_reasons_that_no_spreadsheet_takes_for_a_formula(
    log: App, organiser: TestClient
) -> None:
    text = organiser.get(f"{PATH}?agent=bob&format=csv").text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["reason"] for row in rows] == ["'=cmd()"]


@pytest.mark.parametrize("query", ["from=yesterday", "until=2026-13-01", "cursor=x", "limit=0"])
def test_what_is_no_filter_is_said(organiser: TestClient, query: str) -> None:
    assert organiser.get(f"{PATH}?{query}").status_code == 422
