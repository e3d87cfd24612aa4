"""Markdown that strangers wrote."""

from __future__ import annotations

import pytest

from tallymark.web.markdown import render_markdown


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**bold** `code`", "<p><strong>bold</strong> <code>code</code></p>\n"),
        ("# Head", "<h3>Head</h3>\n"),
        ("<b>raw</b>", "<p>&lt;b&gt;raw&lt;/b&gt;</p>\n"),
        (
            "[out](https://example.org)",
            '<p><a href="https://example.org" rel="noopener nofollow noreferrer">out</a></p>\n',
        ),
    ],
)
def test_what_is_meant_is_shown(text: str, html: str) -> None:
    assert render_markdown(text) == html


@pytest.mark.parametrize(
    "address",
    ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "/runs", "//evil.example",
     "file:///etc/passwd", "&#106;avascript:alert(1)", "vbscript:x"],
)  # fmt: skip
def test_no_other_address_becomes_a_link(address: str) -> None:
    assert "<a" not in render_markdown(f"[x]({address}) <{address}>")


def test_a_picture_is_asked_for_by_nobody() -> None:
    assert "<img" not in render_markdown("![x](https://evil.example/pixel.png)")
