"""What `challenge.yaml` may say, and how each mistake in it is told."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest
from tests.challenges.challenge_folders import challenge_in, folder_with

from tallymark.challenges.challenge import (
    Challenge,
    Constraints,
    DimensionWeight,
    Evaluator,
    VersusJudge,
)
from tallymark.challenges.challenge_file import load_challenge, validate_challenge
from tallymark.challenges.challenge_folder import hash_folder
from tallymark.challenges.challenge_format import challenge_schema
from tallymark.documents.reader import Reader, to_plain
from tallymark.documents.source import Source
from tallymark.documents.yaml_parser import parse_yaml
from tallymark.errors import InvalidInput

WHOLE = """
    name: log-detective
    title: The log detective
    goal: Find what broke.
    difficulty: veteran
    kind: solo
    rated: first
    time_limit: 1h30m
    attempts: {total: 5, per_day: 2}
    opens: 2030-01-01
    closes: 2030-02-01T00:00:00+01:00
    freezes: 2030-01-31T12:00Z
    visibility: public
    one_per: owner
    constraints: {tokens: 1000, calls: 10, cost: 0.5, tools: [search]}
    submission:
      format: json
      max_bytes: 5000
      schema: {type: object}
      schema_dimension: correctness
    data: {public: [log.txt]}
    evaluator:
      type: deterministic
      truth: truth.json
      fields:
        culprit: exact_match
        errors: {primitive: numeric_tolerance, tolerance: 2, dimension: ours, weight: 2}
      metrics: [surprise]
    scoring:
      dimensions:
        correctness: {weight: 0.5, description: Who did it}
        speed: 0.2
        ours: {weight: 0.3, label: Ours, description: Our own, color: Teal}
      formula: total + surprise
      config: {undefined: 0}
      timeout: 2s
    reference: reference.json
    x-note: ours
"""
FILES = {"log.txt": "x", "truth.json": '{"culprit": "db", "errors": 3}', "reference.json": "{}"}
LEAST = "name: least\nscoring: {strategy: fastest}\n"


def test_every_key_is_read(tmp_path: Path) -> None:
    challenge = challenge_in(tmp_path, WHOLE, FILES)
    assert challenge.version == hash_folder(tmp_path)
    assert (challenge.name, challenge.title) == ("log-detective", "The log detective")
    assert (challenge.time_limit_s, challenge.difficulty) == (5400.0, "veteran")
    assert challenge.rated == "first"
    assert (challenge.visibility, challenge.one_per) == ("public", "owner")
    assert (challenge.attempts, challenge.attempts_per_day) == (5, 2)
    assert challenge.opens_at == 1_893_456_000.0
    assert challenge.closes_at == 1_893_456_000.0 + 31 * 86_400 - 3_600
    assert challenge.freezes_at == 1_893_456_000.0 + 30.5 * 86_400
    bounds = Constraints(tokens=1000, calls=10, cost=0.5, tools=("search",))
    assert challenge.constraints == bounds
    assert challenge.submission.schema == {"type": "object"}
    assert challenge.evaluator.options["fields"] == {
        "culprit": {"primitive": "exact_match"},
        "errors": {
            "primitive": "numeric_tolerance",
            "tolerance": 2,
            "dimension": "ours",
            "weight": 2,
        },
    }
    assert challenge.scoring.dimensions == (
        DimensionWeight(key="correctness", weight=0.5, description="Who did it"),
        DimensionWeight(key="speed", weight=0.2),
        DimensionWeight(key="ours", weight=0.3, label="Ours", description="Our own", color="Teal"),
    )
    assert challenge.scoring.timeout_ms == 2000
    assert challenge.public == ("log.txt",)


def test_a_challenge_is_the_same_when_read_back_from_json(tmp_path: Path) -> None:
    challenge = challenge_in(tmp_path, WHOLE, FILES)
    assert msgspec.json.decode(msgspec.json.encode(challenge), type=Challenge) == challenge


def test_little_needs_to_be_said(tmp_path: Path) -> None:
    challenge = challenge_in(tmp_path, "name: least")
    assert challenge.evaluator == Evaluator(type="reported")
    assert (challenge.scoring.strategy, challenge.time_limit_s) == ("first", 3600.0)
    assert (challenge.title, challenge.goal, challenge.attempts) == ("least", "least", None)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90", 90), ("1.5", 1.5), ("45s", 45), ("15m", 900), ("2h", 7200), ("1d 2h", 93600)],
)
def test_times_are_seconds_or_words(tmp_path: Path, written: str, seconds: float) -> None:
    assert challenge_in(tmp_path, f"name: x\ntime_limit: {written}").time_limit_s == seconds


DOCUMENTED = {
    "name": "Advanced Prompt Challenge",
    "scoring_strategy": "custom",
    "scoring_plugin_id": "builtin.weighted_scorer",
    "scoring_entrypoint": "services.scorers.weighted:WeightedScorer",
    "scoring_config": {
        "success_bonus": 100.0,
        "rating_weight": 15.0,
        "time_penalty": 0.5,
        "token_penalty": 0.02,
    },
}


@pytest.mark.parametrize("indent", [None, 2, "\t"], ids=["one-line", "spaces", "tabs"])
def test_the_plugin_documents_json_example_is_a_challenge(
    tmp_path: Path, indent: int | str | None
) -> None:
    (tmp_path / "challenge.json").write_text(json.dumps(DOCUMENTED, indent=indent))
    challenge = load_challenge(tmp_path)
    assert (challenge.name, challenge.title) == (
        "advanced-prompt-challenge",
        "Advanced Prompt Challenge",
    )
    assert challenge.scoring.strategy == "custom"
    assert challenge.scoring.plugin == "services.scorers.weighted:WeightedScorer"
    assert challenge.scoring.config == DOCUMENTED["scoring_config"]


def test_a_plugins_id_is_its_code_where_no_entrypoint_is_given(tmp_path: Path) -> None:
    text = "name: x\nscoring_strategy: custom\nscoring_plugin_id: builtin.weighted_scorer"
    assert challenge_in(tmp_path, text).scoring.plugin == "builtin.weighted_scorer"


def test_a_versus_challenge_is_judged_by_its_judge(tmp_path: Path) -> None:
    text = """
        name: guard
        kind: versus
        versus: {categories: [leak, insult], judge: {type: script, script: judge.py}}
    """
    challenge = challenge_in(tmp_path, text, {"judge.py": ""})
    assert challenge.versus is not None
    assert challenge.versus.categories == ("leak", "insult")
    assert challenge.versus.judge == VersusJudge(type="script", options={"script": "judge.py"})


def test_the_formulas_lint_is_told_at_its_place_in_the_file(tmp_path: Path) -> None:
    text = "name: x\nscoring:\n  formula: rating / tokens_total\n"
    _, findings = validate_challenge(folder_with(tmp_path, text))
    zero = next(each for each in findings if each.code == "divide-by-zero")
    assert zero.place is not None
    assert (zero.place.line, zero.place.column) == (3, 21)


HALVES = "scoring: {dimensions: {correctness: 0.5, speed: 0.5}}"
REFUSED = {
    "unknown-key": ("titel: x", "2:1: unknown key 'titel'; did you mean 'title'?"),
    "tier": ("difficulty: vetran", "2:13: difficulty: 'vetran' is not known here; did you mean 'v"),
    "time": ("time_limit: soon", "2:13: time_limit: expected seconds, or a time such as 15m or"),
    "no-time": ("time_limit: 0", "2:13: time_limit: a time lies above 0, and is at most a year"),
    "moment": ("opens: tomorrow", "2:8: opens: expected a moment such as 2030-05-01T12:00Z, but"),
    "number": ("attempts: 0", "2:11: attempts: 0 is not a whole number from 1 to 1,000,000"),
    "closed": (
        "opens: 2030-01-02\ncloses: 2030-01-01",
        "3:1: closes: it closes before it opens",
    ),
    "frozen-early": (
        "opens: 2030-01-02\nfreezes: 2030-01-01",
        "3:1: freezes: the board would freeze before the challenge opens",
    ),
    "frozen-late": (
        "closes: 2030-01-02\nfreezes: 2030-01-03",
        "3:1: freezes: the board would freeze after the challenge closes",
    ),
    "no-file": ("data: {public: lag.txt}", "2:16: data, public: there is no file 'lag.txt'; did"),
    "outside": ("data: {public: ../log.txt}", "2:16: data, public: a name is a path below the"),
    "secret": (
        "data: {public: [log.txt]}\nreference: log.txt",
        "2:8: data, public: log.txt is not for competitors; take it off the list",
    ),
    "type": ("evaluator: {type: scrpt}", "2:19: evaluator, type: 'scrpt' is not known here; did"),
    "no-type": ("evaluator: {fields: {}}", "2:12: evaluator: the key 'type' is missing; write"),
    "option": (
        "evaluator: {type: deterministic, feilds: {}}",
        "2:34: evaluator: unknown key 'feilds'; did you mean 'fields'?",
    ),
    "primitive": (
        "evaluator: {type: deterministic, fields: {a: exact_mach}}",
        "2:46: evaluator, fields, a: 'exact_mach' is not known here; did you mean 'exact_match'?",
    ),
    "tolerance": (
        "evaluator: {type: deterministic, fields: {a: {primitive: numeric_tolerance}}}",
        "2:46: evaluator, fields, a: numeric_tolerance needs a 'tolerance'",
    ),
    "no-fields": (
        "evaluator: {type: deterministic, truth: truth.json, fields: {}}",
        "2:1: evaluator: there are no fields to compare",
    ),
    "no-truth": (
        "evaluator: {type: deterministic, fields: {a: exact_match}}",
        "2:1: evaluator: there is no truth to compare with; name a file under `truth`",
    ),
    "no-such-truth": (
        "evaluator: {type: deterministic, truth: truth.json, fields: {a: exact_match}}",
        "2:1: evaluator: field 'a': the truth has no value there",
    ),
    "unfit-truth": (
        "evaluator: {type: deterministic, truth: truth.json, fields: {n: coverage}}",
        "2:1: evaluator: field 'n': coverage: the truth must be a list or a set, not 3",
    ),
    "custom": (
        "scoring: {strategy: custom}",
        "2:1: scoring: 'custom' is by score, and nothing here gives one; add dimensions",
    ),
    "two-scores": (
        "scoring: {formula: rating, plugin: builtin.weighted_scorer}",
        "2:1: scoring: there is a plugin and a formula, and one score; keep one of them",
    ),
    "idle-formula": (
        "scoring: {strategy: fastest, formula: rating}",
        "2:1: scoring: the board is by 'fastest', so the formula would not matter",
    ),
    "flat-and-nested": (
        "scoring: {strategy: fastest}\nscoring_config: {a: 1}",
        "3:1: scoring_config: 'scoring_config' repeats what 'scoring' sets; keep one of them",
    ),
    "dimension": (
        "scoring: {dimensions: {correctnes: 0.5, speed: 0.5}}",
        "2:24: scoring, dimensions, correctnes: there is no dimension 'correctnes'; did you mean",
    ),
    "weights": (
        "scoring: {dimensions: {correctness: 0.5, speed: 0.4}}",
        "2:11: scoring, dimensions: the weights of correctness, speed sum to 0.9, not to 1",
    ),
    "half-own": (
        "scoring: {dimensions: {ours: {weight: 0.5, label: Ours}, speed: 0.5}}",
        "2:24: scoring, dimensions, ours: the own dimension 'ours' has no description and no col",
    ),
    "no-bound": (
        "scoring: {dimensions: {correctness: 0.5, token_efficiency: 0.5}}",
        "2:42: scoring, dimensions, token_efficiency: token_efficiency needs to know how many tok",
    ),
    "schema-dimension": (
        "submission: {schema_dimension: sped}\n" + HALVES,
        "2:14: submission, schema_dimension: the challenge does not weigh 'sped'; did you mean 's",
    ),
    "schema": (
        "submission: {schema: {type: objet}}",
        "2:14: submission, schema: the schema is wrong at $.type: 'objet' is not valid",
    ),
    "no-schema": (
        "submission: {schema: list.json}",
        "2:14: submission, schema: list.json holds no JSON Schema, which is a mapping",
    ),
    "formula": (
        "scoring: {formula: ratng + 1}",
        "2:20: scoring, formula: unknown name 'ratng'; did you mean 'rating'?",
    ),
    "formula-names": (
        "evaluator: {type: reported, metrics: [cost]}\nscoring: {formula: cost}",
        "3:20: scoring, formula: the name 'cost' is a metric and also a metric of the evaluator",
    ),
    "plugin": (
        "scoring: {plugin: 'os:system'}",
        "2:11: scoring, plugin: ",
    ),
    "versus": ("kind: versus", "2:1: kind: a versus challenge needs the key 'versus'; add"),
    "category-twice": (
        "kind: versus\nversus: {categories: [a, a], judge: {type: script, script: log.txt}}",
        "3:10: versus, categories: the category 'a' is here twice",
    ),
    "not-versus": (
        "versus: {categories: [a], judge: {type: script, script: log.txt}}",
        "2:1: versus: only a challenge of kind: versus has this key",
    ),
    "no-judge": (
        "kind: versus\nversus: {categories: [a], judge: reported}",
        "3:34: versus, judge, type: 'reported' is not known here; choose from script",
    ),
    "cases": (
        "submission: {format: files}\nevaluator: {type: tests, cases: cases.yaml}",
        "cases.yaml:1:3: #1: the key 'name' is missing",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_told_with_its_place(name: str, tmp_path: Path) -> None:
    text, told = REFUSED[name]
    files = {
        "log.txt": "",
        "truth.json": '{"n": 3}',
        "list.json": "[]",
        "cases.yaml": "- {call: f, value: 1}",
    }
    with pytest.raises(InvalidInput) as raised:
        challenge_in(tmp_path, f"name: x\n{text}\n", files)
    (problem,) = raised.value.problems
    file = "" if told.startswith("cases.yaml") else "challenge.yaml:"
    assert f"/{file}{told}" in str(problem)


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = """
        name: x
        difficulty: vetran
        opens: 2030-02-01
        closes: 2030-01-01
        submission: {format: jsn}
        evaluator: {type: deterministc}
        scoring: {dimensions: {correctnes: 0.5, ours: {weight: 0.5, label: O}}}
    """
    with pytest.raises(InvalidInput) as raised:
        challenge_in(tmp_path, text)
    places = [problem.place for problem in raised.value.problems]
    assert [place and place.line for place in places] == [3, 5, 6, 7, 8, 8]


def test_a_section_with_a_mistake_is_not_blamed_for_what_it_lacks(tmp_path: Path) -> None:
    text = "name: x\nscoring: {strategy: custom, dimensions: {correctness: half, speed: 0.5}}"
    with pytest.raises(InvalidInput) as raised:
        challenge_in(tmp_path, text)
    assert len(raised.value.problems) == 1


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "has no challenge.yaml"),
        ({"challenge.yaml": "", "challenge.json": "{}"}, "has both challenge.yaml and"),
        ({"challenge.yaml": ""}, "is empty"),
        ({"challenge.yaml": "[]"}, "expected a mapping with 'name'"),
        ({"challenge.yaml": "goal: x"}, "the key 'name' is missing"),
        ({"challenge.yaml": "name: '!!!'"}, "a name has 1 to 100 letters"),
        ({"challenge.yaml": "name: x\n---\nname: y"}, "a file holds one challenge"),
    ],
)
def test_a_folder_without_a_challenge_is_refused(
    tmp_path: Path, files: dict[str, str], told: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInput, match=told):
        load_challenge(tmp_path)


def test_the_example_in_the_docs_is_a_challenge(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "challenges.md"
    text = page.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    files = {"generate.py": "", "about.txt": "", "reference.json": "{}"}
    assert challenge_in(tmp_path, text, files).attempts_per_day == 2


def test_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no folder"):
        load_challenge(tmp_path / "none")


def test_the_json_schema_accepts_what_is_accepted(tmp_path: Path) -> None:
    source = Source(WHOLE)
    root, _ = parse_yaml(source)
    assert root is not None
    jsonschema.Draft202012Validator(challenge_schema()).validate(to_plain(root, Reader(source)))


@pytest.mark.parametrize(
    "value",
    [
        {"name": "x", "titel": "y"},
        {"name": "x", "difficulty": "easy"},
        {"name": "x", "evaluator": {"type": "tests", "fields": {}}},
    ],
    ids=["key", "choice", "option"],
)
def test_the_json_schema_refuses_what_is_refused(value: object) -> None:
    assert not jsonschema.Draft202012Validator(challenge_schema()).is_valid(value)
