"""The documentation: every page is listed once, and every link works."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tallymark.errors import NotFound
from tallymark.web.docs_tree import DECISIONS, FRONT, DocsTree, load_docs

ROOT = Path(__file__).parents[2]
EXTERNAL = ("http://", "https://", "mailto:")


@pytest.fixture(scope="module")
def tree() -> DocsTree:
    return load_docs()


def test_docs_readme_lists_every_page_once(tree: DocsTree) -> None:
    listed = Counter(each.page for group in tree.groups for each in group.entries)
    assert [page for page, times in listed.items() if times > 1] == []
    assert "More" not in {group.title for group in tree.groups}, "add the page to docs/README.md"
    assert set(listed) == {name for name in tree.pages if "/" not in name} | {DECISIONS}


def test_links_and_anchors_exist(tree: DocsTree) -> None:
    anchors = {
        page.address: {each.heading.anchor for each in page.read.sections}
        for page in tree.list_pages()
    } | {FRONT: {group.anchor for group in tree.groups}}
    dead = []
    for page in tree.list_pages():
        for target in page.read.targets:
            if target.startswith(EXTERNAL):
                continue
            path = (ROOT / page.path).parent / target.partition("#")[0]
            found = tree.resolve(page.path, target)
            address, _, anchor = (found or "").partition("#")
            known = anchors.get(address or page.address)
            if not path.exists() or (anchor and known is not None and anchor not in known):
                dead.append(f"{page.path}: {target}")
    assert dead == []


def test_every_page_begins_with_its_title(tree: DocsTree) -> None:
    for page in tree.list_pages():
        assert page.read.sections[0].heading.rank == 1, page.path
        assert [each.heading.rank for each in page.read.sections].count(1) == 1, page.path


@pytest.mark.parametrize(
    ("path", "target", "address"),
    [
        ("docs/ci.md", "reports.md#from-python", "/docs/reports#from-python"),
        ("docs/ci.md", "#here", "#here"),
        ("docs/ci.md", "decisions/0008-sandbox.md", "/docs/decisions/0008-sandbox"),
        ("docs/decisions/0008-sandbox.md", "../sandbox.md", "/docs/sandbox"),
        ("README.md", "docs/formulas.md", "/docs/formulas"),
        ("README.md", "docs/home.png", "/docs/home.png"),
        ("docs/map.md", "architecture.svg", "/docs/architecture.svg"),
        ("docs/ci.md", "../README.md#install", "/docs/readme#install"),
        ("docs/ci.md", "README.md", "/docs"),
        ("docs/map.md", "decisions/", "/docs/decisions"),
        ("docs/ci.md", "../examples/suites", None),
        ("docs/ci.md", "../../etc/passwd", None),
        ("docs/ci.md", "../.github/logo.png", None),
    ],
)
def test_links_of_files_are_links_of_pages(
    tree: DocsTree, path: str, target: str, address: str | None
) -> None:
    assert tree.resolve(path, target) == address


def test_pages_follow_each_other_in_the_order_of_the_contents(tree: DocsTree) -> None:
    ordered = [each.page for group in tree.groups for each in group.entries]
    for before, page, after in zip(ordered, ordered[1:], ordered[2:], strict=False):
        neighbours = tree.neighbours(page)
        assert [each and each.page for each in neighbours] == [before, after]
    assert tree.neighbours(ordered[0])[0] is None
    assert tree.neighbours(tree.decisions[0].page)[0] is None


def test_an_unknown_page_suggests_the_nearest(tree: DocsTree) -> None:
    with pytest.raises(NotFound, match="no page 'formulae'") as refused:
        tree.find("formulae")
    assert "formulas" in str(refused.value.problems[0].hint)


def test_a_page_missing_from_the_contents_is_listed_last(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text(
        "# Docs\n\n## Reference\n\n- [One](one.md): first\n"
    )
    for name in ("one", "two"):
        (tmp_path / "docs" / f"{name}.md").write_text(f"# {name}\n")
    tree = DocsTree(tmp_path)
    assert [group.title for group in tree.groups] == ["Reference", "More"]
    assert [page.name for page in tree.list_pages()] == ["one", "two"]
