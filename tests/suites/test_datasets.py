"""Datasets: rows that become cases, and rows that cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.suites.suite_texts import load, mistakes

from tallymark.errors import InvalidInput
from tallymark.suites.resolved_suite import resolve
from tallymark.suites.suite_definition import SuiteDefinition


def suite(config: str, more: str = "name: qa,") -> str:
    return f"evals: [{{{more} prompt: \"{{{{var('q')}}}}\", cases_from: {config}, checks: []}}]"


def prompts(definition: SuiteDefinition) -> dict[str, str]:
    resolved = resolve(definition)
    return {case.key: resolved.case(case).turns[0].user for case in definition.cases}


@pytest.mark.parametrize(
    ("file", "text", "cases"),
    [
        ("d.csv", "q,a\none,1\ntwo,2\n", {"qa[1]": "one", "qa[2]": "two"}),
        ("d.csv", "\ufeffid,q\nx,one\ny,two\n", {"qa[x]": "one", "qa[y]": "two"}),
        ("d.csv", 'q\r\n"a, ""b""\nc"\r\n\r\n', {"qa[1]": 'a, "b"\nc'}),
        ("D.CSV", "q\none\n", {"qa[1]": "one"}),
        ("d.jsonl", '{"q": "one"}\n\n{"q": "two"}\n', {"qa[1]": "one", "qa[2]": "two"}),
        ("d.jsonl", '{"id": 7, "q": ["é", 1.5]}', {"qa[7]": '["é", 1.5]'}),
        ("d.ndjson", '{"q": null}', {"qa[1]": ""}),
        (
            "d.json",
            '\ufeff[{"id": "a", "q": "one"}, {"id": "b", "q": 2}]',
            {"qa[a]": "one", "qa[b]": "2"},
        ),
        ("d.csv", '"a, b";q\r\n1,5;one\r\n', {"qa[1]": "one"}),
        ("d.csv", "\ufeffid\tq\nx\tone, two\n", {"qa[x]": "one, two"}),
        ("d.tsv", "q\ta\none\t1\n", {"qa[1]": "one"}),
        ("d.csv", "q,a;b\none;two,1\n", {"qa[1]": "one;two"}),
    ],
)
def test_rows_become_cases(tmp_path: Path, file: str, text: str, cases: dict[str, str]) -> None:
    (tmp_path / file).write_bytes(text.encode())
    assert prompts(load(suite(file), tmp_path)) == cases


def test_an_eval_without_a_name(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("q\none\n")
    assert list(prompts(load(suite("d.csv", ""), tmp_path))) == ["#1[1]"]


def test_a_column_that_names_the_rows_and_a_limit(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("q,key\none,k1\ntwo,k2\nthree,k3\n")
    definition = load(suite("{file: d.csv, id: key, limit: 2}"), tmp_path)
    assert list(prompts(definition)) == ["qa[k1]", "qa[k2]"]


def test_a_row_without_a_column_takes_the_evals_value(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"q": "one"}\n{"other": 1}\n')
    definition = load(suite("d.jsonl", "name: qa, vars: {q: default},"), tmp_path)
    assert prompts(definition) == {"qa[1]": "one", "qa[2]": "default"}


def test_a_column_that_is_not_there_is_told_with_the_file_and_its_columns(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("land,Q\nFrance,Paris\n")
    with pytest.raises(InvalidInput) as caught:
        resolve(load(suite("d.csv"), tmp_path))
    line = suite("d.csv")
    assert caught.value.render() == (
        "suite.yaml:1:29: d.csv has no column 'q'; did you mean 'Q'? its columns are land, Q\n"
        f"  {line[:78]}\n{' ' * 30}{'^' * 12}"
    )
    resolve(load(suite("d.csv"), tmp_path), vars={"q": "given"})


def test_a_column_that_nobody_uses_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"q": "one", "note": "x"}\n{"q": "two"}\n')
    assert len(prompts(load(suite("d.jsonl"), tmp_path))) == 2


@pytest.mark.parametrize(
    ("config", "text", "said"),
    [
        ("d.txt", "", "suite.yaml:1:56: evals, #1: d.txt is no dataset; one ends in .csv, .tsv,"),
        ("d.json", "{", "evals, #1: d.json is not JSON: "),
        ("d.json", '{"q": 1}', "evals, #1: d.json is no list of JSON objects; write [{"),
        ("d.json", '[{"q": 1}, 2]', "d.json: row 2 is not a JSON object"),
        ("none.csv", "", "none.csv cannot be read: No such file or directory; a path starts at"),
        ("d.csv", "", "d.csv has no rows"),
        ("d.csv", "q\n", "d.csv has no rows"),
        ("d.csv", "q,q\n1,2", "d.csv:1: the first row must name every column"),
        ("d.csv", "q,\n1,2", "d.csv:1: the first row must name every column"),
        ("d.csv", "q\na,b\nc\nd,e", "d.csv:2: the row has 2 values for 1 columns"),
        ("d.csv", 'q\n"open', "d.csv:2: not valid CSV"),
        ("d.csv", b"q\n\xff", "d.csv is not UTF-8 text (byte 3)"),
        ("d.csv", "id,q\na,1\na,2", "d.csv, row 2: the id 'a' is there twice"),
        ("d.csv", "id,q\n,1", "d.csv, row 1: the id '' cannot name a row"),
        ("{file: d.csv, id: key}", "q\n1", "d.csv has no column 'key'; the columns are q"),
        ("{id: key}", "", "cases_from: the key 'file' is missing"),
        ("d.jsonl", '{"q": 1}\n[1]\n{', "d.jsonl:2: the line is not a JSON object"),
        ("d.jsonl", '{"q": 1}\n[1]\n{', "d.jsonl:3: the line is not JSON"),
        ("d.jsonl", "[" * 100_000, "d.jsonl:1: the line is not JSON"),
        ("d.jsonl", '{"q": 1}\n{"r": 1}', "d.jsonl: row 2 has no 'q'"),
    ],
)
def test_what_is_refused(tmp_path: Path, config: str, text: str | bytes, said: str) -> None:
    for name in ("d.csv", "d.json", "d.jsonl", "d.txt"):
        raw = text if isinstance(text, bytes) else text.encode()
        (tmp_path / name).write_bytes(raw)
    assert said in "\n".join(mistakes(suite(config), tmp_path))


def test_a_variable_that_no_column_has_must_come_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("question\none\n")
    assert load(suite("d.csv"), tmp_path).var_names == ("q",)


def test_the_hash_changes_with_the_dataset(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("q\none\n")
    before = load(suite("d.csv"), tmp_path)
    (tmp_path / "d.csv").write_text("q\ntwo\n")
    assert load(suite("d.csv"), tmp_path).hash != before.hash


def test_a_long_field_is_fine(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("q\n" + "x" * 500_000)
    assert len(prompts(load(suite("d.csv"), tmp_path))["qa[1]"]) == 500_000
