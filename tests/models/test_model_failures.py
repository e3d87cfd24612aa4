from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from tallymark.models.model_failures import http_failure, one_line, retry_after


@pytest.mark.parametrize(
    ("status", "retryable", "throttled"),
    [
        (400, False, False),
        (401, False, False),
        (403, False, False),
        (404, False, False),
        (408, True, False),
        (409, True, False),
        (422, False, False),
        (429, True, True),
        (500, True, False),
        (502, True, False),
        (503, True, True),
        (504, True, False),
        (529, True, True),
    ],
)
def test_each_status_says_whether_to_ask_again(
    status: int, retryable: bool, throttled: bool
) -> None:
    error = http_failure("m", status, {}, "")
    assert (error.retryable, error.throttled) == (retryable, throttled)


@pytest.mark.parametrize(
    ("status", "said", "message"),
    [
        (401, "bad key", "m answered 401 Unauthorized: bad key; check the API key"),
        (529, "", "m answered 529 Overloaded"),
        (799, "", "m answered 799 (not a standard status)"),
        (500, "two\nlines", "m answered 500 Internal Server Error: two lines"),
    ],
)
def test_the_error_is_one_sentence(status: int, said: str, message: str) -> None:
    assert str(http_failure("m", status, {}, said)) == message


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After-Ms": "250", "Retry-After": "7"}, 0.25),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, 0.0),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize("usegmt", [True, False])
def test_retry_after_may_be_a_date(usegmt: bool) -> None:
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=usegmt)
    seconds = retry_after({"Retry-After": moment})
    assert seconds is not None
    assert 85 < seconds <= 90


def test_a_long_speech_is_cut() -> None:
    assert len(one_line("word " * 1000)) == 300


def test_an_error_that_says_nothing_is_known_by_its_type() -> None:
    assert one_line(TimeoutError()) == "TimeoutError"
