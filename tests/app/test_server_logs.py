"""Which format the log has."""

from __future__ import annotations

import logging

import pytest

from tallymark.app.server_logs import set_up_logs
from tallymark.errors import InvalidInput


@pytest.mark.parametrize(
    ("flag", "variable", "said"),
    [("jsno", "", "--log-format: .* did you mean 'json'"), (None, "xml", "TALLY_LOG: .* quiet")],
)
def test_a_format_that_there_is_not(flag: str | None, variable: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        set_up_logs(flag, {"TALLY_LOG": variable})


def test_without_a_word_requests_are_not_logged() -> None:
    handler = set_up_logs(None, {})
    try:
        assert not logging.getLogger("tallymark.requests").isEnabledFor(logging.INFO)
    finally:
        logging.getLogger().removeHandler(handler)
        logging.getLogger("tallymark").setLevel(logging.NOTSET)
