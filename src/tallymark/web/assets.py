"""Style and script as they are served: named by their content, so that browsers may keep them."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tallymark.charts import frame

_FOLDER = Path(__file__).parent / "static"
_STYLES = (
    *("tokens.css", "base.css", "components.css", "evidence.css", "boards.css"),
    *("runs.css", "organiser.css", "compete.css", "traces.css", "frame.css"),
)
_ALONE = ("docs.css",)
"""Style of some pages, which the others need not load."""
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
ICON = "/favicon.ico"
_FOR_GOOD = "public, max-age=31536000, immutable"


@dataclass(frozen=True)
class Asset:
    """A file that pages refer to."""

    name: str
    content: bytes

    @cached_property
    def path(self) -> str:
        """Where it is served: with a hash, another content has another address."""
        stem, _, kind = self.name.rpartition(".")
        return f"/static/{stem}.{hashlib.sha256(self.content).hexdigest()[:12]}.{kind}"

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.content, 9, mtime=0)


class Assets:
    """Every file of `static/`, the style sheets joined into one."""

    def __init__(self) -> None:
        # The charts bring their own colours and style; what pages add to them comes after.
        style = frame.read_style() + "".join(map(_read, _STYLES))
        found = [Asset("site.css", style.encode())]
        found += [
            Asset(each.name, each.read_bytes())
            for each in sorted(_FOLDER.iterdir())
            if each.suffix in (".js", ".svg") or each.name in _ALONE
        ]
        self.by_name = {each.name: each for each in found}
        self._by_path = {each.path: each for each in found}
        # Asked for by browsers where no page names another, as beside a part of a page.
        self._by_path[ICON] = self.by_name["mark.svg"]

    def find_path(self, name: str) -> str:
        """For templates: the address of a file."""
        return self.by_name[name].path

    async def serve(self, request: Request) -> Response:
        """The file itself; it never changes under its name."""
        asset = self._by_path.get(request.url.path)
        if asset is None:
            return PlainTextResponse("there is no such file", status_code=404)
        headers = {
            "Cache-Control": _FOR_GOOD,
            "Vary": "Accept-Encoding",
            "X-Content-Type-Options": "nosniff",
        }
        content = asset.content
        if "gzip" in request.headers.get("accept-encoding", ""):
            content, headers["Content-Encoding"] = asset.packed, "gzip"
        kind = _TYPES[Path(asset.name).suffix]
        return Response(content, media_type=kind, headers=headers)


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
