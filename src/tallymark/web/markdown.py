"""Markdown that strangers wrote, as HTML that can do no harm.

HTML in it is shown as text, pictures are links, and only addresses of the web and of mail are
followed: a page makes no request that its reader did not ask for.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

from tallymark.text import clean

_SCHEMES = {"http", "https", "mailto"}
_MOST = 100_000
_HEADINGS_FROM = 2
"""A page has one heading of the first rank: its own."""


def render_markdown(text: str) -> Markup:
    """The text as HTML, cut where it is too long to be read anyway."""
    return _render(clean(text[:_MOST]))


@lru_cache(maxsize=256)
def _render(text: str) -> Markup:
    return Markup(_make_parser().render(text))  # noqa: S704 (the parser writes no HTML of others)


@lru_cache(maxsize=1)
def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table")
    parser.disable("image")
    parser.validateLink = _may_follow  # type: ignore[method-assign,assignment]
    parser.add_render_rule("link_open", _open_link)
    parser.add_render_rule("heading_open", _open_heading)
    parser.add_render_rule("heading_close", _close_heading)
    return parser


def _may_follow(address: str) -> bool:
    """Only what leads out into the web, or to somebody's mail."""
    try:
        return urlsplit(address.strip()).scheme.lower() in _SCHEMES
    except ValueError:
        return False


def _open_link(
    self: RendererHTML,
    tokens: Sequence[Token],
    place: int,
    options: Any,
    _env: MutableMapping[str, Any],
) -> str:
    tokens[place].attrSet("rel", "noopener nofollow noreferrer")
    return self.renderToken(tokens, place, options, _env)


def _open_heading(
    self: RendererHTML,
    tokens: Sequence[Token],
    place: int,
    options: Any,
    _env: MutableMapping[str, Any],
) -> str:
    token = tokens[place]
    token.tag = f"h{min(6, int(token.tag[1]) + _HEADINGS_FROM)}"
    return self.renderToken(tokens, place, options, _env)


def _close_heading(
    self: RendererHTML,
    tokens: Sequence[Token],
    place: int,
    options: Any,
    env: MutableMapping[str, Any],
) -> str:
    return _open_heading(self, tokens, place, options, env)
