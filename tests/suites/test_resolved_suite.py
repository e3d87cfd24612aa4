"""Suites with their values: which value wins, what is missing, what a model is sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.suites.suite_texts import load

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.judging.judge_model import JudgeModel, open_judge
from tallymark.models import Answer, McpServer, Message, Request
from tallymark.runs.case_verdict import judge_case
from tallymark.scoring import Scorer, load_scorer
from tallymark.suites.checks.check_definition import CheckSetting, CheckSpec
from tallymark.suites.checks.check_types import CHECK_TYPES
from tallymark.suites.resolved_suite import FilledCase, FilledSuite, resolve


def only_case(suite: FilledSuite) -> FilledCase:
    return suite.case(suite.definition.cases[0])


def prompt(suite: FilledSuite) -> str:
    return only_case(suite).turns[-1].user


@pytest.mark.parametrize(
    ("own", "given", "suite", "wins"),
    [
        ("eval", "caller", "suite", "eval"),
        (None, "caller", "suite", "caller"),
        (None, None, "suite", "suite"),
        (None, "caller", None, "caller"),
        ("eval", None, None, "eval"),
    ],
)
def test_the_nearest_value_wins(
    own: str | None, given: str | None, suite: str | None, wins: str
) -> None:
    definition = load(f"""
        metadata: {{vars: {{{"" if suite is None else f"n: {suite}"}}}}}
        evals:
          - prompt: "{{{{var('n')}}}}"
            vars: {{{"" if own is None else f"n: {own}"}}}
            checks: []
    """)
    assert prompt(resolve(definition, vars={} if given is None else {"n": given})) == wins


def test_a_row_wins_over_everything(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("n\nrow\n")
    definition = load(
        """
        metadata: {vars: {n: suite}}
        evals: [{prompt: "{{var('n')}}", cases_from: d.csv, vars: {n: eval}, checks: []}]
        """,
        tmp_path,
    )
    assert prompt(resolve(definition, vars={"n": "caller"})) == "row"


def test_a_row_cannot_ask_for_a_secret(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("n\n{{secret('key')}}\n")
    definition = load(
        """
        metadata: {system_prompt: "{{secret('key')}}"}
        evals: [{prompt: "{{var('n')}}", cases_from: d.csv, checks: []}]
        """,
        tmp_path,
    )
    assert prompt(resolve(definition, secrets={"key": "abcdef"})) == "{{secret('key')}}"


def test_a_callers_value_cannot_ask_for_a_secret() -> None:
    definition = load("""
        metadata: {system_prompt: "{{secret('key')}}"}
        evals: [{prompt: "{{var('n')}}", checks: []}]
    """)
    suite = resolve(definition, vars={"n": "{{secret('key')}}"}, secrets={"key": "abcdef"})
    assert prompt(suite) == "{{secret('key')}}"


def test_variables_of_the_suite_may_use_secrets_and_the_callers_variables() -> None:
    definition = load("""
        metadata: {vars: {a: "{{secret('key')}}/{{var('b')}}"}}
        evals: [{prompt: "{{var('c')}}", vars: {c: "<{{var('a')}}>"}, checks: []}]
    """)
    assert definition.var_names == ("b",)
    assert prompt(resolve(definition, vars={"b": 2}, secrets={"key": "abcd"})) == "<abcd/2>"


MISSING = """
    metadata: {model: "{{var('modle')}}"}
    evals:
      - {prompt: "{{var('own')}} {{secret('key')}}", vars: {own: x}, checks: []}
      - {prompt: "{{var('own')}}", checks: [match: "{{secret('key')}}"]}
"""


def test_every_missing_name_is_told_once_with_its_place() -> None:
    definition = load(MISSING)
    assert (definition.var_names, definition.secret_names) == (("own", "modle"), ("key",))
    with pytest.raises(InvalidInput) as caught:
        resolve(definition, vars={"model": "x"})
    places, messages = zip(*((str(p.place), p.message) for p in caught.value.problems), strict=True)
    assert places == ("suite.yaml:3:30", "suite.yaml:4:15", "suite.yaml:1:20")
    assert messages == (
        "the secret 'key' has no value",
        "the variable 'own' has no value",
        "the variable 'modle' has no value",
    )
    hints = [problem.hint for problem in caught.value.problems]
    assert hints[0] == "give it in the environment, an env file, or with `tally secrets`"
    assert hints[2] == "did you mean 'model'?"


@pytest.mark.parametrize("value", ["", "abc"])
def test_a_secret_that_could_not_be_hidden_is_refused(value: str) -> None:
    definition = load("evals: [{prompt: \"{{secret('k')}}\", checks: []}]")
    with pytest.raises(InvalidInput, match="the secret 'k' has fewer than 4 characters"):
        resolve(definition, secrets={"k": value})


def test_templates_everywhere() -> None:
    definition = load("""
        metadata:
          model: ["{{var('m')}}", b]
          system_prompt: "You are {{var('who')}}"
          mcp_server:
            - {url: "{{var('u')}}", name: n, authorization_token: "{{secret('t')}}"}
            - {command: c, args: ["{{var('u')}}"], env: {T: "{{secret('t')}}"}}
          settings: {stop_sequences: ["{{var('m')}}"]}
        evals:
          - prompt: p
            checks: [match: "*{{var('who')}}*"]
            expected: "{{var('who')}}"
            metadata: {who: "{{var('who')}}"}
        score: success_pct * {{var('w')}}
    """)
    suite = resolve(
        definition,
        vars={"m": "a/b", "who": "Robin", "u": "http://x/", "w": 2},
        secrets={"t": "tok-1"},
    )
    assert suite.models == ("a/b", "b")
    assert suite.settings == {"stop_sequences": ["a/b"]}
    assert suite.mcp_servers == (
        McpServer(url="http://x/", name="n", headers={"Authorization": "Bearer tok-1"}),
        McpServer(command="c", arguments=("http://x/",), environment={"T": "tok-1"}),
    )
    assert str(suite.formula) == "success_pct * 2"
    case = only_case(suite)
    assert case.system_prompt == "You are Robin"
    assert (case.expected.output, case.metadata) == ("Robin", {"who": "Robin"})
    answer = Answer(output="I am robin.", latency=1.0)
    assert judge_case(case.checks.run(case.subject(answer, Request(messages=())))) == "passed"


def test_what_is_stored_has_no_values() -> None:
    definition = load("evals: [{prompt: \"{{secret('k')}} {{var('v')}}\", checks: []}]")
    resolve(definition, vars={"v": "visible"}, secrets={"k": "sekret"})
    assert "sekret" not in definition.to_json()
    assert "visible" not in definition.to_json()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("[", "suite.yaml:1: eval #1: this is not a regular expression"),
        ("sekret[", "eval #1: this is not a regular expression"),
    ],
)
def test_a_value_that_breaks_a_check_shows_before_anything_runs(value: str, said: str) -> None:
    definition = load("evals: [{prompt: p, checks: [regex: \"{{secret('k')}}\"]}]")
    with pytest.raises(InvalidInput) as caught:
        resolve(definition, secrets={"k": value * 4})
    assert said in str(caught.value)
    assert "sekret" not in str(caught.value)


def test_a_formula_that_a_value_breaks() -> None:
    definition = load("evals: [{prompt: p, checks: []}]\nscore: success_pct * {{var('w')}}")
    with pytest.raises(InvalidInput, match="unknown name 'two'"):
        resolve(definition, vars={"w": "two"})


TURNS = """
    metadata: {system_prompt: Be kind}
    evals:
      - turns: [one, {user: two, assistant: given}, {user: three, checks: [match: c]}]
        checks: [match: c]
"""


def test_a_conversation() -> None:
    case = only_case(resolve(load(TURNS)))
    system = Message("system", "Be kind")
    first = (system, Message("user", "one"))
    then = (
        *first,
        Message("assistant", "A"),
        Message("user", "two"),
        Message("assistant", "given"),
        Message("user", "three"),
    )
    assert case.messages() == first
    assert case.messages(["A"]) == then
    assert case.messages(["A", "B"]) is None
    assert [turn.user for turn in case.asked] == ["one", "three"]
    assert [len(turn.checks.items) for turn in case.asked] == [0, 1]


@pytest.mark.parametrize(
    ("own", "sent"), [("", "suite's"), ("system_prompt: own,", "own"), ('system_prompt: "",', None)]
)
def test_an_evals_own_system_prompt(own: str, sent: str | None) -> None:
    text = f"metadata: {{system_prompt: suite's}}\nevals: [{{{own} prompt: p, checks: []}}]"
    assert only_case(resolve(load(text))).system_prompt == sent


@pytest.mark.parametrize(
    ("suite", "own", "result"),
    [
        ("", "", (1, None)),
        ("epochs: 2, timeout: 5", "", (2, 5)),
        ("epochs: 2", "epochs: 3,", (3, None)),
    ],
)
def test_epochs_and_time_limits(suite: str, own: str, result: tuple[int, float | None]) -> None:
    case = only_case(
        resolve(load(f"metadata: {{{suite}}}\nevals: [{{{own} prompt: p, checks: []}}]"))
    )
    assert (case.epochs, case.config.timeout) == result


@pytest.mark.parametrize(
    ("suite", "own", "check", "passes"),
    [
        ("", "", "", False),  # 0.7
        ("threshold: 0.4", "", "", True),
        ("threshold: 0.4", "threshold: 0.6,", "", False),
        ("threshold: 0.9", "threshold: 0.6,", ", threshold: 0.5", True),
    ],
)
def test_the_nearest_threshold_counts(suite: str, own: str, check: str, passes: bool) -> None:
    text = f"""
        metadata: {{{suite}}}
        evals:
          - {{{own} prompt: p, checks: [scorer: {{use: word_count, options: {{low: 2}}{check}}}]}}
    """
    case = only_case(resolve(load(text)))
    answer = Answer(output="one", latency=1.0)
    (result,) = case.checks.run(case.subject(answer, Request(messages=())))
    assert (result.value, result.passed) == (0.5, passes)


def test_checks_without_templates_are_built_once_for_a_whole_dataset(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("n\na\nb\n")
    text = "evals: [{prompt: \"{{var('n')}}\", cases_from: d.csv, checks: [match: a]}]"
    suite = resolve(load(text, tmp_path))
    first, second = (suite.case(case) for case in suite.definition.cases)
    assert first.checks is second.checks
    assert [case.turns[0].user for case in (first, second)] == ["a", "b"]


@pytest.mark.parametrize(
    ("checks", "times"),
    [
        ("[match: a]", 1),
        ("[match: [a, b]]", 2),
        ("[{match: a}, {max_latency: 5}]", 1),
        # Built again by every run: alternatives, and what stands beside a check that a run decides.
        ("[or: [{match: a}, {match: b}]]", 6),
        ("[{match: a}, {scorer: word_count}]", 3),
        # Only a run knows it, and each once.
        ("""[match: "{{var('n')}}"]""", 2),
    ],
)
def test_a_check_that_no_run_changes_is_built_once(
    checks: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = CHECK_TYPES["match"]
    built = []

    def build(config: str, setting: CheckSetting) -> Any:
        built.append(config)
        return kind.build(config, setting)

    monkeypatch.setitem(CHECK_TYPES, "match", replace(kind, build=build))
    definition = load(f"evals: [{{prompt: p, checks: {checks}}}]")
    for _ in range(2):
        suite = resolve(definition, vars={"n": "a"})
        assert len(only_case(suite).checks.items) == len(definition.evals[0].checks)
    assert len(built) == times


def test_checks_that_were_built_before_secrets_were_known_do_not_show_them() -> None:
    definition = load("""
        evals: [{prompt: "{{secret('key')}}", checks: [match: hunter-22]}]
    """)
    case = only_case(resolve(definition, secrets={"key": "hunter-22"}))
    subject = case.subject(Answer(output="no", latency=0.0), Request(messages=()))
    (result,) = case.checks.run(subject)
    assert result.reason == "does not match '***key***'"


def test_a_formula_is_read_once_unless_only_a_run_knows_it() -> None:
    fixed = load("{evals: [{prompt: p, checks: []}], score: success_pct / 2}")
    assert resolve(fixed).formula is resolve(fixed).formula is fixed.parsed
    open_ = load("""{evals: [{prompt: p, checks: []}], score: "success_pct / {{var('n')}}"}""")
    assert open_.parsed is None
    assert str(resolve(open_, vars={"n": "4"}).formula) == "success_pct / 4"


def test_a_suite_that_was_changed_keeps_no_checks_of_the_old_one() -> None:
    definition = load("evals: [{prompt: p, checks: [match: a]}]")
    (entry,) = definition.evals
    (spec,) = entry.checks
    other = msgspec.structs.replace(
        definition,
        evals=(msgspec.structs.replace(entry, checks=(CheckSpec(spec.kind, "b"),)),),
    )
    case = only_case(resolve(other))
    subject = case.subject(Answer(output="b", latency=0.0), Request(messages=()))
    assert judge_case(case.checks.run(subject)) == "passed"


def test_each_scorer_is_loaded_once_for_each_set_of_options() -> None:
    loaded: list[str] = []

    def counting(name: str, /, **options: object) -> Scorer:
        loaded.append(name)
        return load_scorer(name, **options)

    definition = load("evals:" + "\n  - {prompt: p, checks: [scorer: word_count]}" * 5)
    resolve(definition, load=counting)
    assert loaded == ["word_count"]


def test_a_missing_key_of_a_service_stops_the_run_before_it_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    definition = load("""
        evals:
          - prompt: p
            checks:
              - semantic:
                  expected: b
                  options: {model: "http://x.example/v1", model_name: m, api_key_env: NO_SUCH_KEY}
    """)
    with pytest.raises(WorkFailed, match="NO_SUCH_KEY is not set"):
        resolve(definition)


@pytest.mark.parametrize(
    ("metadata", "check", "given"),
    [
        ("judge: replay/lost", "llm_judge: kind", None),
        ("judge: \"replay/{{var('n')}}\"", "llm_judge: kind", None),
        ("judge: echo/judge", "llm_judge: {criteria: kind, model: replay/lost}", None),
        ("judge: echo/judge", "scorer: {use: llm_judge, options: {model: replay/lost}}", None),
        ("judge: echo/judge", "llm_judge: kind", "replay/lost"),
    ],
)
def test_every_judge_is_opened_before_the_first_case(
    metadata: str, check: str, given: str | None
) -> None:
    definition = load(f"""
        metadata: {{{metadata}}}
        evals: [{{prompt: p, checks: [{check}]}}]
    """)
    with pytest.raises(InvalidInput, match="there are no answers 'lost' to replay"):
        resolve(definition, vars={"n": "lost"}, judge=given)


def test_a_judge_that_no_check_asks_need_not_be_there() -> None:
    definition = load("metadata: {judge: replay/lost}\nevals: [{prompt: p, checks: [match: x]}]")
    assert resolve(definition).definition.judge == "replay/lost"


def test_a_judge_from_outside_stands_for_the_suites_own() -> None:
    definition = load("""
        metadata: {judge: replay/lost}
        evals: [{prompt: p, checks: [llm_judge: kind, scorer: "llm_judge(rubric='safety')"]}]
    """)
    assert only_case(resolve(definition, judge="echo/judge")).checks.waits


def test_a_judge_is_opened_once() -> None:
    opened: list[str] = []

    def opening(reference: str, **options: Any) -> JudgeModel:
        opened.append(reference)
        return open_judge(reference, **options)

    definition = load("""
        metadata: {judge: echo/one}
        evals:
          - {prompt: p, checks: [llm_judge: kind, llm_judge: short]}
          - {prompt: q, checks: [llm_judge: {criteria: kind, model: echo/two}]}
    """)
    resolve(definition, open_judge=opening)
    assert opened == ["echo/one", "echo/two"]
