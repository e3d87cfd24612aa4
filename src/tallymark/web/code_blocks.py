"""Code in pages of our own: comments quiet, keys and keywords marked, what is typed strong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from markupsafe import escape
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Token
from pygments.util import ClassNotFound

_COMMAND = re.compile(r"^(\$ )(.*)$", re.MULTILINE)
_LEXERS = {"sh": "bash"}
_PLAIN = {"", "text", "console"}
_MARKED = (Keyword, Name.Tag)


def draw_code(code: str, language: str, name: str = "") -> str:
    """A block with the name of its file; script adds a button that copies it."""
    head = f'<figcaption class="small quiet">{escape(name)}</figcaption>' if name else ""
    inner = _draw_console(code) if language == "console" else "".join(_draw(code, language))
    # It may be wider than the page, and is then scrolled by keys too.
    return (
        f'<figure class="sample">{head}<pre tabindex="0" data-language="{escape(language)}">'
        f"<code>{inner}</code></pre></figure>\n"
    )


def _draw_console(code: str) -> str:
    """What is typed stands out from what is answered."""
    return _COMMAND.sub(r'<span class="c">\1</span><b>\2</b>', str(escape(code)))


def _draw(code: str, language: str) -> Iterator[str]:
    lexer = None if language in _PLAIN else _find_lexer(language)
    if lexer is None:
        yield str(escape(code))
        return
    for kind, text in lexer.get_tokens(code):
        shown = str(escape(text))
        if kind in Comment and kind not in Comment.Preproc:
            yield f'<span class="c">{shown}</span>'
        elif any(kind in each for each in _MARKED) and kind is not Token:
            yield f'<span class="k">{shown}</span>'
        else:
            yield shown


@lru_cache(maxsize=32)
def _find_lexer(language: str) -> Any:
    try:
        return get_lexer_by_name(_LEXERS.get(language, language), stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
