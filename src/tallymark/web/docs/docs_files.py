"""Files of the documentation as they are: its pictures, and every page as Markdown."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tallymark.service.limits import group_address
from tallymark.service.service import Service
from tallymark.web.docs.docs_tree import PICTURES, load_docs

_HEADERS = {
    # Pictures carry their own style, and nothing else.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "public, max-age=300",
}


async def serve_docs_file(service: Service, request: Request) -> Response:
    """A picture, or a page's text; anything else of the disk does not exist."""
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
