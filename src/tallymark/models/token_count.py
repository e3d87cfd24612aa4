"""Counts tokens on this machine, for answers whose provider reports no count.

The tokenizer is `cl100k_base`, that of GPT-4: text is cut into pieces by a pattern, and of each
piece the two neighbours whose union has the lowest rank are merged until none has one. The ranks
are OpenAI's, under MIT. Other models cut text their own way; the count is exact for this one.
See docs/decisions/0015.
"""

from __future__ import annotations

import zlib
from functools import cache
from heapq import heapify, heappop, heappush
from importlib.resources import files
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from tallymark.abandonable_calls import call_in_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

_RANKS = "cl100k_base.ranks"
"""Compressed: the length of each token in a byte, then all tokens, in the order of their ranks."""
_TOKENS = 100_256
# As published with the ranks, written for a library where `\s` means more and `$` means less.
_SPACE = r"\p{White_Space}"
_PIECES = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    rf"| ?[^{_SPACE}\p{{L}}\p{{N}}]++[\r\n]*+|{_SPACE}++\Z|{_SPACE}*[\r\n]"
    rf"|{_SPACE}+(?!\P{{White_Space}})|{_SPACE}"
)
_QUICK = 10_000  # characters that are counted in about 2 ms, which all answers on their way wait
LONGEST = 1_000_000
"""Characters that are counted; one word that long takes 3 s. The rest is taken to be the same."""


@cache
def load_tokenizer() -> tuple[Any, dict[bytes, int]]:
    """The function that cuts text into pieces, and the rank of each token."""
    import regex  # type: ignore[import-untyped]  # noqa: PLC0415 (40 ms, and 30 for the ranks)

    data = zlib.decompress(files("tallymark.models").joinpath(_RANKS).read_bytes())
    places = pairwise(accumulate(data[:_TOKENS], initial=_TOKENS))
    ranks = {data[start:end]: rank for rank, (start, end) in enumerate(places)}
    return regex.compile(_PIECES).findall, ranks


def count_tokens(text: str) -> int:
    """Count the tokens of a text, of one beyond a million characters in proportion."""
    if len(text) > LONGEST:
        return count_tokens(text[:LONGEST]) * len(text) // LONGEST
    find_pieces, ranks = load_tokenizer()
    pieces = [piece.encode() for piece in find_pieces(make_storable(text))]
    return sum(1 if piece in ranks else _count_merged(piece, ranks) for piece in pieces)


async def count_each(texts: Sequence[str]) -> list[int]:
    """The count of each text; what takes long is done in a thread, so that others are not held up.

    That is counting long texts, and loading the tokenizer where nothing was counted yet.
    """
    if sum(map(len, texts)) > _QUICK or not load_tokenizer.cache_info().currsize:
        return await call_in_thread(lambda: [count_tokens(text) for text in texts])
    return [count_tokens(text) for text in texts]


def make_storable(text: str) -> str:
    """The text without halves of surrogate pairs, which nothing can count or write down."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _count_merged(piece: bytes, ranks: dict[bytes, int]) -> int:
    """Number of tokens of a piece that is not a token itself."""
    size = left = len(piece)
    # Each part is known by where it begins. Entries of the heap are not removed when one of their
    # parts is merged with another: they no longer fit what is noted here.
    ends, before, starts = list(range(1, size + 1)), list(range(-1, size)), bytearray(b"\1" * size)
    heap = [
        (ranks[pair], start, start + 2)
        for start in range(size - 1)
        if (pair := piece[start : start + 2]) in ranks
    ]
    heapify(heap)
    while heap:
        _, start, end = heappop(heap)
        middle = ends[start]
        if not starts[start] or middle >= size or ends[middle] != end:
            continue
        starts[middle], ends[start], before[end] = 0, end, start
        left -= 1
        neighbours = [(start, ends[end])] if end < size else []
        if before[start] >= 0:
            neighbours.append((before[start], end))
        for first, last in neighbours:
            rank = ranks.get(piece[first:last])
            if rank is not None:
                heappush(heap, (rank, first, last))
    return left
