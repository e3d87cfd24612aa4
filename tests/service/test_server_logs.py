"""Which format the log has."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tallymark.errors import InvalidInput
from tallymark.service.server_logs import log_request, set_up_logs


@pytest.mark.parametrize(
    ("flag", "variable", "said"),
    [("jsno", "", "--log-format: .* did you mean 'json'"), (None, "xml", "TALLY_LOG: .* quiet")],
)
def test_a_format_that_there_is_not(flag: str | None, variable: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        set_up_logs(flag, {"TALLY_LOG": variable})


def test_without_a_word_requests_are_not_logged() -> None:
    with logs(None):
        assert not logging.getLogger("tallymark.requests").isEnabledFor(logging.INFO)


@contextmanager
def logs(chosen: str | None) -> Iterator[io.StringIO]:
    """What is written in this format meanwhile."""
    stream = io.StringIO()
    handler = set_up_logs(chosen, {}, stream)
    try:
        yield stream
    finally:
        logging.getLogger().removeHandler(handler)
        logging.getLogger("tallymark").setLevel(logging.NOTSET)


@pytest.mark.parametrize("chosen", ["text", "json"])
def test_a_key_in_place_of_a_request_id_is_hidden(chosen: str) -> None:
    """A header of the client's, so anything may be in it."""
    key = "tly_" + "a" * 43
    with logs(chosen) as written:
        log_request({"tally.request_id": key, "method": "GET", "path": "/"}, 200, 0.1)
        logging.getLogger("tallymark").warning("signed by whsec_3LtWlE5T9Sxz2DUco6CM+/==")
    assert "aaaa" not in written.getvalue()
    assert "3LtW" not in written.getvalue()
    assert written.getvalue().count("[hidden]") == 2


def test_an_entry_is_one_line_whatever_is_in_it() -> None:
    said = "no run 'a\nb\r\x1b[31m\u2028\x85c'"
    with logs("text") as written:
        logging.getLogger("tallymark").warning(said)
    assert written.getvalue().splitlines() == [written.getvalue()[:-1]]
    assert r"'a\nb\r\x1b[31m\u2028\x85c'" in written.getvalue()
    with logs("json") as written:
        logging.getLogger("tallymark").warning(said)
    assert json.loads(written.getvalue())["message"] == said
