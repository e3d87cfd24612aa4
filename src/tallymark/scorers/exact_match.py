"""`exact_match`: is the answer the expected one, word for word?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.scorers.expectations import read_expected_texts
from tallymark.scoring import Score, configurable
from tallymark.text import quote_some, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext


_FAR = 30


@configurable(blocking=False, data_type="boolean")
def exact_match(
    ignore_case: bool = False, strip: bool = True, normalize_whitespace: bool = False
) -> Callable[[EvalContext], Score]:
    """1 when the output equals expected.output, or one of the texts in it, else 0.

    White space around both does not count unless `strip` is false; with
    `normalize_whitespace`, any white space between words is as good as one space.
    """

    def tidy_more(text: str) -> str:
        if normalize_whitespace:
            text = " ".join(text.split())
        elif strip:
            text = text.strip()
        return text.casefold() if ignore_case else text

    usual = strip and not (normalize_whitespace or ignore_case)
    tidy: Callable[[str], str] = str.strip if usual else tidy_more

    def score(ctx: EvalContext) -> Score:
        texts = read_expected_texts(ctx, "exact_match")
        if isinstance(texts, Score):
            return texts
        output, wanted = tidy(ctx.output_text), [tidy(text) for text in texts]
        if output in wanted:
            return Score(1.0, "Output equals the expected text")
        if not output.strip():
            return Score(0.0, "Empty output")
        if len(wanted) > 1:
            return Score(0.0, f"Expected one of {quote_some(wanted)}, got {quote_some([output])}")
        return Score(0.0, _describe_difference(wanted[0], output))

    return score


def _describe_difference(wanted: str, output: str) -> str:
    """Both texts, from where they begin to differ if that is far into them."""
    start, where = 0, ""
    if wanted[:_FAR] == output[:_FAR]:
        shared = zip(wanted, output, strict=False)
        differing = (at for at, (one, other) in enumerate(shared) if one != other)
        at = next(differing, min(len(wanted), len(output)))
        if at >= _FAR:
            start, where = at, f" at character {at + 1}"
    return f"Expected {_quote(wanted[start:])}, got {_quote(output[start:])}{where}"


def _quote(text: str) -> str:
    return shorten(repr(shorten(text, 38)), 40)
