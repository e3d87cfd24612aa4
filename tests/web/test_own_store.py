"""One's own pages answer to this machine's own names alone."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import PORT


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
def test_names_of_this_machine_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/keys", headers={"Host": f"{host}:{PORT}"}).status_code == 200


@pytest.mark.parametrize(
    "host", ["example.org", f"example.org:{PORT}", "localhost", "localhost:80", "", "127.0.0.1.x"]
)
def test_any_other_name_is_refused(client: TestClient, host: str) -> None:
    refused = client.get("/keys", headers={"Host": host})
    assert refused.status_code == 421
    assert "<" not in refused.text
