"""`tally admin config` and the documents know every variable that the code reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tallymark.service.environment_variables import OURS, VARIABLES, list_settings

ROOT = Path(__file__).parents[2]
_NAME = re.compile(r"\b(?:TALLY|OTEL)_[A-Z_]*[A-Z]\b")


def find_read() -> set[str]:
    sources = (ROOT / "src" / "tallymark").rglob("*.py")
    return {name for path in sources for name in _NAME.findall(path.read_text(encoding="utf-8"))}


def test_every_variable_that_the_code_names_is_listed_and_documented() -> None:
    listed = {each.name for each in VARIABLES}
    assert find_read() == listed | set(OURS)
    told = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert not [name for name in listed if f"`{name}`" not in told]


@pytest.mark.parametrize(
    ("flag", "variable", "file", "found"),
    [
        (None, None, None, (".tally/tally.db", "default")),
        (None, None, "a.db", ("a.db", "tally.toml")),
        (None, "b.db", "a.db", ("b.db", "environment")),
        ("c.db", "b.db", "a.db", ("c.db", "flag")),
        ("postgresql://me:pw@h/d", None, None, ("postgresql://********@h/d", "flag")),
    ],
)
def test_who_set_it(
    flag: str | None, variable: str | None, file: str | None, found: tuple[str, str]
) -> None:
    environment = {} if variable is None else {"TALLY_DB": variable}
    tables = {} if file is None else {"db": file}
    assert next(list_settings(environment, tables, flag))[1:] == found


def test_secrets_are_masked() -> None:
    secret = {each.name: "very secret" for each in VARIABLES if each.secret}
    told = list(list_settings(secret, {"run": {"threads": 3}}))
    assert not any("very secret" in each.value for each in told)
    assert told[-1] == ("run.threads", "3", "tally.toml")
