"""A store of one's own, which organisers change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from httpx2 import Response
from starlette.testclient import TestClient
from tests.web.conftest import ADDRESS, browse_as, open_app
from tests.web.page_samples import fill_contests

from tallymark.service.app import App


@pytest.fixture
def own_app(tmp_path: Path) -> Iterator[App]:
    """Boards that were played, and nobody else looks at."""
    with closing(open_app(tmp_path / "tally.db", fill_contests)) as opened:
        yield opened


@pytest.fixture
def organiser(own_app: App) -> TestClient:
    """Of somebody who runs challenges there."""
    return browse_as(own_app, "organiser")


def post(client: TestClient, path: str, do: str, **fields: str) -> Response:
    """A form that the page need not have, with the token of one's own session."""
    own = re.search(r'name="csrf" value="([^"]+)"', client.get("/account").text)
    sent = fields | {"do": do} | ({"csrf": own[1]} if own else {})
    return client.post(path, data=sent, headers={"Origin": ADDRESS}, follow_redirects=False)
