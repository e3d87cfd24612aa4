"""What is lost of a trace, in words and in sums."""

from __future__ import annotations

from tallymark.traces.span_limits import Lost


def test_nothing_lost_says_nothing() -> None:
    assert not Lost()
    assert Lost().describe() == ""


def test_losses_add_up_and_say_what_they_are() -> None:
    lost = Lost(spans_refused=1) + Lost(spans_refused=2, spans_cut=1, characters_cut=3)
    assert lost == Lost(spans_refused=3, spans_cut=1, characters_cut=3)
    assert lost.describe() == "3 spans refused, 1 span cut by 3 characters"
