"""`DocsTree`: the pages of the documentation, in the order that `docs/README.md` gives them.

They are next to the code: `README.md`, `CHANGELOG.md` and `docs/` are in the wheel beside the
package's modules, and in a clone at its top. A link between two files is a link between two pages.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path

import msgspec
from markupsafe import Markup

from tallymark.errors import NotFound, suggest
from tallymark.web.markdown import Heading, MarkdownPage, make_anchor, read_page

FRONT = "/docs"
DECISIONS = "decisions"
PICTURES = {".png": "image/png", ".svg": "image/svg+xml"}
_PACKAGE = Path(__file__).parents[1]
_GROUP = re.compile(r"^## (.+)$")
_ENTRY = re.compile(r"^- \[(.+?)\]\(([^)#]+)\)(?:: (.*))?$")
_MANY_HEADINGS = 60
_BESIDE = {"README.md": "readme", "CHANGELOG.md": "changelog"}
"""Pages that lie above `docs/`."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A page in the table of contents."""

    page: str
    title: str
    about: str = ""

    @property
    def address(self) -> str:
        return f"{FRONT}/{self.page}"


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A group of pages."""

    title: str
    entries: list[Entry]

    @property
    def anchor(self) -> str:
        return make_anchor(self.title)


class DocsPage:
    """One file of the documentation, read when it is first looked at."""

    def __init__(self, tree: DocsTree, name: str, path: str) -> None:
        self.name = name
        self.path = path
        """Path from the root."""
        self._tree = tree

    @property
    def address(self) -> str:
        return f"{FRONT}/{self.name}"

    @cached_property
    def source(self) -> str:
        return (self._tree.root / self.path).read_text(encoding="utf-8")

    @cached_property
    def read(self) -> MarkdownPage:
        return read_page(self.source, partial(self._tree.resolve, self.path))

    @property
    def title(self) -> str:
        """Title from the first line; does not parse the page."""
        return self.source.partition("\n")[0].removeprefix("# ").replace("`", "")

    @property
    def headings(self) -> list[Heading]:
        """Headings below the title; only the larger ones if there are many."""
        found = [each.heading for each in self.read.sections if each.heading.rank in (2, 3)]
        larger = [each for each in found if each.rank == 2]
        return found if len(found) <= _MANY_HEADINGS else larger


class DocsTree:
    """All pages by name, in groups."""

    def __init__(self, root: Path) -> None:
        self.root = root
        files = sorted((root / "docs").rglob("*.md"))
        found = {name: file for file, name in _BESIDE.items() if (root / file).is_file()}
        for file in files:
            path = file.relative_to(root).as_posix()
            if path != "docs/README.md":
                found[path.removeprefix("docs/").removesuffix(".md")] = path
        self.pages = {name: DocsPage(self, name, path) for name, path in found.items()}
        self._by_path = {path: name for name, path in found.items()}
        docs = root / "docs"
        self.pictures = {
            each.relative_to(docs).as_posix() for each in docs.rglob("*") if each.suffix in PICTURES
        }

    @cached_property
    def groups(self) -> list[Group]:
        """Groups in `docs/README.md`; pages that it does not list come last."""
        groups: list[Group] = []
        for line in self._read_contents():
            if title := _GROUP.match(line):
                groups.append(Group(title=title[1], entries=[]))
            elif entry := _ENTRY.match(line):
                path = posixpath.normpath(f"docs/{entry[2]}")
                name = self._by_path.get(path, path.removeprefix("docs/").rstrip("/"))
                groups[-1].entries.append(Entry(page=name, title=entry[1], about=entry[3] or ""))
        listed = {each.page for group in groups for each in group.entries}
        left = [name for name in self.pages if name not in listed and "/" not in name]
        if left:
            entries = [Entry(page=name, title=self.pages[name].title) for name in left]
            groups.append(Group(title="More", entries=entries))
        return groups

    @cached_property
    def decisions(self) -> list[Entry]:
        """Decisions, newest first."""
        found = [name for name in self.pages if name.startswith(f"{DECISIONS}/")]
        return [
            Entry(page=name, title=_name_decision(name, self.pages[name].title))
            for name in sorted(found, reverse=True)
        ]

    @cached_property
    def introduction(self) -> Markup:
        """Introduction of `docs/README.md`, before its lists."""
        before = "\n".join(self._read_contents()).partition("\n## ")[0]
        return read_page(before.partition("\n")[2], partial(self.resolve, "docs/README.md")).html

    def find(self, name: str) -> DocsPage:
        """Return a page, or raise NotFound with the nearest name."""
        if name in self.pages:
            return self.pages[name]
        near = suggest(name, self.pages)
        hint = f"did you mean {FRONT}/{near}?" if near else f"{FRONT} lists what there is"
        raise NotFound(f"the documentation has no page {name[:80]!r}", hint=hint)

    def neighbours(self, name: str) -> tuple[Entry | None, Entry | None]:
        """Return the previous and the next page."""
        ordered = [each for group in self.groups for each in group.entries]
        if name.startswith(f"{DECISIONS}/"):
            ordered = self.decisions
        at = next((place for place, each in enumerate(ordered) if each.page == name), None)
        if at is None:
            return None, None
        return ordered[at - 1] if at else None, ordered[at + 1] if at + 1 < len(ordered) else None

    def resolve(self, path: str, target: str) -> str | None:
        """Resolve a link of the file at `path`; None if its target is not on this site."""
        file, mark, anchor = target.partition("#")
        if not file:
            return target
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
        if wanted in ("docs/README.md", "docs"):
            return FRONT + mark + anchor
        if wanted == f"docs/{DECISIONS}":
            return f"{FRONT}/{DECISIONS}"
        if wanted in self._by_path:
            return f"{FRONT}/{self._by_path[wanted]}{mark}{anchor}"
        picture = wanted.removeprefix("docs/")
        return f"{FRONT}/{picture}" if picture in self.pictures else None

    def _read_contents(self) -> Sequence[str]:
        return (self.root / "docs" / "README.md").read_text(encoding="utf-8").split("\n")

    def list_pages(self) -> Iterator[DocsPage]:
        """List all pages in the order of the contents, decisions last."""
        listed = [each.page for group in self.groups for each in group.entries]
        names = [*listed, *(each.page for each in self.decisions)]
        return (self.pages[name] for name in dict.fromkeys(names) if name in self.pages)


def _name_decision(name: str, title: str) -> str:
    """Format the title of a decision with its number."""
    number = re.match(rf"{DECISIONS}/(\d+)", name)
    words = re.sub(r"^\d+[.:] *", "", title)
    return f"{int(number[1])}. {words[:1].upper()}{words[1:]}" if number else title


@lru_cache(maxsize=1)
def load_docs() -> DocsTree:
    """Load the documentation of this version."""
    installed = (_PACKAGE / "docs").is_dir()  # else it is not installed from a wheel but worked on
    return DocsTree(_PACKAGE if installed else _PACKAGE.parents[1])
