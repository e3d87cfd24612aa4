"""`tests`: submitted code against test cases."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.challenges.challenge_folders import challenge_in, judged

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.challenge import Challenge
from tallymark.challenges.evaluators.function_calls import (
    CallResults,
    SubmittedProgram,
    _CaseTalk,
)
from tallymark.challenges.evaluators.program_cases import ProgramCase, parse_cases, read_cases
from tallymark.errors import InvalidInput

TEXT = """
    name: adder
    submission: {format: files}
    data: {public: given.txt}
    evaluator: {type: tests, cases: cases.yaml, time: 2}
    scoring: {dimensions: {correctness: 0.9, speed: 0.1}}
"""
CASES = """
    - {name: small, call: add, args: [1, 2], value: 3}
    - {name: named, call: add, kwargs: {a: 0.1, b: 0.2}, value: 0.3,
       primitive: numeric_tolerance, tolerance: 0.001}
    - {name: nothing, call: add, args: [0, 0], value: null}
    - {name: program, args: [4, 5], stdin: "one\\ntwo", stdout: "9 one"}
    - {name: failing, args: [x, y], exit: 3}
"""
GOOD = """
    import sys
    from adding import plain

    def add(a, b):
        print("noise", file=sys.stderr)
        print("noise")
        return plain(a, b) if a or b else None

    if __name__ == "__main__":
        if not sys.argv[1].isdigit():
            sys.exit(3)
        print(plain(int(sys.argv[1]), int(sys.argv[2])), input(), " ")
"""
ADDING = "def plain(a, b):\n    return a + b\n"


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = {"cases.yaml": CASES, "given.txt": "given", "solution.py": "SECRET = 'of ours'"}
        self.challenge = challenge_in(folder, TEXT, files)

    def judge(self, code: str, **more: str) -> Evaluation:
        files = {"solution.py": textwrap.dedent(code), "adding.py": ADDING, **more}
        return judged(self.challenge, self.folder, files)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("tests"))


def passed(found: Evaluation) -> list[str]:
    return [case["name"] for case in found.details["cases"] if case["passed"]]


def test_good_code_passes_every_case(world: World) -> None:
    found = world.judge(GOOD)
    assert passed(found) == ["small", "named", "nothing", "program", "failing"]
    assert found.dimensions == {"correctness": 1000.0}
    assert found.metrics.succeeded
    assert found.metrics.more == {"tests_passed": 5, "tests_total": 5}


def test_the_score_is_the_share_of_cases_passed(world: World) -> None:
    found = world.judge("def add(a, b):\n    return a + b\n")
    assert passed(found) == ["small", "named"]
    assert found.dimensions == {"correctness": 400.0}
    assert not found.metrics.succeeded


def test_the_same_code_is_judged_alike(world: World) -> None:
    assert world.judge(GOOD) == world.judge(GOOD)


def test_details_tell_names_and_nothing_else(world: World) -> None:
    code = "def add(a, b):\n    raise ValueError([a, b])\n"
    assert world.judge(code).details["cases"][0] == {"name": "small", "passed": False}


FAILING = {
    "syntax": "def add(:",
    "raises-on-import": "1 / 0",
    "exits-on-import": "import sys; sys.exit(0)",
    "dies-on-import": "import os; os._exit(0)",
    "no-function": "x = 1",
    "not-a-function": "add = 5",
    "raises": "def add(a, b):\n    raise KeyError",
    "exits": "def add(a, b):\n    raise SystemExit",
    "dies": "def add(a, b):\n    import os; os._exit(0)",
    "killed": "def add(a, b):\n    import os; os.kill(os.getpid(), 9)",
    "no-json": "def add(a, b):\n    return {1, 2}",
    "nan": "def add(a, b):\n    return float('nan')",
    "recursive-value": "def add(a, b):\n    x = []; x.append(x); return x",
    "deep": "def add(a, b):\n    return add(a, b)",
    "memory": "def add(a, b):\n    return len(bytearray(10**12))",
    "much": "def add(a, b):\n    return 'x' * 10**7",
    "huge-int": "def add(a, b):\n    return 10**5000",
    "prints-frames": "def add(a, b):\n    print('[0, 3]'); print('0 3'); return 0",
    "closes-everything": "def add(a, b):\n    import os; os.closerange(0, 64)",
}


@pytest.fixture(scope="module")
def calling(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Evaluation]:
    folder = tmp_path_factory.mktemp("calling")
    text = "name: x\nsubmission: {format: text}\nevaluator: {type: tests, cases: c.yaml, time: 2}"
    challenge = challenge_in(
        folder, text, {"c.yaml": "- {name: a, call: add, args: [1, 2], value: 3}"}
    )
    return lambda code: judged(challenge, folder, code)


@pytest.mark.parametrize("name", FAILING)
def test_code_that_goes_wrong_passes_nothing_and_is_no_error(
    calling: Callable[[str], Evaluation], name: str
) -> None:
    found = calling(FAILING[name])
    assert passed(found) == []
    assert (found.error, found.dimensions) == (None, {"correctness": 0.0})


def test_code_that_ends_the_sandbox_in_one_call_is_still_called_for_the_others(
    tmp_path: Path,
) -> None:
    cases = """
        - {name: first, call: f, args: [1], value: 1}
        - {name: dies, call: f, args: [0], value: 0}
        - {name: last, call: f, args: [2], value: 2}
    """
    text = "name: x\nsubmission: {format: text}\nevaluator: {type: tests, cases: c.yaml}"
    challenge = challenge_in(tmp_path, text, {"c.yaml": cases})
    code = "import os\ndef f(x):\n    return x or os._exit(0)\n"
    assert passed(judged(challenge, tmp_path, code)) == ["first", "last"]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("def add(:", "solution.py could not be imported (SyntaxError)"),
        ("class Inputs12(Exception): pass\nraise Inputs12", "solution.py could not be imported"),
    ],
    ids=["syntax", "own-exception"],
)
def test_why_code_was_not_imported_is_told_but_not_in_its_own_words(
    calling: Callable[[str], Evaluation], code: str, told: str
) -> None:
    assert [each["message"] for each in calling(code).warnings] == [told]


def test_a_call_that_takes_too_long_does_not_cost_the_others(tmp_path: Path) -> None:
    cases = """
        - {name: slow, call: f, args: [1], value: 1}
        - {name: quick, call: f, args: [0], value: 0}
    """
    text = "name: x\nsubmission: {format: text}\nevaluator: {type: tests, cases: c.yaml, time: 0.5}"
    challenge = challenge_in(tmp_path, text, {"c.yaml": cases})
    code = "def f(x):\n    while x: pass\n    return x\n"
    assert passed(judged(challenge, tmp_path, code)) == ["quick"]


def test_code_that_ignores_its_alarm_is_ended_from_outside(tmp_path: Path) -> None:
    cases = """
        - {name: stuck, call: f, args: [1], value: 1}
        - {name: quick, call: f, args: [0], value: 0}
    """
    text = "name: x\nsubmission: {format: text}\nevaluator: {type: tests, cases: c.yaml, time: 0.3}"
    challenge = challenge_in(tmp_path, text, {"c.yaml": cases})
    code = """
        import signal
        def f(x):
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            while x: pass
            return x
    """
    assert passed(judged(challenge, tmp_path, textwrap.dedent(code))) == ["quick"]


SPYING = """
    import os, sys

    def texts():
        for root in (".", "..", "/", "/tmp", "/home", "/root", "/proc/self", "/proc/1", "/run"):
            for top, folders, names in os.walk(root):
                folders[:] = [name for name in folders if name not in ("usr", "lib", "sys", "task")]
                for name in names:
                    try:
                        with open(os.path.join(top, name), errors="replace") as file:
                            yield name, file.read(100_000)
                    except OSError:
                        pass
        yield "environment", str(dict(os.environ))
        yield "arguments", str(sys.argv)

    def spy():
        seen = list(texts())
        secret = "eulav-terces"[::-1]
        found = [name for name, text in seen if secret in text]
        return [found, any(name == "given.txt" for name, _ in seen)]
"""


def test_expected_values_and_the_organisers_files_are_not_in_the_sandbox(tmp_path: Path) -> None:
    cases = """
        - {name: nothing-but-public-data, call: spy, value: [[], true]}
        - {name: secret, call: spy, value: secret-value}
    """
    files = {"cases.yaml": cases, "given.txt": "given", "notes.txt": "secret-value"}
    challenge = challenge_in(tmp_path, TEXT.replace("time: 2", "time: 10"), files)
    answer = {"solution.py": textwrap.dedent(SPYING)}
    assert passed(judged(challenge, tmp_path, answer)) == ["nothing-but-public-data"]


def test_only_an_answer_to_what_was_asked_counts() -> None:
    cases = {
        0: ProgramCase(name="a", call="f", value=1),
        1: ProgramCase(name="b", call="f", value=2),
    }
    program = SubmittedProgram(files={}, entry="solution.py", time_s=1.0, memory_mb=64)
    called = CallResults()
    talk = _CaseTalk(program, list(cases.items()), called)
    ready = json.loads(talk.opening)[0].encode() + b"[]\n"
    assert talk.hear(b"noise\n" + ready[:5]) is None
    first = talk.hear(ready[5:])
    assert first is not None
    word, *asked = json.loads(first.told)
    assert asked == ["f", [], {}]
    for noise in (ready, b"[1]\n", b"\xff\n", word[:8].encode() + b"[5]\n"):
        assert talk.hear(noise) is None
    second = talk.hear(word.encode() + b"[5]\n" + word.encode() + b"[6]\n")
    assert second is not None
    assert talk.hear(word.encode() + b"[7]\n") is None
    last = talk.hear(json.loads(second.told)[0].encode() + b"no JSON\n")
    assert last == (b"", 0.0)
    assert (called.values, talk.answered) == ({0: 5}, 2)


@pytest.mark.parametrize(
    "answer",
    [None, "code", {}, {"other.py": ""}, {"solution.py": 1}, {"../solution.py": ""}, [1]],
    ids=str,
)
def test_what_is_no_code_scores_zero_everywhere(world: World, answer: Any) -> None:
    found = judged(world.challenge, world.folder, answer)
    assert found.error is None
    assert found.dimensions == {"correctness": 0.0}
    assert {each["dimension"] for each in found.warnings} == {"correctness", "speed"}


def test_cases_may_be_generated(tmp_path: Path) -> None:
    text = """
        name: x
        submission: {format: text}
        data: {generate: generate.py}
        evaluator: {type: tests, pass_at: 500}
    """
    script = """
        def generate(seed):
            cases = [{"name": "a", "call": "f", "args": [seed], "value": seed + 1},
                     {"name": "b", "call": "f", "args": [0], "value": 5}]
            return {"public": {}, "truth": {"cases": cases}}
    """
    challenge = challenge_in(tmp_path, text, {"generate.py": script})
    found = judged(challenge, tmp_path, "def f(n):\n    return n + 1\n", seed=41)
    assert passed(found) == ["a"]
    assert found.metrics.succeeded


def test_a_public_file_of_the_same_name_gives_way_to_the_submitted_one(tmp_path: Path) -> None:
    text = """
        name: x
        submission: {format: files}
        data: {public: solution.py}
        evaluator: {type: tests, cases: c.yaml}
    """
    files = {"c.yaml": "- {name: a, call: f, value: 2}", "solution.py": "def f(): return 1"}
    challenge = challenge_in(tmp_path, text, files)
    assert passed(judged(challenge, tmp_path, {"solution.py": "def f(): return 2"})) == ["a"]


def test_files_that_stand_in_the_way_of_public_data_are_no_error(world: World) -> None:
    found = world.judge(GOOD, **{"given.txt/solution.py": "x", "json.py": "1 / 0"})
    assert (found.error, found.dimensions) == (None, {"correctness": 1000.0})


@pytest.mark.parametrize(
    ("cases", "told"),
    [
        ("[]", "the list is empty"),
        ("- {name: a}", "nothing is expected; write 'call' and 'value'"),
        ("- {name: a, call: f}", "needs the 'value' it ought to give"),
        ("- {name: a, call: f, value: 1, stdout: x}", "that calls a function has no 'stdout'"),
        ("- {name: a, stdout: x, value: 1}", "without 'call' has no 'value'"),
        ("- {name: a, exit: 0, args: ['']}", "a program's arguments are not empty"),
        ("- {name: a, exit: 300}", "300 is not a whole number from 0 to 255"),
        ("- {name: a, exit: 0}\n- {name: a, exit: 1}", "two cases are named 'a'"),
        ("- {name: a, call: f, value: x, primitive: coverage}", "the truth must be a list"),
        ("{case: []}", "the key 'cases' is missing"),
        ("- {nam: a, exit: 0}", "unknown key 'nam'; did you mean 'name'?"),
    ],
)
def test_cases_that_make_no_sense_are_refused(tmp_path: Path, cases: str, told: str) -> None:
    (tmp_path / "c.yaml").write_text(cases)
    with pytest.raises(InvalidInput) as raised:
        read_cases(tmp_path / "c.yaml")
    assert told in str(raised.value)


@pytest.mark.parametrize("truth", [None, [], {}, {"cases": {}}, {"cases": [{"nam": "a"}]}])
def test_generated_cases_that_make_no_sense_are_refused(truth: Any) -> None:
    with pytest.raises(InvalidInput):
        parse_cases(truth, "generate.py")


def test_tests_need_code(tmp_path: Path) -> None:
    text = "name: x\nevaluator: {type: tests, cases: c.yaml}"
    with pytest.raises(InvalidInput, match="tests need code, and none is submitted"):
        challenge_in(tmp_path, text, {"c.yaml": "- {name: a, exit: 0}"})


def challenge_weighing(folder: Path, dimensions: str) -> Challenge:
    text = f"""
        name: x
        submission: {{format: files}}
        evaluator: {{type: tests, cases: c.yaml}}
        scoring: {{dimensions: {dimensions}}}
    """
    return challenge_in(folder, text, {"c.yaml": "- {name: a, exit: 0}"})


def test_tests_score_one_dimension(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="tests score 'correctness' alone, and 'analysis' has"):
        challenge_weighing(tmp_path, "{correctness: 0.5, analysis: 0.5}")
