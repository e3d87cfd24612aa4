"""How many examples a law is tried on: a fifth of them in `make test`, all in `make proof`.

Two profiles of Hypothesis; `pytest --hypothesis-profile=proof` takes the second.
"""

from __future__ import annotations

from hypothesis import settings

USUAL = "test"
PART, FEWEST = 5, 20

# No deadlines: how quick the machine is just now says nothing about a law.
settings.register_profile(USUAL, max_examples=FEWEST, deadline=None)
settings.register_profile("proof", max_examples=100, deadline=None)


def examples(full: int, usual: int | None = None) -> int:
    """For a law that asks for a number of its own; a usual one where each example is a contest."""
    if settings.get_current_profile_name() != USUAL:
        return full
    return max(full // PART, FEWEST) if usual is None else usual
