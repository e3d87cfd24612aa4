"""Search results of the documentation, and their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallymark.web.docs_search import DocsIndex, load_index
from tallymark.web.docs_tree import DocsTree


@pytest.fixture
def index(tmp_path: Path) -> DocsIndex:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "README.md").write_text("# Docs\n\n## All\n\n- [A](a.md)\n- [B](b.md)\n- [C](c.md)\n")
    (docs / "a.md").write_text("# Boards\n\nWho leads.\n\n## Frozen boards\n\nThey stand still.\n")
    (docs / "b.md").write_text("# Other\n\nA word on boards and success_pct.\n")
    (docs / "c.md").write_text("# Third\n\n## Boards here\n\nNothing <b>bold</b>.\n")
    return DocsIndex(DocsTree(tmp_path))


def find(index: DocsIndex, text: str) -> list[str]:
    return [hit.address for hit in index.search(text)]


def test_titles_rank_above_headings_and_headings_above_text(index: DocsIndex) -> None:
    found = find(index, "boards")
    assert found[0] == "/docs/a"
    assert set(found[1:3]) == {"/docs/a#frozen-boards", "/docs/c#boards-here"}
    assert found[3] == "/docs/b"


@pytest.mark.parametrize("text", ["frozen board", "FROZEN", "froz", "still frozen"])
def test_words_match_by_prefix_case_and_number(index: DocsIndex, text: str) -> None:
    assert find(index, text) == ["/docs/a#frozen-boards"]


@pytest.mark.parametrize("text", ["success_pct", "pct", "success"])
def test_joined_words_match_whole_and_in_parts(index: DocsIndex, text: str) -> None:
    assert find(index, text) == ["/docs/b"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "zzzz",
        "(",
        "<script>",
        '"',
        "\\",
        "[q-",
        "*" * 500,
        "zz AND",
        "zz NEAR(",
        "-zz",
        "zz:zz",
    ],
)
def test_unmatched_and_malformed_queries_find_nothing(index: DocsIndex, text: str) -> None:
    assert find(index, text) == []


def test_without_a_full_match_partial_matches_are_shown(index: DocsIndex) -> None:
    assert find(index, "leads zzzz")[0] == "/docs/a"


def test_snippets_mark_the_match(index: DocsIndex) -> None:
    [hit] = index.search("success_pct")
    assert [each.text for each in hit.snippets if each.found] == ["success_pct"]
    assert "".join(each.text for each in hit.snippets) == "A word on boards and success_pct."


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("interval", "intervals"),
        ("backup", "operations"),
        ("clamp", "formulas"),
        ("freeze board", "attempts"),
        ("promptfoo", "comparison"),
        ("webhook signature", "webhooks"),
        ("upload predictions", "comparison"),
        ("rate limit", "serving"),
        ("cheating", "security"),
        ("phases", "tracks"),
        ("hallucination", "judges"),
    ],
)
def test_topics_are_among_the_first_results(text: str, page: str) -> None:
    found = [hit.address.partition("#")[0] for hit in load_index().search(text)[:5]]
    assert f"/docs/{page}" in found


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("llm-as-a-judge", "judges"),
        ("sso", "accounts"),
        ("scoreboard freeze", "attempts"),
        ("docker", "operations"),
        ("how do I install it?", "readme"),
        ("getting started", "readme"),
        ("caching", "models"),
        ("upgrade", "operations"),
        ("parquet", "parquet"),
        ("rescore", "rescoring"),
        ("statistical significance", "intervals"),
        ("cost limit", "rules"),
        ("prometheus metrics", "operations"),
    ],
)
def test_questions_find_the_best_page_first(text: str, page: str) -> None:
    assert load_index().search(text)[0].address.partition("#")[0] == f"/docs/{page}"


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("assertion", "checks"),
        ("authentication", "accounts"),
        ("concurrency", "models"),
        ("cookie lifetime", "accounts"),
        ("csrf", "security"),
        ("data retention", "operations"),
        ("flaky", "intervals"),
        ("grader", "scorers"),
        ("kubernetes", "comparison"),
        ("largest submission", "api"),
        ("leaderboard", "attempts"),
        ("monitoring", "operations"),
        ("oauth", "accounts"),
        ("otlp", "production-traces"),
        ("pass@k", "ratings"),
        ("permission", "accounts"),
        ("pipeline", "ci"),
        ("plugin timeout", "plugins"),
        ("quarantine", "plugins"),
        ("retry", "models"),
        ("server-sent events", "api"),
        ("slack", "webhooks"),
        ("tie-break", "attempts"),
        ("toxicity", "judges"),
    ],
)
def test_engineering_terms_are_among_the_first_results(text: str, page: str) -> None:
    found = [hit.address.partition("#")[0] for hit in load_index().search(text)[:5]]
    assert f"/docs/{page}" in found
