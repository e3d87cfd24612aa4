"""The documentation: what there is, and each page of it. Anybody may read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

import msgspec
from markupsafe import Markup

from tallymark.web.docs.docs_tree import DECISIONS, Entry, Group, load_docs
from tallymark.web.markdown import Heading
from tallymark.web.page import Moved, Page
from tallymark.web.view import View
from tallymark.web.visit import Visit


class DocsFront(View, frozen=True, kw_only=True):
    """What there is."""

    introduction: Markup
    groups: list[Group]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each page."""
        return (
            {"group": group.title, **msgspec.structs.asdict(entry)}
            for group in self.groups
            for entry in group.entries
        )


class DocsView(View, frozen=True, kw_only=True):
    """One page."""

    page: str
    group: str
    html: Markup
    headings: list[Heading]
    groups: list[Group]
    before: Entry | None
    after: Entry | None
    version: str

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each heading."""
        return map(msgspec.structs.asdict, self.headings)


class DecisionsView(View, frozen=True, kw_only=True):
    """Every decision, newest first."""

    page: str
    group: str
    groups: list[Group]
    decisions: list[Entry]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each."""
        return map(msgspec.structs.asdict, self.decisions)


def gather_front(_visit: Visit) -> DocsFront:
    """The same for everybody."""
    tree = load_docs()
    return DocsFront(
        title="Documentation",
        introduction=tree.introduction,
        groups=tree.groups,
    )


def gather_decisions(_visit: Visit) -> DecisionsView:
    """The same for everybody."""
    tree = load_docs()
    return DecisionsView(
        title="Decisions",
        page=DECISIONS,
        group=_find_group(tree.groups, DECISIONS),
        groups=tree.groups,
        decisions=tree.decisions,
    )


def gather(visit: Visit) -> DocsView:
    """A page by its name."""
    name = visit.params["page"]
    if name.endswith("/"):
        raise Moved(f"/docs/{name.strip('/')}".rstrip("/"))
    tree = load_docs()
    page = tree.find(name)
    before, after = tree.neighbours(name)
    return DocsView(
        title=page.read.title,
        page=name,
        group=_find_group(tree.groups, name.partition("/")[0]),
        html=page.read.html,
        headings=page.headings,
        groups=tree.groups,
        before=before,
        after=after,
        version=version("tallymark"),
    )


def _find_group(groups: Iterable[Group], name: str) -> str:
    return next(
        (group.title for group in groups for each in group.entries if each.page == name), ""
    )


FRONT = Page("/docs", "docs/front.html", gather_front)
LIST = Page("/docs/decisions", "docs/decisions.html", gather_decisions)
PAGE = Page("/docs/{page:path}", "docs/page.html", gather)
