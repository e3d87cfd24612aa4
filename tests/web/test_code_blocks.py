"""Code in pages of our own."""

from __future__ import annotations

import pytest

from tallymark.web.markdown import draw_code


@pytest.mark.parametrize(
    ("language", "code", "part"),
    [
        (
            "console",
            "$ tally run\nScore: 1\n",
            '<span class="c">$ </span><b>tally run</b>\nScore: 1',
        ),
        ("yaml", "a: 1 # why\n", '<span class="k">a</span>: 1 <span class="c"># why</span>'),
        ("text", "<b> & $ x\n", "&lt;b&gt; &amp; $ x"),
        ("sh", "tally run # it\n", '<span class="c"># it'),
        ("no-such-language", "<x>\n", "&lt;x&gt;"),
    ],
)
def test_it_marks_comments_keys_and_what_is_typed(language: str, code: str, part: str) -> None:
    assert part in draw_code(code, language)


def test_a_file_has_its_name_above() -> None:
    assert "<figcaption" in draw_code("x", "yaml", "suite.yaml")
    assert "&lt;i&gt;" in draw_code("x", "yaml", "<i>")
