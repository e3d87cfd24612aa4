"""Files that can be read, and files that cannot, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallymark.documents.source import MAX_SOURCE_BYTES, Source
from tallymark.errors import InvalidInput
from tallymark.suites.suite_file import load_source, load_suite

SUITE = "evals:\n  - prompt: hi\n    checks: [match: hi]\n"


def refusal(path: Path) -> str:
    with pytest.raises(InvalidInput) as caught:
        load_suite(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "the file is empty"),
        (b"# only a comment\n", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (SUITE.encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
        (b"evals: \xff\xfe", "is not UTF-8 text (byte 8); save it as UTF-8"),
        (b"evals:\n  - a\x00b", "the control character U+0000 is not allowed here"),
        (b"42", "expected a mapping with 'metadata', 'evals' and 'score', but 42 is a number"),
        (b"- a", "expected a mapping with 'metadata', 'evals' and 'score', but this is a list"),
        (b"{}", "the key 'evals' is missing"),
    ],
)
def test_what_is_no_suite_is_refused_in_words(tmp_path: Path, raw: bytes, said: str) -> None:
    path = tmp_path / "suite.yaml"
    path.write_bytes(raw)
    assert said in refusal(path)


def test_a_missing_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.yaml").endswith("none.yaml; check the path")


def test_a_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path} is a folder; name the file in it"


def test_a_path_that_no_file_can_have(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(Path("a\0b"))


def test_a_file_beyond_the_limit_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    with path.open("wb") as file:
        file.truncate(MAX_SOURCE_BYTES + 1)
    assert refusal(path).endswith("has more than 50 MB; split it up")


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + SUITE.encode())
    assert load_suite(path).name == "suite"


def test_a_control_character_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_bytes(b"evals:\r\n  - a\x07")
    with pytest.raises(InvalidInput) as caught:
        load_suite(path)
    place = caught.value.problems[0].place
    assert place is not None
    assert (place.line, place.column) == (2, 6)


def test_half_a_surrogate_pair_is_refused_in_text_that_is_no_file() -> None:
    with pytest.raises(InvalidInput, match=r"U\+D800 is not allowed here"):
        load_source(Source("evals: \ud800"))


def test_lines_end_where_yaml_says_so() -> None:
    assert Source("a\r\nb\rc\u2028d\x85e").lines == ["a", "b", "c", "d", "e"]
