"""Retries, refusals and events."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator

import httpx2
import msgspec
import pytest

from tallymark.client import Client
from tallymark.client.addresses import Address
from tallymark.client.exchange import (
    LONGEST_WAIT_S,
    LOOKS,
    TRIES,
    Call,
    EventReader,
    find_wait,
    read_refusal,
)
from tallymark.errors import (
    Busy,
    Conflict,
    InvalidInput,
    NotAllowed,
    NotFound,
    NotSignedIn,
    Place,
    Problem,
    TallymarkError,
    TooMany,
    WorkFailed,
)
from tallymark.service.problems import describe_problem


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "bad_request", InvalidInput),
        (401, "not_signed_in", NotSignedIn),
        (403, "not_allowed", NotAllowed),
        (404, "not_found", NotFound),
        (409, "conflict", Conflict),
        (422, "invalid_input", InvalidInput),
        (429, "too_many_requests", TooMany),
        (500, "internal_error", WorkFailed),
        (503, "busy", Busy),
        (503, "work_failed", WorkFailed),
    ],
)
def test_a_refusal_is_the_error_that_the_library_raises(
    status: int, code: str, kind: type[TallymarkError]
) -> None:
    wrong = Problem("it is wrong", Place("metrics.rating"), "mend it")
    body = msgspec.json.encode(describe_problem(status, [wrong], "r-1", code))
    found = read_refusal(status, {"retry-after": "7"}, body)
    assert type(found) is kind
    assert "metrics.rating: it is wrong; mend it" in str(found)
    if isinstance(found, TooMany | Busy):
        assert found.retry_after == 7


HALF_TOLD = [
    b'{"detail": "x"}',
    b'{"detail": "x", "code": "x", "errors": "no"}',
    b'{"detail": {}, "code": "x", "errors": []}',
    b'{"detail": "x", "code": "x", "errors": [{"message": 5, "line": "x"}]}',
]


@pytest.mark.parametrize("body", [b"", b"<html>Bad gateway</html>", b"[]", *HALF_TOLD])
def test_what_is_not_our_language_is_one_sentence(body: bytes) -> None:
    assert "answered 502" in str(read_refusal(502, {}, body))


@pytest.mark.parametrize("status", [200, 400, 404, 409, 422, 500])
def test_what_will_not_change_is_not_sent_again(status: int) -> None:
    assert find_wait(httpx2.Response(status), 1) is None


def test_the_server_says_when_to_come_back() -> None:
    told = find_wait(httpx2.Response(503, headers={"retry-after": "3"}), 1)
    assert told is not None
    assert 3 <= told <= 3.75
    long = httpx2.Response(429, headers={"retry-after": str(int(LONGEST_WAIT_S) + 1)})
    assert find_wait(long, 1) is None


def test_what_is_still_being_served_is_asked_for_again() -> None:
    later = httpx2.Response(409, headers={"retry-after": "1"})
    assert find_wait(later, TRIES, 5) == 1.0
    assert find_wait(later, 1, LOOKS) is None
    assert find_wait(httpx2.Response(409), 1) is None


def test_it_is_given_up_at_last() -> None:
    assert find_wait(None, TRIES - 1) is not None
    assert find_wait(None, TRIES) is None


def test_a_request_keeps_its_key_however_often_it_is_sent() -> None:
    address = Address(url="http://tally.test", key="tly_x")
    built = Call(method="POST", path="/runs", body={}).build(address)
    assert len(built["headers"]["Idempotency-Key"]) == 32
    other = Call(method="POST", path="/runs", body={}).build(address)
    assert built["headers"]["Idempotency-Key"] != other["headers"]["Idempotency-Key"]
    assert "Idempotency-Key" not in Call(method="GET", path="/runs").build(address)["headers"]


def test_a_name_is_one_part_of_a_path() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        assert request.url.raw_path == b"/api/v1/vars/a%2F..%2Fb%3Fc"
        return httpx2.Response(200, json={"vars": {}})

    with ask(answer) as client:
        client.settings.remove_var("a/../b?c")


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_what_would_name_another_place_names_nothing(name: str) -> None:
    with (
        ask(lambda _: httpx2.Response(204)) as client,
        pytest.raises(NotFound, match="nothing is called"),
    ):
        client.rules.pause(name)


def test_events_are_read_by_their_lines() -> None:
    reader = EventReader()
    lines = ["retry: 2000", "", "id: 4", "event: board", 'data: {"a": 1}', "", ": still here", ""]
    found = [event for line in lines if (event := reader.take(line))]
    assert [(each.kind, each.seq, each.data) for each in found] == [("board", 4, {"a": 1})]
    assert reader.last == "4"


def ask(answer: Callable[[httpx2.Request], httpx2.Response]) -> Client:
    """A client of a server that answers so."""
    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return Client("https://tally.example", key="tly_mine", http=http)


def test_a_redirect_is_told_and_not_followed() -> None:
    """A key is sent only to its own server, even after a redirect."""
    asked = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.host)
        return httpx2.Response(307, headers={"Location": "https://elsewhere.example/"})

    said = r"redirects to https://elsewhere\.example/\S*, and redirects are not followed; .*log in"
    with ask(answer) as client:
        with pytest.raises(WorkFailed, match=said):
            client.accounts.me()
        with pytest.raises(WorkFailed, match=said):
            next(iter(client.runs.events("r1")))
    assert asked == ["tally.example", "tally.example"]


def test_an_answer_without_an_end_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallymark.client.exchange.MOST_BYTES", 1000)
    packed = gzip.compress(b" " * 2000)
    headers = {"Content-Encoding": "gzip"}
    with (
        ask(lambda _: httpx2.Response(200, content=packed, headers=headers)) as client,
        pytest.raises(WorkFailed, match="the server's answer is longer than 1,000 bytes"),
    ):
        client.accounts.me()


def test_an_answer_that_cannot_be_unpacked_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallymark.client.connection.find_wait", lambda *_: None)
    answer = httpx2.Response(200, stream=Nonsense(), headers={"Content-Encoding": "gzip"})
    with ask(lambda _: answer) as client, pytest.raises(WorkFailed, match="cannot be reached"):
        client.accounts.me()


class Nonsense(httpx2.SyncByteStream):
    """A body that is not what its headers say."""

    def __iter__(self) -> Iterator[bytes]:
        yield b"nonsense"


def test_a_list_that_goes_in_circles_ends() -> None:
    body = {"items": [], "next": "again"}
    with (
        ask(lambda _: httpx2.Response(200, json=body)) as client,
        pytest.raises(WorkFailed, match="returns the same page again and again"),
    ):
        list(client.runs.list())


def test_an_event_that_is_none_is_one_sentence() -> None:
    headers = {"Content-Type": "text/event-stream"}
    answer = httpx2.Response(200, content=b"event: case\ndata: <html>\n\n", headers=headers)
    with ask(lambda _: answer) as client, pytest.raises(WorkFailed, match="that is no event"):
        next(iter(client.runs.events("r1")))


def test_who_reads_on_gets_large_pages() -> None:
    asked: list[tuple[str | None, str | None]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append((request.url.params.get("cursor"), request.url.params.get("limit")))
        following = {None: "b", "b": "c", "c": None}[asked[-1][0]]
        return httpx2.Response(200, json={"items": [], "next": following})

    with ask(answer) as client:
        assert list(client.runs.cases("r")) == []
        assert asked == [(None, "100"), ("b", "1000"), ("c", "1000")]
