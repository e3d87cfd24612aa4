"""Parsers of strangers' bytes on a corpus that is kept: a value or a sentence, nothing else.

`scripts/fuzz_parsers.py` says what a parser is; the fuzzer (`make proof`) adds what it finds.
"""

from __future__ import annotations

import re
import time

import pytest
from scripts.fuzz_parsers import CORPUS, PARSERS, SECONDS, LawBroken, Parser

from tallymark.errors import InvalidInput


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_gives_a_value_or_a_sentence(name: str) -> None:
    parser = PARSERS[name]
    verdicts = set()
    for path in parser.files:
        start = time.process_time()
        try:
            verdicts.add(parser.try_on(path.read_bytes()))
        except Exception as error:
            error.add_note(f"it was tried on {path}")
            raise
        assert time.process_time() - start < SECONDS, path
    # A corpus that is all refused, or all taken, tries half of a parser.
    assert verdicts == {True, False}


def test_every_folder_of_the_corpus_is_a_parser_s() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(PARSERS)


def test_files_are_named_for_why_they_are_there() -> None:
    names = [path.name for path in CORPUS.rglob("*") if path.is_file()]
    assert not [name for name in names if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name)]
    assert max(path.stat().st_size for path in CORPUS.rglob("*")) < 120_000


def test_what_breaks_the_law_is_noticed() -> None:
    def fail(_: bytes) -> None:
        raise RecursionError("too deep")

    with pytest.raises(RecursionError):
        Parser("wrong", fail).try_on(b"")

    def say_nothing(_: bytes) -> None:
        raise InvalidInput(" ")

    with pytest.raises(LawBroken):
        Parser("silent", say_nothing).try_on(b"")
