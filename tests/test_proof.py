"""When a proof by tests holds; `make proof` makes them."""

from __future__ import annotations

import pytest
from scripts import proof


@pytest.mark.parametrize(
    ("said", "code", "holds"),
    [
        ("3 passed, 1 skipped in 2.00s", 0, True),
        ("1 failed, 3 passed in 2.00s", 1, False),
        ("12 skipped in 0.10s", 0, False),
        ("no tests ran in 0.01s", 5, False),
        ("left out: you are not root", 0, False),
        ("", 0, False),
    ],
)
def test_tests_of_which_none_passed_show_nothing(said: str, code: int, holds: bool) -> None:
    words = ("-c", f"print({said!r}); raise SystemExit({code})")
    assert proof._try("Some", "Something.", *words).holds is holds
