"""A promptfoo configuration becomes a suite that asks and checks the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import SHARED_FIXTURE
from tests.suites.imports.imported_runs import import_text, left_out, prompts, run_imported

from tallymark.documents.source import Source
from tallymark.errors import InvalidInput
from tallymark.suites.imports.imported_suite import write_yaml
from tallymark.suites.suite_file import load_source

CONFIG = """
description: Every way to write a test
prompts:
  - file://prompt.txt
providers: [echo]
defaultTest:
  vars: {greeting: Hello, who: nobody}
  assert:
    - type: contains
      value: "{{greeting}}"
assertionTemplates:
  polite: {type: icontains, value: please}
evaluateOptions: {maxConcurrency: 3, repeat: 2}
tests:
  - description: plain
    vars: {who: Ann, text: one}
    assert: [{type: contains, value: "Ann: one"}]
  - description: many values
    vars: {who: [Ann, Bob], text: [1, 2.0, true]}
    assert: [{type: contains, value: "{{who}}: {{text}}"}, {type: contains, value: Bob}]
  - vars: {who: "{{greeting}} you", text: null}
    assert: [{type: equals, value: "Hello, Hello you: "}]
  - options: {prefix: "Please. ", suffix: " Thanks"}
    vars: {who: Di, text: x}
    assert: [{$ref: "#/assertionTemplates/polite"}, {type: regex, value: "Thanks$"}]
  - file://rows.csv
  - file://more.yaml
  - file://lines.jsonl
scenarios:
  - config:
      - vars: {who: S1}
      - vars: {who: S2}
    tests:
      - vars: {text: t1}
        assert: [{type: contains, value: S1}]
"""
FILES = {
    "prompt__txt": "{{greeting}}, {{ who }}: {{text}}\n",
    "rows__csv": """
who,text,__expected,__expected2,__description
Row,a,contains: Row,"regex:a$",first row
Row,b,equals: Hello,,
""".lstrip(),
    "more__yaml": """
- vars: {who: More, text: m}
  assert: [{type: icontains-any, value: [MORE, none]}]
""",
    "lines__jsonl": '{"vars": {"who": "Line", "text": "l"}}\n\n',
}


def test_it_asks_and_judges_as_promptfoo_does(tmp_path: Path) -> None:
    """Prompts and passes are those of promptfoo's own run with its echo."""
    made = import_text(tmp_path, CONFIG, **FILES)
    results = run_imported(made)[: len(made.document["evals"])]
    assert [(result.output, result.passed) for result in results] == [
        ("Hello, Ann: one", True),
        ("Hello, Ann: 1,2,true", False),
        ("Hello, Bob: 1,2,true", True),
        ("Hello, Hello you: ", True),
        ("Please. Hello, Di: x Thanks", True),
        ("Hello, Row: a", True),
        ("Hello, Row: b", False),
        ("Hello, More: m", True),
        ("Hello, Line: l", True),
        ("Hello, S1: t1", True),
        ("Hello, S2: t1", False),
    ]
    assert made.left_out == []
    names = [entry.get("name") for entry in made.document["evals"]]
    assert names[:6] == ["plain", "many-values", "many-values-2", None, None, "first-row"]
    assert made.document["metadata"] == {
        "name": "promptfooconfig",
        "description": "Every way to write a test",
        "model": "echo/prompt",
        "epochs": 2,
        "threads": 3,
    }


def test_messages_become_a_conversation(tmp_path: Path) -> None:
    chat = (
        '[{"role": "system", "content": "Be {{tone}}."}, {"role": "user", "content": "{{a}}"},'
        ' {"role": "assistant", "content": "ok"}, {"role": "user", "content": "and?"}]'
    )
    rest = "providers: openai:chat:gpt-5-mini\ntests: [{vars: {tone: kind, a: hi}}]"
    made = import_text(tmp_path, f"prompts: ['{chat}']\n{rest}")
    assert made.document["evals"] == [
        {
            "system_prompt": "Be kind.",
            "turns": [{"user": "hi", "assistant": "ok"}, "and?"],
            "checks": [],
        }
    ]
    assert made.document["metadata"]["model"] == "openai/gpt-5-mini"


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai:gpt-5-mini", "openai/gpt-5-mini"),
        ("openai:chat:gpt-5-mini", "openai/gpt-5-mini"),
        ("openai:responses:gpt-5-mini", "openai-responses/gpt-5-mini"),
        ("anthropic:messages:claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("ollama:chat:llama3:8b", "ollama/llama3:8b"),
        ("vertex:gemini-2.5-pro", "google-cloud/gemini-2.5-pro"),
        ("openrouter:meta/llama-3", "openrouter/meta/llama-3"),
        ("echo", "echo/prompt"),
        ("file://provider.py", None),
        ("https://example.test/api", None),
    ],
)
def test_providers(tmp_path: Path, provider: str, model: str | None) -> None:
    made = import_text(tmp_path, f"prompts: [hi]\nproviders: ['{provider}']\n")
    assert made.document["metadata"].get("model") == model
    told = [f"promptfooconfig.yaml:1: the provider {provider}; name a model with -m"]
    assert left_out(made, tmp_path) == ([] if model else told)


def test_settings_judge_and_several_models(tmp_path: Path) -> None:
    text = """
prompts: [hi]
providers:
  - {id: "openai:gpt-5-mini", config: {temperature: 0, stop: [x], organization: me}}
  - {id: "openai:gpt-5", config: {temperature: 0, stop: [x], organization: me}}
defaultTest: {options: {provider: "openai:gpt-5-nano"}}
outputPath: out.json
nunjucksFilters: {a: b.js}
"""
    made = import_text(tmp_path, text)
    assert made.document["metadata"] == {
        "name": "promptfooconfig",
        "model": ["openai/gpt-5-mini", "openai/gpt-5"],
        "settings": {"temperature": 0, "stop_sequences": ["x"]},
        "judge": "openai/gpt-5-nano",
    }
    assert left_out(made, tmp_path) == [
        "promptfooconfig.yaml:2: the key nunjucksFilters",
        "promptfooconfig.yaml:4: the provider's setting organization",
    ]


def test_several_prompts_are_a_matrix(tmp_path: Path) -> None:
    text = """
prompts: ["Say {{word}}", "Shout {{ word }} to {{who.name}} for {{env.TEAM}}"]
providers: [echo]
tests: [{vars: {word: hi, who: {name: Ann}, unused: 1}, assert: [{type: contains, value: hi}]}]
"""
    made = import_text(tmp_path, text)
    assert made.document["prompts"] == [
        "Say {{var('word')}}",
        "Shout {{var('word')}} to {{var('who.name')}} for {{var('TEAM')}}",
    ]
    assert made.document["evals"] == [
        {"vars": {"word": "hi", "who.name": "Ann"}, "checks": [{"contains": "hi"}]}
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "prompts: [hi, '{% if x %}a{% endif %}']",
            ":1: the prompt '{% if x %}a{% endif %}': the template",
        ),
        (
            "prompts: [hi, 'file://p.py']",
            ":1: the prompt 'file://p.py': it is a program or a table",
        ),
        (
            "prompts: [hi]\ntests:\n  - {vars: {}}\n  - https://example.test/x.csv",
            ":3: the tests in https://example.test/x.csv",
        ),
        (
            "prompts: [hi]\ntests:\n  - {vars: {}}\n  - options: {transform: output}",
            ":4: a test whose answers a transform changes",
        ),
        (
            "prompts: ['{{x}}']\ntests:\n  - {vars: {x: a}}\n  - vars: {x: {y: 1}}",
            ":4: a test: a text contains a mapping",
        ),
        ("prompts: [hi]\ntests:\n  - {provider: echo}", ":3: that a test has provider of its own"),
        (
            "prompts: [hi]\ntests:\n  - {vars: {}}\n  - path: file://gen.py\n    config: {n: 4}",
            ":4: the tests in file://gen.py: they are in a program",
        ),
        ("prompts: [hi]\ntests:\n  - {}\n  - 7", ":3: the tests 7"),
        (
            "prompts: [hi]\ntests:\n  - {}\n  - options: {transformVars: '{...vars}'}",
            ":4: a test whose variables a program changes (transformVars)",
        ),
        (
            "prompts: [hi]\ntests:\n  - {}\n  - providerOutput: yes",
            ":4: a test that brings its answer with it (providerOutput)",
        ),
        (
            (
                "prompts: ['{{x}}']\ntests:\n"
                "  - {vars: {x: a}, options: {storeOutputAs: y}}\n  - {vars: {x: 'why {{y}}?'}}"
            ),
            ":4: a test: {{y}} is the answer to another test (storeOutputAs)",
        ),
        (
            "prompts: [hi]\ntests:\n  - options: {showOutput: true}",
            ":3: a test's option showOutput",
        ),
        ("prompts: [{raw: hi, config: {a: 1}}]", ":1: the config of the prompt 'hi'"),
        (
            "prompts: [hi]\nproviders: [{id: echo, transform: output.text}]",
            ":2: a provider's transform: it is a program that changes every answer",
        ),
        (
            (
                'prompts: [\'[{"role": "user", "content": "{{x}}"}]\']\n'
                "tests:\n  - {vars: {x: a}}\n  - {vars: {x: ''}}"
            ),
            ":4: a test: it asks nothing",
        ),
    ],
)
def test_what_cannot_be_carried_over_is_told(tmp_path: Path, text: str, said: str) -> None:
    made = import_text(tmp_path, text)
    assert any(each.startswith(f"promptfooconfig.yaml{said}") for each in left_out(made, tmp_path))
    assert prompts(made) == ["a" if "{{x}}" in text else "hi"]


def test_a_default_test_in_a_file_is_read(tmp_path: Path) -> None:
    default = "vars: {who: Ann}\nassert: [{type: contains, value: Bob}]\n"
    text = "prompts: ['Hi {{who}}']\nproviders: [echo]\ndefaultTest: file://default.yaml\n"
    made = import_text(tmp_path, text, default__yaml=default)
    assert [(each.output, each.status) for each in run_imported(made)] == [("Hi Ann", "failed")]
    assert made.left_out == []


@pytest.mark.parametrize(
    "rest",
    [
        "defaultTest: file://default.py",
        "providers: [{id: echo, transform: output.text}]",
        "tests: file://rows.csv",
    ],
)
def test_what_would_decide_every_case_and_is_not_carried_over_lets_none_pass(
    tmp_path: Path, rest: str
) -> None:
    rows = "who,__expected,__config:__expected:threshold\nhi,contains:hi,0.5\n"
    text = f"prompts: [hi]\n{rest}\n" + ("" if "providers" in rest else "providers: [echo]\n")
    made = import_text(tmp_path, text, rows__csv=rows)
    assert [result.status for result in run_imported(made)] == ["error"]
    assert made.count_unfinished() == len(made.left_out) == 1


def test_lists_are_not_spread_where_a_test_says_so(tmp_path: Path) -> None:
    vars_ = "vars: {x: [a, b]}, options: {disableVarExpansion: true}"
    made = import_text(tmp_path, f"prompts: ['{{{{x}}}}']\ntests: [{{{vars_}}}]")
    assert prompts(made) == ["a,b"]
    assert made.left_out == []


def test_prompts_with_the_same_label_or_text_have_names_of_their_own(tmp_path: Path) -> None:
    text = "prompts: [{raw: hi, label: one}, {raw: hi, label: one}, {raw: hi, label: two}]"
    made = import_text(tmp_path, text)
    assert [each["name"] for each in made.document["prompts"]] == ["one", "one 2", "two"]
    load_source(Source(write_yaml(made.document), "imported.yaml"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1", "is neither of promptfoo nor of Inspect"),
        ("redteam: {plugins: []}\ntargets: [echo]", "has no tests: it is for red teaming"),
        ("prompts: ['{% x %}']", "leaves nothing to ask"),
        ("prompts: [hi]\ntests: file://gone.csv", "there is no file"),
        ("prompts: [hi]\ntests: file://bad.jsonl", "bad.jsonl:1: the line is not JSON"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        import_text(tmp_path, text, bad__jsonl="nope\n")


JUNK = st.sampled_from(
    [None, True, 0, -1.5, "", "x", "{{y}}", "{% z %}", [], {}, ["a"], [1], {"a": 1}, "file://x.py"]
)


@settings(max_examples=40, deadline=None, suppress_health_check=SHARED_FIXTURE)
@given(st.data())
def test_whatever_a_configuration_holds_it_is_a_suite_or_one_sentence(
    tmp_path: Path, data: st.DataObject
) -> None:
    document: Any = {
        "prompts": ["a {{x}}"],
        "providers": ["echo", {"id": "openai:gpt-5", "config": {"temperature": 1}}],
        "defaultTest": {"vars": {"x": "1"}, "options": {"prefix": "p"}, "threshold": 0.5},
        "tests": [{"vars": {"x": ["a", "b"]}, "assert": [{"type": "regex", "value": "^a"}]}],
        "scenarios": [{"config": [{"vars": {"x": "2"}}], "tests": [{"assert": []}]}],
        "evaluateOptions": {"repeat": 2},
    }
    node = document
    while node and isinstance(node, dict | list):
        at = data.draw(st.sampled_from(list(node) if isinstance(node, dict) else [0]))
        if data.draw(st.booleans()):
            node[at] = data.draw(JUNK)
            break
        node = node[at]
    try:
        made = import_text(tmp_path, json.dumps(document))
    except InvalidInput:
        return
    load_source(Source(write_yaml(made.document), "imported.yaml"))


def test_options_of_a_scenario_hold_for_its_tests(tmp_path: Path) -> None:
    text = """
        prompts: ["Say {{x}}"]
        providers: [echo]
        scenarios:
          - config: [{vars: {x: "a"}, options: {prefix: "Please: "}}]
            tests: [{options: {suffix: "!"}, assert: [{type: contains, value: "a"}]}]
    """
    made = import_text(tmp_path, text)
    assert made.evals[0]["prompt"] == "Please: Say a!"


def test_a_variable_may_be_a_file(tmp_path: Path) -> None:
    text = """
        prompts: ["Write about {{topic}}"]
        providers: [echo]
        tests:
          - {vars: {topic: "file://topic.txt"}, assert: [{type: contains, value: "bees"}]}
          - {vars: {topic: "file://topic.py"}, assert: [{type: contains, value: "bees"}]}
    """
    made = import_text(tmp_path, text, topic__txt="bees and wasps\n")
    (entry,) = made.document["evals"]
    assert entry["prompt"] == "Write about bees and wasps"
    (told,) = left_out(made, tmp_path)
    assert "a variable is the file topic.py" in told


def test_several_prompts_become_a_matrix_that_loads(tmp_path: Path) -> None:
    text = """
        prompts: ["Say {{word}}", "Please say {{word}}"]
        providers: [echo]
        tests: [{vars: {word: hello}, assert: [{type: contains, value: hello}]}]
    """
    made = import_text(tmp_path, text)
    assert len(load_source(Source(write_yaml(made.document), "imported.yaml")).prompts) == 2


def test_labels_of_prompts_are_their_names(tmp_path: Path) -> None:
    made = import_text(
        tmp_path,
        """
prompts:
  - {label: short, raw: "Say {{word}}."}
  - {label: short, raw: "Only say {{word}}."}
  - "Please say {{word}}."
providers: [{id: echo, label: my echo}]
tests: [{vars: {word: hi}}]
""",
    )
    loaded = load_source(Source(write_yaml(made.document), "imported.yaml"))
    assert [each.name for each in loaded.prompts][:2] == ["short", "short 2"]
    (told,) = left_out(made, tmp_path)
    assert "the label 'my echo' of a provider" in told
