"""An opponent is what the others' results say, and one's own change nothing of it."""

from __future__ import annotations

import numpy as np
import pytest

from tallymark.ratings.opponents import Opponents, leave_out


def test_the_one_who_is_left_out_has_no_say() -> None:
    """Two others at 0 lost two of three each: the opponent is log 2 above them, prior aside."""
    own = np.array([0.0, 0.0, 5.0])
    for lost in (0.0, 3.0):
        losses, matches = np.array([2.0, 2.0, lost]), np.full(3, 3.0)
        start = Opponents(np.full(3, lost - 1), np.ones(3))
        at = np.zeros(3, dtype=np.intp)
        found = leave_out(at, own, losses, matches, start=start, precision=1e-9)
        assert found.values[2] == pytest.approx(np.log(2), abs=1e-6)
        assert found.known[2] == pytest.approx(6 * 2 / 9, abs=1e-6)


def test_where_many_have_met_it_the_step_stands() -> None:
    many = 65
    start = Opponents(np.arange(many, dtype=np.float64), np.ones(many))
    at, some = np.zeros(many, dtype=np.intp), np.ones(many)
    found = leave_out(at, some, some, some, start=start, precision=1.0)
    assert found.values.tolist() == start.values.tolist()
