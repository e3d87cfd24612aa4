"""Markdown that strangers wrote, and pages of our own."""

from __future__ import annotations

import pytest

from tallymark.web.markdown import make_anchor, read_page, render_markdown


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


def find_nothing(_target: str) -> None:
    """A site without pages."""


def test_a_page_of_ours_has_anchors_sections_and_links() -> None:
    page = read_page(
        "# Title\n\n[a](a.md), [b](b.md).\n\n## Two words\n\ntext `code`\n\n## Two words\n",
        {"a.md": "/docs/a"}.get,
    )
    assert page.title == "Title"
    anchors = [(each.heading.anchor, each.text) for each in page.sections]
    assert anchors[:2] == [("title", "a, b."), ("two-words", "text code")]
    assert anchors[2][0] == "two-words-1"
    assert '<a href="/docs/a">a</a>' in page.html
    assert '<span class="elsewhere" data-tip="In the repository: b.md">b</span>' in page.html
    assert page.targets == ["a.md", "b.md"]


def test_html_in_a_page_of_ours_is_text_and_its_comments_are_not_shown() -> None:
    page = read_page(
        "# T\n\n<!-- made -->\n\n<script>x</script>\n\na <!-- b --> <i>c</i>\n", find_nothing
    )
    assert "made" not in page.html
    assert "<script>" not in page.html
    assert "&lt;i&gt;" in page.html


def test_a_table_and_code_that_are_too_wide_are_reached_by_keys() -> None:
    page = read_page("# T\n\n| a |\n|---|\n| b |\n\n```sh\nx\n```\n", find_nothing)
    assert '<div class="wide" tabindex="0" role="group"' in page.html
    assert '<pre tabindex="0"' in page.html


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("When is a run worse?", "when-is-a-run-worse"),
        ("GET /runs/{run}", "get-runsrun"),
        ("Inside `challenges/`", "inside-challenges"),
        ("tally run", "tally-run"),
        ("a_b  c", "a_b--c"),
    ],
)
def test_an_anchor_is_what_forges_make_of_a_heading(heading: str, anchor: str) -> None:
    assert make_anchor(heading.replace("`", "")) == anchor
