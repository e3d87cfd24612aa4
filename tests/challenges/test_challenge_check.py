"""`check_challenge`: what it lets pass, and what it points at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.challenges.challenge_folders import folder_with
from tests.sandbox.backends import SAFE

from tallymark.challenges.challenge import Challenge, Evaluator, Submission
from tallymark.challenges.challenge_check import ChallengeReport, CheckFinding, check_challenge
from tallymark.challenges.challenge_check.challenge_trial import Trial
from tallymark.challenges.challenge_check.full_check import check_limits
from tallymark.challenges.challenge_check.junk_answers import empty_answers, random_answers
from tallymark.challenges.challenge_check.secrecy import check_sandbox
from tallymark.challenges.challenge_file import load_challenge
from tallymark.sandbox import Policy
from tallymark.sandbox.machine_probe import SafeBackend

INSECURE = Policy("insecure-local", ())
TRUTH = {"city": "Kempten", "people": 128_000, "rivers": ["Danube", "Iller", "Blau"]}
FIELDS = """
    city: exact_match
    people: {primitive: numeric_tolerance, tolerance: 1000}
    rivers: {primitive: set_overlap}
"""
CHALLENGE = f"""
name: atlas
goal: Find the city.
time_limit: 10m
attempts: 5
evaluator:
  type: deterministic
  truth: truth.json
  pass_at: 900
  fields: {FIELDS}
scoring: {{strategy: first}}
reference: answer.json
"""
SCRIPT = """
name: script
time_limit: 10m
attempts: 5
evaluator: {type: script, script: evaluate.py}
scoring: {strategy: first}
reference: answer.json
"""
RIGHT = 'def evaluate(submission, truth, data):\n    return {"succeeded": submission == 42}\n'
CODE = """
name: code
time_limit: 10m
attempts: 5
submission: {format: files}
evaluator: {type: tests, cases: cases.yaml}
scoring: {strategy: first}
reference: solution.py
"""
RUN = """
name: run
time_limit: 10m
attempts: 5
submission: {format: files}
evaluator:
  type: script
  script: evaluate.py
  run: {command: [python, solution.py]}
scoring: {strategy: first}
reference: solution.py
"""
RUN_RIGHT = (
    "def evaluate(submission, truth, data):\n"
    '    return {"succeeded": data["run"]["stdout"].strip() == "42"}\n'
)


def made(folder: Path, challenge: str, **files: Any) -> Path:
    """A challenge's folder; `_` in a name stands for its dot."""
    (folder / "challenge.yaml").write_text(challenge, encoding="utf-8")
    given = {"truth_json": TRUTH, "answer_json": TRUTH, **files}
    for name, content in given.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return folder


def found(report: ChallengeReport, level: str, what: str) -> str:
    return "\n".join(f.detail for f in report.findings if (f.level, f.what) == (level, what))


def test_a_good_challenge_passes(tmp_path: Path) -> None:
    report = check_challenge(made(tmp_path, CHALLENGE))
    assert report.ok
    assert {each.level for each in report.findings} == {"ok"}
    assert (report.challenge, report.version) == ("atlas", check_challenge(tmp_path).version)


def test_a_report_is_data(tmp_path: Path) -> None:
    report = check_challenge(made(tmp_path, CHALLENGE), samples=2)
    data = msgspec.to_builtins(report)
    assert data["ok"] is True
    assert data["findings"][0] == {
        "level": "ok",
        "what": "file",
        "detail": "deterministic, ordered by first",
    }


def test_every_mistake_of_the_file_is_a_problem(tmp_path: Path) -> None:
    wrong = CHALLENGE.replace("attempts: 5", "atempts: 5").replace("goal:", "gaol:")
    report = check_challenge(made(tmp_path, wrong))
    assert (report.ok, report.challenge) == (False, None)
    assert len(report.problems) == 2
    assert "did you mean 'attempts'" in found(report, "problem", "file")


@pytest.mark.parametrize(
    ("old", "new", "files", "expected", "said"),
    [
        pytest.param(
            "", "", {"answer_json": {"city": "Kempten"}}, ("problem", "reference"), "it loses",
            id="the reference fails",
        ),
        pytest.param(
            "reference: answer.json", "", {}, ("warning", "reference"), "there is none",
            id="no reference",
        ),
        pytest.param(
            "pass_at: 900", "pass_at: 0", {}, ("problem", "empty answers"), "null (1), an empty",
            id="nothing passes",
        ),
        pytest.param(
            "fields: " + FIELDS, "fields: {good: exact_match}",
            {"truth_json": {"good": True}, "answer_json": {"good": True}},
            ("problem", "random answers"), "random values in its shape",
            id="a coin would pass",
        ),
        pytest.param(
            "scoring: {strategy: first}", "scoring: {dimensions: {correctness: 0.2, speed: 0.8}}",
            {}, ("problem", "empty answers"), "null (800), an empty text (800)",
            id="speed alone wins",
        ),
        pytest.param(
            "scoring: {strategy: first}", "scoring: {dimensions: {correctness: 0.5, speed: 0.5}}",
            {}, ("warning", "empty answers"), "would be a draw",
            id="speed alone draws",
        ),
        pytest.param(
            "scoring: {strategy: first}", "scoring: {dimensions: {correctness: 0.6, speed: 0.4}}",
            {}, ("warning", "reference"), "after 90.0% of the time limit it is only a draw (640)",
            id="speed spoils the reference",
        ),
        pytest.param(
            "scoring:", "data: {public: hints.txt}\nscoring:",
            {"hints_txt": "Some say the city: Kempten"}, ("warning", "secrecy"), "as it is: city",
            id="the truth is public",
        ),
        pytest.param(
            "scoring:", "data: {public: hints.txt}\nscoring:",
            {"hints_txt": 'see [ "Danube", "Iller",\n"Blau" ]'}, ("warning", "secrecy"), ": rivers",
            id="a list of the truth is public",
        ),
        pytest.param(
            "scoring:", "data: {public: challenge.yaml}\nscoring:", {}, ("problem", "secrecy"),
            "challenge.yaml is public",
            id="the challenge is public",
        ),
        pytest.param(
            "scoring: {strategy: first}", "scoring: {formula: elapsed_s * succeeded}", {},
            ("warning", "formula"), "elapsed_s",
            id="the formula rewards slowness",
        ),
        pytest.param(
            "scoring: {strategy: first}", "scoring: {formula: tokens_total + 1}", {},
            ("problem", "reference"), "it has no score: the formula has no value",
            id="the formula has no value",
        ),
        pytest.param("attempts: 5", "", {}, ("warning", "limits"), "not limited", id="any number"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found(
    tmp_path: Path, old: str, new: str, files: dict[str, Any], expected: tuple[str, str], said: str
) -> None:
    assert old in CHALLENGE
    changed = CHALLENGE.replace(old, new, 1) if old else CHALLENGE
    report = check_challenge(made(tmp_path, changed, **files))
    assert said in found(report, *expected), report.findings
    assert report.ok is (expected[0] == "warning")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"time_limit_s": 2.0}, "only 2 s", id="no time"),
        pytest.param({"time_limit_s": 864_000.0}, "10 days", id="for ever"),
        pytest.param({"closes_at": 500.0}, "closed already", id="closed"),
        pytest.param({"opens_at": 2000.0, "closes_at": 2060.0}, "less time than", id="too short"),
        pytest.param(
            {"submission": Submission(max_bytes=20_000_000)}, "20,000,000 bytes", id="large"
        ),
        pytest.param(
            {"evaluator": Evaluator(type="tests", options={"time": 90, "memory": 9000})},
            "may take 90 s",
            id="long runs",
        ),
        pytest.param(
            {"evaluator": Evaluator(type="script", options={"run": {"memory": 9000}})},
            "9,000 MB",
            id="much memory",
        ),
    ],
)
def test_odd_limits_are_pointed_out(changes: dict[str, Any], said: str) -> None:
    plain: dict[str, Any] = {
        "name": "x",
        "title": "X",
        "goal": "",
        "version": "v",
        "attempts": 5,
        "evaluator": Evaluator(type="reported"),
    }
    findings = list(check_limits(Challenge(**plain | changes), now=1000.0))
    assert said in "\n".join(each.detail for each in findings)
    assert {each.level for each in findings} == {"warning"}
    assert [each.level for each in check_limits(Challenge(**plain), now=1000.0)] == ["ok"]


def test_a_script_that_is_sound_passes(tmp_path: Path) -> None:
    report = check_challenge(made(tmp_path, SCRIPT, evaluate_py=RIGHT, answer_json=42), samples=4)
    assert report.ok, report.findings
    assert "no submitted code is run" in found(report, "ok", "secrecy")


@pytest.mark.parametrize(
    ("script", "what", "said"),
    [
        pytest.param(
            "import os\n" + RIGHT.replace("42}", '42, "details": {"x": os.urandom(4).hex()}}'),
            "determinism",
            "evaluated differently",
            id="chance",
        ),
        pytest.param(
            RIGHT.replace("submission == 42", "submission + 0 == 42"),
            "empty answers",
            "the evaluator fails on null",
            id="fails on nothing",
        ),
        pytest.param(
            RIGHT.replace("submission == 42", 'bool(submission or submission == "")'),
            "empty answers",
            "an empty text",
            id="passes nothing",
        ),
        pytest.param("x = 1\n", "reference", "evaluate", id="no function"),
    ],
)
def test_a_script_that_is_not_sound_is_found(
    tmp_path: Path, script: str, what: str, said: str
) -> None:
    report = check_challenge(made(tmp_path, SCRIPT, evaluate_py=script, answer_json=42), samples=2)
    assert said in found(report, "problem", what), report.findings


GENERATED = SCRIPT.replace("evaluator:", "data: {generate: generate.py}\nevaluator:").replace(
    "answer.json", "solve.py"
)
SEEDED = RIGHT.replace("42", 'truth["n"]')


@pytest.mark.parametrize(
    ("generate", "level", "what", "said"),
    [
        pytest.param(
            'def generate(seed):\n    return {"public": {"n": seed}, "truth": {"n": seed}}\n',
            "ok", "data", "every seed has data of its own",
            id="sound",
        ),
        pytest.param(
            'def generate(seed):\n    return {"public": {"n": 3}, "truth": {"n": 3}}\n',
            "warning", "data", "the same data for every seed",
            id="seedless",
        ),
        pytest.param(
            "import os\ndef generate(seed):\n"
            '    n = os.urandom(8).hex()\n    return {"public": {"n": n}, "truth": {"n": n}}\n',
            "problem", "determinism", "evaluated differently",
            id="chance",
        ),
        pytest.param(
            "def generate(seed):\n    raise KeyError('oh')\n", "problem", "data", "oh", id="broken"
        ),
    ],
)  # fmt: skip
def test_generated_data_is_tried(
    tmp_path: Path, generate: str, level: str, what: str, said: str
) -> None:
    solve = 'def solve(data):\n    return data["n"]\n'
    folder = made(tmp_path, GENERATED, evaluate_py=SEEDED, generate_py=generate, solve_py=solve)
    report = check_challenge(folder, samples=1)
    assert said in found(report, level, what), report.findings
    assert report.ok is (level != "problem")


CASES = """
- {name: one, call: double, args: [1], value: 2}
- {name: two, call: double, args: [2], value: 4}
"""
SOLUTION = "def double(n):\n    return 2 * n\n"


def test_code_finds_no_truth_in_the_sandbox(tmp_path: Path) -> None:
    report = check_challenge(made(tmp_path, CODE, cases_yaml=CASES, solution_py=SOLUTION))
    assert report.ok, report.findings
    assert "submitted code found no truth" in found(report, "ok", "secrecy")


def probed(folder: Path, policy: Policy | None = None) -> CheckFinding:
    trial = Trial(challenge=load_challenge(folder), folder=folder, policy=policy)
    (finding,) = check_sandbox(trial)
    return finding


@pytest.mark.parametrize("challenge", [CODE, RUN], ids=["tests", "script"])
@pytest.mark.parametrize("backend", SAFE)
def test_a_program_finds_no_truth_in_the_sandbox(
    tmp_path: Path, backend: SafeBackend, challenge: str
) -> None:
    folder = made(
        tmp_path, challenge, cases_yaml=CASES, evaluate_py=RUN_RIGHT, solution_py=SOLUTION
    )
    finding = probed(folder, Policy(backend))
    assert finding.level == "ok", finding.detail


@pytest.mark.parametrize("challenge", [CODE, RUN], ids=["tests", "script"])
def test_a_sandbox_that_hides_nothing_is_a_problem(tmp_path: Path, challenge: str) -> None:
    """The probe must be able to find what it looks for."""
    folder = made(
        tmp_path, challenge, cases_yaml=CASES, evaluate_py=RUN_RIGHT, solution_py=SOLUTION
    )
    finding = probed(folder, INSECURE)
    assert finding.level == "problem"
    assert "can read what it must not: files" in finding.detail


JUDGE = """
name: judged
time_limit: 10m
attempts: 5
submission: {format: text}
evaluator: {type: judge, rubric: rubric.md, model: openai/gpt-4o-mini}
scoring: {strategy: highest_rating}
reference: essay.txt
"""


def test_no_judge_is_asked_unasked(tmp_path: Path) -> None:
    folder = made(tmp_path, JUDGE, rubric_md="Is it about tides?", essay_txt="The tides.")
    report = check_challenge(folder)
    assert report.ok
    assert "name one with --judge" in found(report, "warning", "reference")


def test_a_judge_that_is_named_tries_the_answers(tmp_path: Path) -> None:
    judge = (
        "def judge(prompt):\n"
        "    rating = 9 if 'tides' in prompt else 1\n"
        '    return f\'{{"reason": "r", "rating": {rating}}}\'\n'
    )
    folder = made(tmp_path, JUDGE, rubric_md="Is it good?", essay_txt="The tides.", judge_py=judge)
    report = check_challenge(folder, judge_model=f"python/{folder / 'judge.py'}:judge")
    assert report.ok, report.findings
    assert "it wins (9)" in found(report, "ok", "reference")
    assert "may be rated differently" in found(report, "warning", "determinism")


def test_a_plugin_of_the_folder_scores_the_reference(tmp_path: Path) -> None:
    plugin = (
        "class Mine:\n"
        "    def score(self, metrics, config, ctx):\n"
        "        return {'score': 7 if metrics['succeeded'] else 0}\n"
    )
    challenge = CHALLENGE.replace("{strategy: first}", "{plugin: 'mine.py:Mine'}")
    report = check_challenge(made(tmp_path, challenge, mine_py=plugin), samples=2)
    assert "it wins (7)" in found(report, "ok", "reference"), report.findings


@pytest.mark.parametrize(
    ("first", "given", "what", "said"),
    [
        ("import random", "{'score': random.random()}", "determinism", "differently: "),
        (
            "import random",
            "{'score': 7, 'details': {'drawn': random.random()}}",
            "determinism",
            "the same attempt is scored differently: 7 and 7 with other details",
        ),
        ("import nowhere", "{'score': 7}", "scoring", "cannot score: the plugin raised Module"),
        ("while True: pass", "{'score': 7}", "scoring", "cannot score: the plugin took longer"),
    ],
    ids=["random scores", "random details", "not loaded", "never loaded"],
)
def test_a_plugin_that_no_board_can_rest_on_is_a_problem(
    tmp_path: Path, first: str, given: str, what: str, said: str
) -> None:
    method = f"    def score(self, metrics, config, ctx):\n        return {given}\n"
    code = f"{first}\nclass Mine:\n{method}"
    challenge = "name: race\nscoring: {plugin: 'mine.py:Mine', timeout: 0.5}\n"
    report = check_challenge(made(tmp_path, challenge, mine_py=code))
    assert said in found(report, "problem", what), report.findings
    assert not found(report, "ok", "determinism")


def test_a_reference_may_have_been_witnessed(tmp_path: Path) -> None:
    challenge = CHALLENGE + "trajectory: {least: witnessed}\n"
    report = check_challenge(made(tmp_path, challenge), samples=2)
    assert "it wins" in found(report, "ok", "reference"), report.findings


def test_a_reported_challenge_has_no_answers_to_try(tmp_path: Path) -> None:
    challenge = "name: race\nscoring: {strategy: fastest}\nreference: answer.json\n"
    answer = {"succeeded": True, "elapsed_ms": 5}
    report = check_challenge(made(tmp_path, challenge, answer_json=answer))
    assert report.ok
    assert "random answers" not in {each.what for each in report.findings}


SHAPE = {"a": 1, "b": ["x", "y"], "c": {"d": 1.5, "e": True, "f": None}}


def plain(**submission: Any) -> Challenge:
    return Challenge(
        name="x",
        title="X",
        goal="",
        version="v",
        submission=Submission(**submission),
        evaluator=Evaluator(type="deterministic"),
    )


def test_noise_has_the_shape_of_the_reference_and_is_not_it() -> None:
    answers = dict(random_answers(plain(), SHAPE, 30))
    assert len(answers) == 30
    assert SHAPE not in answers.values()
    noise = answers["random values in its shape 1"]
    assert noise.keys() == SHAPE.keys()
    assert [type(noise["c"][key]) for key in "def"] == [float, bool, type(None)]


def test_noise_is_the_same_each_time() -> None:
    first, second = (list(random_answers(plain(), SHAPE, 30)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("reference", [None, SHAPE, "text", 7], ids=["none", "data", "text", "n"])
def test_as_much_noise_as_was_asked_for(reference: Any) -> None:
    assert len(list(random_answers(plain(), reference, 12))) == 12


def test_noise_can_be_made_from_the_schema() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "list": {"type": "array", "items": {"type": "string"}},
            "one": {"enum": ["a", "b"]},
            "any": {},
        },
    }
    answers = dict(random_answers(plain(schema=schema), None, 20))
    assert answers["random values in its shape 1"].keys() == schema["properties"].keys()  # type: ignore[attr-defined]


def test_files_get_programs_for_nonsense() -> None:
    challenge = plain(format="files")
    names = {name for answers in (empty_answers(challenge), random_answers(challenge, None, 5))
             for _, answer in answers if isinstance(answer, dict) for name in answer}  # fmt: skip
    assert names == {"solution.py"}


def test_findings_tell_problems_from_warnings() -> None:
    findings = (
        CheckFinding("ok", "a", ""),
        CheckFinding("warning", "b", ""),
        CheckFinding("problem", "c", ""),
    )
    report = ChallengeReport(folder="folder", ok=False, findings=findings)
    assert [each.what for each in report.problems] == ["c"]


GUARD = """
    name: guard
    kind: versus
    submission: {format: text}
    versus: {categories: [leak], judge: {type: script, script: judge.py}}
"""


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param("return 'key' in attack", None, id="sound"),
        pytest.param("return attack[0] == 'k'", "judge", id="fails-on-nothing"),
        pytest.param("SEEN.append(1); return len(SEEN) == 1", "determinism", id="remembers"),
    ],
)
def test_the_judge_of_red_against_blue_is_tried(
    tmp_path: Path, body: str, problem: str | None
) -> None:
    code = f"SEEN = []\ndef judge(attack, defence, category):\n    {body}\n"
    report = check_challenge(folder_with(tmp_path, GUARD, {"judge.py": code}))
    found = [each.what for each in report.findings if each.level == "problem"]
    assert found == ([] if problem is None else [problem])
