"""Addresses that cannot be read are refused in a sentence, and never bent."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tallymark.web.page import Pager


@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        ("/runs?offset=-1", 422, "no number from 0"),
        ("/runs?limit=0", 422, "no number from 1"),
        ("/runs?limit=100000", 422, "no number from 1 to 200"),
        ("/runs?sort=password", 422, "use created_at"),
        ("/runs?status=odd", 422, "is not known"),
        ("/compare?run=rnone", 422, "two to six runs"),
        ("/compare?run=rnone&run=nothing", 404, "there is no run"),
        ("/compare?run=rnone&run=rntwo&case=nothing", 404, "none of the runs has the case"),
        ("/runs/rntwo/cases/nothing", 404, "no result of the case"),
        ("/runs/nothing", 404, "there is no run"),
        ("/challenges/mase", 404, "did you mean"),
        ("/attempts/a99", 404, "there is no attempt"),
        ("/agents/nobody", 404, "there is no agent"),
    ],
)
def test_what_is_wrong_is_said(client: TestClient, address: str, status: int, says: str) -> None:
    page = client.get(address)
    assert page.status_code in (status, 422)
    assert says in page.text.casefold()


def test_an_unknown_format_is_refused(client: TestClient) -> None:
    assert client.get("/runs?format=xml").status_code == 422


def test_a_part_of_an_id_leads_to_the_run(client: TestClient) -> None:
    found = client.get("/runs/rntw?view=side", follow_redirects=False)
    assert found.status_code == 303
    assert found.headers["location"] == "/runs/rntwo?view=side"


@pytest.mark.parametrize(
    ("pager", "shown", "before", "after"),
    [
        (Pager(offset=0, limit=50, total=0), (0, 0), None, None),
        (Pager(offset=0, limit=50, total=50), (1, 50), None, None),
        (Pager(offset=50, limit=50, total=51), (51, 51), 0, None),
        (Pager(offset=10, limit=50, total=200), (11, 60), 0, 60),
    ],
)
def test_a_pager_knows_its_neighbours(
    pager: Pager, shown: tuple[int, int], before: int | None, after: int | None
) -> None:
    assert ((pager.first, pager.last), pager.before, pager.after) == (shown, before, after)


def test_cells_of_csv_are_no_formulas(client: TestClient) -> None:
    assert "\n=" not in client.get("/runs?format=csv").text
