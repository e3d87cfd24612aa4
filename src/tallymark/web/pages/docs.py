"""Pages of the documentation, readable by anyone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tallymark.service.limits import group_address
from tallymark.service.service import Service
from tallymark.web.docs_search import Hit, load_index
from tallymark.web.docs_tree import DECISIONS, PICTURES, Entry, Group, load_docs
from tallymark.web.markdown import Heading
from tallymark.web.page import Moved, Page, View
from tallymark.web.page_request import PageRequest

_MOST_CHARACTERS = 200
_HEADERS = {
    # Pictures carry their own style, and nothing else.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "public, max-age=300",
}


class DocsFront(View, frozen=True, kw_only=True):
    """Table of contents."""

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
    """One page of the documentation."""

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
    """All decisions, newest first."""

    page: str
    group: str
    groups: list[Group]
    decisions: list[Entry]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """Yield a row for each decision."""
        return map(msgspec.structs.asdict, self.decisions)


def gather_front(_visit: PageRequest) -> DocsFront:
    tree = load_docs()
    return DocsFront(
        title="Documentation",
        introduction=tree.introduction,
        groups=tree.groups,
    )


def gather_decisions(_visit: PageRequest) -> DecisionsView:
    tree = load_docs()
    return DecisionsView(
        title="Decisions",
        page=DECISIONS,
        group=_find_group(tree.groups, DECISIONS),
        groups=tree.groups,
        decisions=tree.decisions,
    )


def gather(request: PageRequest) -> DocsView:
    """Gather a page by its name."""
    name = request.params["page"]
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


class DocsSearchView(View, frozen=True, kw_only=True):
    """Sections that match a search."""

    text: str
    hits: list[Hit]
    page: str = ""
    group: str = ""
    groups: list[Group]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each section."""
        return (
            {
                "page": hit.page,
                "heading": hit.heading,
                "address": hit.address,
                "text": "".join(each.text for each in hit.snippets),
            }
            for hit in self.hits
        )


def gather_search(request: PageRequest) -> DocsSearchView:
    text = request.get("q").strip()[:_MOST_CHARACTERS]
    return DocsSearchView(
        title=f"Documentation: {text}" if text else "Search the documentation",
        text=text,
        hits=load_index().search(text) if text else [],
        groups=load_docs().groups,
    )


async def serve_docs_file(service: Service, request: Request) -> Response:
    """Serve a picture, or a page as Markdown; no other file."""
    share = group_address(request.client.host if request.client else None)
    name, path = request.path_params["name"], request.url.path
    return await service.threads.run(share, _read_file, name, path)


def _read_file(name: str, path: str) -> Response:
    tree = load_docs()
    kind = path[path.rfind(".") :]
    if kind in PICTURES and f"{name}{kind}" in tree.pictures:
        content = (tree.root / "docs" / f"{name}{kind}").read_bytes()
        return Response(content, headers=_HEADERS, media_type=PICTURES[kind])
    if kind == ".md" and name in tree.pages:
        return PlainTextResponse(tree.pages[name].source, headers=_HEADERS)
    return PlainTextResponse("the documentation has no such file\n", status_code=404)


SEARCH = Page(
    "/docs/search", "docs/search.html", gather_search, parts={"found": "docs/search_found.html"}
)
FRONT = Page("/docs", "docs/front.html", gather_front)
LIST = Page("/docs/decisions", "docs/decisions.html", gather_decisions)
PAGE = Page("/docs/{page:path}", "docs/page.html", gather)
