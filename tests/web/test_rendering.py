"""How values are written on pages."""

from __future__ import annotations

import pytest

from tallymark.web.rendering import write_sentence


@pytest.mark.parametrize(
    ("message", "written"),
    [
        ("there is no run", "There is no run."),
        ("sure?", "Sure?"),
        ("r4k2: it is gone", "r4k2: it is gone."),
        ("suite.yaml has no evals", "suite.yaml has no evals."),
        ("tally show r4k2", "tally show r4k2."),
        ("", "."),
    ],
)
def test_a_sentence_has_a_capital_where_it_begins_with_a_word(message: str, written: str) -> None:
    assert write_sentence(message) == written
