"""The JSON Schema agrees with the loader, since both come from one table."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.suites.suite_texts import load
from tests.suites.test_suite_file import WHOLE

from tallymark.errors import InvalidInput
from tallymark.suites.starter import read_starter_suite
from tallymark.suites.suite_definition import SuiteDefinition
from tallymark.suites.suite_file import load_stored, load_suite
from tallymark.suites.suite_format import suite_schema

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").is_file())
EXAMPLES = sorted((ROOT / "examples" / "suites").glob("*.yaml"))
VALIDATOR = jsonschema.Draft202012Validator(suite_schema())
Step = str | int


def accepts(document: object) -> bool:
    return not list(VALIDATOR.iter_errors(document))


def loads(document: object, folder: Path) -> bool:
    try:
        load_stored(msgspec.json.encode(document).decode(), folder=folder)
    except InvalidInput:
        return False
    return True


FREE = {
    "vars",
    "headers",
    "env",
    "extra",
    "options",
    "json_schema",
    "arguments",
    "expected",
    "tags",
}
"""Keys under which the user's own keys stand."""


def mappings(value: Any, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Every mapping of a document whose keys are fixed."""
    if isinstance(value, dict):
        yield path
        for key, each in value.items():
            if key not in FREE and (key != "metadata" or not path):
                yield from mappings(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from mappings(each, (*path, index))


def changed(document: Any, path: tuple[Step, ...], key: str, value: object) -> Any:
    document = copy.deepcopy(document)
    node = document
    for step in path:
        node = node[step]
    node[key] = value
    return document


@pytest.fixture(scope="module")
def whole() -> SuiteDefinition:
    return load(WHOLE)


def test_it_is_a_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(suite_schema())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_fit(path: Path) -> None:
    assert accepts(load_suite(path).document)


def test_the_starter_fits() -> None:
    assert accepts(load(read_starter_suite()).document)


def test_the_suite_with_all_keys_fits(whole: SuiteDefinition) -> None:
    assert accepts(whole.document)


def test_every_named_part_is_referred_to() -> None:
    schema = suite_schema()
    written = msgspec.json.encode(schema).decode()
    assert "eval" in schema["$defs"]
    for name in schema["$defs"]:
        assert f'"$ref":"#/$defs/{name}"' in written


def test_every_key_and_check_says_what_it_is_for() -> None:
    def undescribed(schema: Any, path: str = "") -> Iterator[str]:
        if isinstance(schema, dict):
            for key, each in schema.get("properties", {}).items():
                if not each.get("description"):
                    yield f"{path}.{key}"
            for key, each in schema.items():
                yield from undescribed(each, f"{path}.{key}")
        elif isinstance(schema, list):
            for each in schema:
                yield from undescribed(each, path)

    assert list(undescribed(suite_schema())) == []


def documents() -> list[Any]:
    return [load(WHOLE).document, *(load_suite(path).document for path in EXAMPLES)]


@pytest.mark.parametrize("document", documents(), ids=lambda each: each["metadata"]["name"])
def test_an_unknown_key_is_refused_by_both_wherever_it_stands(document: Any) -> None:
    paths = list(mappings(document))
    assert len(paths) > 3
    for path in paths:
        wrong = changed(document, path, "frobnicate", 1)
        assert (accepts(wrong), loads(wrong, EXAMPLES[0].parent)) == (False, False), path


@pytest.mark.parametrize("document", documents(), ids=lambda each: each["metadata"]["name"])
def test_a_key_of_the_users_own_is_accepted_by_both_wherever_it_stands(document: Any) -> None:
    for path in mappings(document):
        more = changed(document, path, "x-own", [1, None])
        assert (accepts(more), loads(more, EXAMPLES[0].parent)) == (True, True), path


WRONG: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 0.5, 7, "", " ", "x", [], ["x"], {}, {"or": []}]
)


@given(st.data())
def test_whatever_the_loader_accepts_fits_the_schema(data: st.DataObject) -> None:
    document = data.draw(st.sampled_from(documents_once()))
    path = data.draw(st.sampled_from(list(mappings(document))))
    node = document
    for step in path:
        node = node[step]
    key = data.draw(st.sampled_from(sorted(node) or ["name"]))
    wrong = changed(document, path, key, data.draw(WRONG))
    if loads(wrong, EXAMPLES[0].parent):
        assert accepts(wrong)


_ONCE: list[Any] = []


def documents_once() -> list[Any]:
    if not _ONCE:
        _ONCE.extend(documents())
    return _ONCE


_ASKED = [{"name": "a", "checks": []}]


@pytest.mark.parametrize(
    ("prompts", "evals", "fits"),
    [
        (["x", {"prompt": "y", "name": "b", "system_prompt": ""}], _ASKED, True),
        ({"a": "x", "b": {"prompt": "y"}}, [*_ASKED, {"prompt": "z", "checks": []}], True),
        (None, _ASKED, False),
        (["x"], [{"prompt": "y", "turns": ["z"], "checks": []}, *_ASKED], False),
        ([], _ASKED, False),
        ("x", _ASKED, False),
        ([{"name": "b"}], _ASKED, False),
        ([{"prompt": "x", "file": "y"}], _ASKED, False),
        ({"a": {"name": "b", "prompt": "x"}}, _ASKED, False),
        ({"a": ""}, _ASKED, False),
    ],
)
def test_prompts_fit_both_or_neither(
    prompts: object, evals: list[Any], fits: bool, tmp_path: Path
) -> None:
    document = {"evals": evals} | ({} if prompts is None else {"prompts": prompts})
    assert accepts(document) is loads(document, tmp_path) is fits


def with_eval(**keys: Any) -> dict[str, Any]:
    return {"evals": [{"prompt": "a", "checks": [], **keys}]}


def with_scorer(name: str) -> dict[str, Any]:
    return with_eval(checks=[{"scorer": {"use": "word_count", "name": name}}])


NO_NAMES: list[Any] = ["max", "min", "avg", "total", 5, None, []]
NAMES = {
    **dict.fromkeys(("a", "a-b", "_", "e5", "1a", "5-x", "-a", "total_tokens", "x" * 128), True),
    **dict.fromkeys(("", " ", "two words", "ä", "a.b", "a\nb", "x" * 129), False),
    **dict.fromkeys(("12", "-5", "1e", "1e-3", "007", "-", "--"), False),
    **dict.fromkeys(("success_pct", "max_latency", "total_cost", "sqrt", "if", "clamp"), False),
}


@pytest.mark.parametrize(
    ("document", "fine"),
    [
        *((with_eval(name=name), fine) for name, fine in NAMES.items()),
        *((with_eval(name=name), False) for name in NO_NAMES),
        *((with_scorer(name), fine) for name, fine in NAMES.items()),
        (with_scorer("avg"), True),
        (with_scorer("{{var('name')}} x"), True),
        (with_eval(cases_from="rows.txt"), False),
        (with_eval(cases_from={"file": "rows"}), False),
        ({"evals": [{"turns": ["a"]}]}, False),
        ({"evals": [{"turns": [{"user": "a"}]}]}, False),
        ({"evals": [{"turns": [{"user": "a", "checks": []}]}]}, True),
        ({"evals": [{"turns": ["a"], "scorers": "word_count"}]}, True),
        ({**with_eval(), "score": "{{secret('k')}}"}, False),
        ({**with_eval(), "score": {"formula": "success_pct * {{ secret('k') }}"}}, False),
        ({**with_eval(), "score": "success_pct * {{var('k')}}"}, True),
    ],
    ids=repr,
)
def test_what_the_loader_refuses_the_schema_refuses(document: Any, fine: bool) -> None:
    assert (accepts(document), loads(document, EXAMPLES[0].parent)) == (fine, fine)
