"""`{{var('n')}}` and `{{secret('n')}}`: where they are found, and what is left alone."""

from __future__ import annotations

import pytest
from tests.suites.suite_texts import load

from tallymark.errors import InvalidInput
from tallymark.models import Answer, Request
from tallymark.suites.resolved_suite import resolve
from tallymark.suites.templates import (
    fill_templates,
    find_near_misses,
    find_templates,
    find_unfilled,
    has_templates,
    refuse_unknown,
    write_value,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{{var('a')}}", [("var", "a")]),
        ('{{secret("a")}}', [("secret", "a")]),
        ("{{ var( 'a' ) }} and {{var('b')}}", [("var", "a"), ("var", "b")]),
        ("{{var('two words')}}", [("var", "two words")]),
        ("{{var('a-b.c')}}", [("var", "a-b.c")]),
        ("{{{var('a')}}}", [("var", "a")]),
        ("{{var(a)}}", []),
        ("{{var('')}}", []),
        ("{{var('a\")}}", []),
        ("{var('a')}", []),
        ("{{name}}", [("bare", "name")]),
        ("{{ user.name }} {{größe}}", [("bare", "user.name"), ("bare", "größe")]),
        ("{{secret.a}} {{2}} {{a b}} {{a|b}} {{}}", []),
        ("", []),
    ],
)
def test_what_is_a_template(text: str, found: list[tuple[str, str]]) -> None:
    assert list(find_templates(text)) == found
    assert has_templates({"a": [text]}) == bool(found)


@pytest.mark.parametrize(
    ("text", "nearly"),
    [
        ("{{vars('a')}}", ["{{vars('a')}}"]),
        ("{{var(a)}}", ["{{var(a)}}"]),
        ("{{ secret.a }}", ["{{ secret.a }}"]),
        ("{{env('A')}}", ["{{env('A')}}"]),
        ("{{var('a')}}", []),
        ("{{ variety }}", []),
    ],
)
def test_what_looks_like_one(text: str, nearly: list[str]) -> None:
    assert list(find_near_misses(text)) == nearly


BARE = """
    metadata: {vars: {city: Paris, team: "{{given}} {{city}}"}}
    evals:
      - prompt: "{{ city }} {{cty}} {{team}} {{own}}, {{var('own')}} {{given}}"
        vars: {own: "from {{city}}"}
        checks: [contains: "{{own}}"]
      - prompt: "{{own}} {{vars.city}} {{secret('s')}}"
        checks: [contains: "{{ own }}"]
"""


def test_a_bare_name_is_the_variable_where_there_is_one() -> None:
    suite = load(BARE)
    ready = resolve(suite, vars={"given": "G", "unused": 1}, secrets={"s": "word"})
    first, second = (ready.case(case) for case in suite.cases)
    # Values of the suite are filled in by what the caller gives, never by each other.
    assert first.turns[0].user == "Paris {{cty}} G {{city}} from Paris, from Paris G"
    assert second.turns[0].user == "{{own}} {{vars.city}} word"
    own = first.checks.run(first.subject(Answer(output="x", latency=1), Request(messages=())))
    assert own[0].reason == "does not contain 'from Paris'"


def test_a_bare_name_without_a_variable_is_told_once() -> None:
    suite = load(BARE)
    told = [problem.render() for problem in find_unfilled(suite, ["given"])]
    line = """  - prompt: "{{ city }} {{cty}} {{team}} {{own}}, {{var('own')}} {{given}}\""""
    assert told[0] == (
        "suite.yaml:3:25: {{cty}} is sent as text: there is no variable 'cty'; "
        f"did you mean {{{{city}}}}?\n  {line}\n{' ' * 26}^^^^^^^"
    )
    assert [each.splitlines()[0] for each in told[1:]] == [
        (
            "suite.yaml:6:14: {{own}} is sent as text: there is no variable 'own'; "
            "write it under `vars`, or give it with --var"
        ),
        (
            "suite.yaml:6:22: {{vars.city}} is sent as text: there is no variable 'vars.city'; "
            "did you mean {{city}}?"
        ),
    ]
    assert suite.var_names == ()
    assert "given" in suite.used_vars


def test_a_bare_name_may_be_given_by_name() -> None:
    refuse_unknown(load(BARE), ["cty"], "--var")


def test_filling_data() -> None:
    data = {"a": ["x {{var('n')}}", 5, None], "b": {"c": "{{secret('n')}}"}}
    assert fill_templates(data, lambda kind, name: f"<{kind} {name}>") == {
        "a": ["x <var n>", 5, None],
        "b": {"c": "<secret n>"},
    }


def test_what_is_filled_in_is_not_looked_at_again() -> None:
    assert fill_templates("{{var('a')}}", lambda *_: "{{secret('k')}}") == "{{secret('k')}}"


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (3, "3"), (0.5, "0.5"), (True, "true"), (None, ""), (["é"], '["é"]')],
)
def test_how_values_are_written(value: object, text: str) -> None:
    assert write_value(value) == text


ASKING = """
metadata: {name: s, model: echo/x, vars: {unused: 1}}
evals: [{prompt: "{{var('city')}} {{secret('token')}}", checks: [{match: x}]}]
"""


@pytest.mark.parametrize(
    ("name", "hint"),
    [("ctiy", "did you mean 'city'?"), ("x", "it asks for city, token, unused")],
)
def test_a_value_for_what_no_suite_asks_for_is_refused(name: str, hint: str) -> None:
    definition = load(ASKING)
    refuse_unknown(definition, ["city", "token", "unused"], "--var")
    with pytest.raises(InvalidInput) as caught:
        refuse_unknown(definition, ["city", name], "--var")
    assert str(caught.value) == f"--var: the suite asks for no variable '{name}'; {hint}"
