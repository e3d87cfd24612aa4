"""How many examples a law is tried on, and which.

Two profiles of Hypothesis. `make test` tries a fifth of the examples, the same ones every time;
`make proof` (`pytest --hypothesis-profile=proof`) tries all of them, drawn anew at each run.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

USUAL = "test"
PART, FEWEST = 5, 20

# Neither deadlines nor `too_slow`: how busy the machine is just now says nothing about a law.
_settings = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
SHARED_FIXTURE = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
"""`suppress_health_check` for a law whose examples share a fixture of the test."""
settings.register_profile(USUAL, _settings, max_examples=FEWEST, derandomize=True)
settings.register_profile("proof", _settings, max_examples=100)


def examples(full: int, usual: int | None = None) -> int:
    """For a law that asks for a number of its own; a usual one where each example is a contest."""
    if settings.get_current_profile_name() != USUAL:
        return full
    return max(full // PART, FEWEST) if usual is None else usual
