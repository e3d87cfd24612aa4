"""Markdown as safe HTML, for user text and for the documentation.

HTML in it is shown as text, and a page loads nothing on its own. In user text, images are left
out and only web and mail links are kept. Documentation pages have images, links to each other, and
an anchor for every heading; their HTML comments are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import msgspec
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name
from pygments.token import Token as AnyToken
from pygments.util import ClassNotFound

from tallymark.text import clean

_COMMAND = re.compile(r"^(\$ )(.*)$", re.MULTILINE)
_LEXERS = {"sh": "bash"}
_PLAIN = {"", "text", "console"}
_MARKED = (Keyword, Name.Tag)


def draw_code(code: str, language: str, name: str = "") -> str:
    """Draw a code block with its file name; script adds a copy button."""
    head = f'<figcaption class="small quiet">{escape(name)}</figcaption>' if name else ""
    inner = _draw_console(code) if language == "console" else "".join(_draw(code, language))
    # It may be wider than the page, and is then scrolled by keys too.
    return (
        f'<figure class="sample">{head}<pre tabindex="0" data-language="{escape(language)}">'
        f"<code>{inner}</code></pre></figure>\n"
    )


def _draw_console(code: str) -> str:
    """Highlight typed commands."""
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
        elif any(kind in each for each in _MARKED) and kind is not AnyToken:
            yield f'<span class="k">{shown}</span>'
        else:
            yield shown


@lru_cache(maxsize=32)
def _find_lexer(language: str) -> Any:
    try:
        return get_lexer_by_name(_LEXERS.get(language, language), stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


_SCHEMES = {"http", "https", "mailto"}
_MOST = 100_000
_HEADINGS_FROM = 2
"""The page itself has the only h1."""
_COMMENT = re.compile(r"\s*<!--.*?-->\s*", re.DOTALL)
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")

Resolve = Callable[[str], str | None]
"""Maps a link target to a URL of this site; None if the target is elsewhere."""
Env = MutableMapping[str, Any]


class Heading(msgspec.Struct, frozen=True, kw_only=True):
    """A heading with its anchor."""

    rank: int
    text: str
    anchor: str


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Plain text below a heading."""

    heading: Heading
    text: str


class MarkdownPage(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed page of the documentation."""

    title: str
    html: Markup
    sections: list[Section]
    """The first is the text below the title."""
    targets: list[str]
    """Targets of its links and images, as written."""


def render_markdown(text: str) -> Markup:
    """Render user text as HTML, cut to a readable length."""
    return _render(clean(text[:_MOST]))


def read_page(text: str, resolve: Resolve) -> MarkdownPage:
    """Parse a documentation page, with headings and searchable text."""
    parser = _make_page_parser()
    tokens = parser.parse(text)
    sections = list(_cut_sections(tokens))
    targets = list(_resolve_links(tokens, resolve))
    rendered = str(parser.renderer.render(tokens, parser.options, {}))
    html = Markup(rendered.replace("<th></th>", "<td></td>"))  # noqa: S704 (ours; heads nothing)
    title = sections[0].heading.text if sections else ""
    return MarkdownPage(title=title, html=html, sections=sections, targets=targets)


def make_anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return _NOT_IN_ANCHORS.sub("", heading.strip().lower()).replace(" ", "-")


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
    parser.add_render_rule("heading_close", _open_heading)
    return parser


@lru_cache(maxsize=1)
def _make_page_parser() -> MarkdownIt:
    # HTML is recognised only to leave out comments; none of it is passed on.
    parser = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable("table")
    parser.add_render_rule("html_block", _show_html)
    parser.add_render_rule("html_inline", _show_html)
    parser.add_render_rule("fence", _show_fence)
    parser.add_render_rule("heading_close", _close_page_heading)
    parser.add_render_rule("table_open", _open_table)
    parser.add_render_rule("table_close", _close_table)
    return parser


def _cut_sections(tokens: Sequence[Token]) -> Iterator[Section]:
    """Give every heading an anchor, and yield the text below it."""
    taken: dict[str, int] = {}
    heading: Heading | None = None
    found: list[str] = []
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            if heading is not None:
                yield Section(heading=heading, text=" ".join(found))
            words = _read_words(tokens[place + 1])
            anchor = make_anchor(words)
            taken[anchor] = taken.get(anchor, -1) + 1
            anchor += f"-{taken[anchor]}" if taken[anchor] else ""
            heading, found = Heading(rank=int(token.tag[1]), text=words, anchor=anchor), []
            token.attrSet("id", anchor)
            tokens[place + 2].meta = {"anchor": anchor, "words": words}
        elif token.type == "inline" and tokens[place - 1].type != "heading_open":
            found.append(_read_words(token))
        elif token.type == "fence":
            found.append(token.content)
    if heading is not None:
        yield Section(heading=heading, text=" ".join(found))


def _read_words(inline: Token) -> str:
    shown = ("text", "code_inline", "softbreak", "hardbreak", "image")
    children = [each for each in inline.children or () if each.type in shown]
    return "".join(each.content if "break" not in each.type else " " for each in children).strip()


def _resolve_links(tokens: Sequence[Token], resolve: Resolve) -> Iterator[str]:
    """Point links and images to this site; targets elsewhere become text with a tooltip."""
    for inline in tokens:
        opened: list[str] = []
        for token in inline.children or ():
            if token.type == "link_open":
                target = str(token.attrGet("href"))
                yield target
                opened.append(_resolve_link(token, target, resolve))
            elif token.type == "link_close":
                token.tag = opened.pop()
            elif token.type == "image":
                target = str(token.attrGet("src"))
                yield target
                token.attrs = {"src": resolve(target) or "", "loading": "lazy", "alt": ""}


def _resolve_link(token: Token, target: str, resolve: Resolve) -> str:
    if _may_follow(target):
        token.attrSet("rel", "noopener noreferrer")
        return token.tag
    found = resolve(target)
    if found is None:
        path = target.replace("../", "")
        token.tag = "span"
        token.attrs = {"class": "elsewhere", "data-tip": f"In the repository: {path}"}
    else:
        token.attrs = {"href": found}
    return token.tag


def _may_follow(address: str) -> bool:
    """Return True for web and mail addresses."""
    try:
        return urlsplit(address.strip()).scheme.lower() in _SCHEMES
    except ValueError:
        return False


def _open_link(
    self: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Env
) -> str:
    tokens[place].attrSet("rel", "noopener nofollow noreferrer")
    return self.renderToken(tokens, place, options, env)


def _open_heading(
    self: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Env
) -> str:
    token = tokens[place]
    token.tag = f"h{min(6, int(token.tag[1]) + _HEADINGS_FROM)}"
    return self.renderToken(tokens, place, options, env)


def _close_page_heading(
    self: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Env
) -> str:
    token = tokens[place]
    if token.tag == "h1":
        return self.renderToken(tokens, place, options, env)
    anchor, words = escape(token.meta["anchor"]), escape(token.meta["words"])
    return f' <a class="anchor" href="#{anchor}" aria-label="Link to {words}">#</a></{token.tag}>\n'


def _show_html(
    self: RendererHTML,  # noqa: ARG001
    tokens: Sequence[Token],
    place: int,
    options: Any,  # noqa: ARG001
    env: Env,  # noqa: ARG001
) -> str:
    return str(escape(_COMMENT.sub("", tokens[place].content)))


def _show_fence(
    self: RendererHTML,  # noqa: ARG001
    tokens: Sequence[Token],
    place: int,
    options: Any,  # noqa: ARG001
    env: Env,  # noqa: ARG001
) -> str:
    language, _, name = tokens[place].info.strip().partition(" ")
    return draw_code(tokens[place].content, language, name)


def _open_table(
    self: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Env
) -> str:
    # Scrollable boxes need focus for keyboard users.
    box = '<div class="wide" tabindex="0" role="group" aria-label="Table">'
    return box + self.renderToken(tokens, place, options, env)


def _close_table(
    self: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Env
) -> str:
    return f"{self.renderToken(tokens, place, options, env)}</div>\n"
