"""The time of a case is kept by the host, whatever the submission does to its own process."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from tests.sandbox.backends import FIRST

from tallymark.challenges.evaluators.function_calls import SubmittedProgram, call_functions
from tallymark.challenges.evaluators.program_cases import ProgramCase
from tallymark.sandbox import Policy

LIMIT_S = 0.5


@pytest.fixture(params=FIRST)
def policy(request: pytest.FixtureRequest) -> Policy:
    return Policy(request.param)


def call(policy: Policy, source: str, *arguments: int) -> dict[int, object]:
    program = SubmittedProgram(
        files={"solution.py": textwrap.dedent(source)},
        entry="solution.py",
        time_s=LIMIT_S,
        memory_mb=128,
        policy=policy,
    )
    cases = {at: ProgramCase(name=str(at), call="f", args=[n]) for at, n in enumerate(arguments)}
    return call_functions(program, cases).values


SLOW = "import time\ndef f(n):\n    time.sleep(1.4 if n == 13 else 0)\n    return n\n"


@pytest.mark.parametrize(
    "trick",
    [
        pytest.param("", id="none"),
        pytest.param("import signal\nsignal.setitimer = lambda *_: None\n", id="no timer"),
        pytest.param("import signal\nsignal.alarm(0)\nsignal.signal = print\n", id="no signals"),
        pytest.param("import time\ntime.monotonic = time.time = lambda: 0.0\n", id="no clock"),
    ],
)
def test_a_slow_case_fails_and_the_others_are_called(policy: Policy, trick: str) -> None:
    assert call(policy, trick + SLOW, 1, 13, 2, 3) == {0: 1, 2: 2, 3: 3}


def test_bytes_that_are_no_answer_win_no_time(policy: Policy) -> None:
    source = """
        import os, sys, time
        def f(n):
            out = sys._getframe(1).f_globals["out"]
            for _ in range(14 if n == 13 else 0):
                time.sleep(0.1)
                out.write(b"x")
            return n
    """
    assert call(policy, source, 13, 2) == {1: 2}


def test_no_case_is_answered_before_it_is_asked(policy: Policy) -> None:
    """It answers the first case with its word as often as it can, and then takes its time."""
    source = """
        import sys, time
        def f(n):
            runner = sys._getframe(1).f_globals
            if n == 1:
                for _ in range(100):
                    runner["tell"](runner["word"], 7)
            time.sleep(1.4 if n == 13 else 0)
            return n
    """
    assert call(policy, source, 1, 13, 2) == {0: 7, 2: 2}


def test_later_cases_are_not_known_while_an_earlier_one_is_asked(policy: Policy) -> None:
    source = """
        import os, select, sys
        def f(n):
            runner = sys._getframe(1).f_globals
            ready = select.select([runner["asked"]], [], [], 0.1)[0]
            known = [v for v in vars(sys.modules["__main__"]).values() if v == [4321]]
            return [bool(ready), len(known)]
    """
    assert call(policy, source, 1, 4321) == {0: [False, 0], 1: [False, 1]}


def test_a_case_that_ends_the_process_costs_itself(policy: Policy) -> None:
    source = "import os\ndef f(n):\n    if n == 13: os._exit(0)\n    return n\n"
    assert call(policy, source, 13, 1, 13, 2) == {1: 1, 3: 2}


def test_an_import_without_end_is_stopped_once(policy: Policy, tmp_path: Path) -> None:
    program = SubmittedProgram(
        files={"solution.py": "while True: pass"},
        entry="solution.py",
        time_s=LIMIT_S,
        memory_mb=128,
        policy=policy,
    )
    cases = {at: ProgramCase(name=str(at), call="f", args=[at]) for at in range(40)}
    called = call_functions(program, cases)
    assert (called.values, called.not_loaded) == ({}, "")
