"""Static files, served under names with a hash of their content."""

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
"""Style sheets that only some pages load."""
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
ICON = "/favicon.ico"
_FOR_GOOD = "public, max-age=31536000, immutable"


@dataclass(frozen=True)
class Asset:
    """A static file."""

    name: str
    content: bytes

    @cached_property
    def path(self) -> str:
        """URL with a hash of the content, so that browsers may cache it for ever."""
        stem, _, kind = self.name.rpartition(".")
        return f"/static/{stem}.{hashlib.sha256(self.content).hexdigest()[:12]}.{kind}"

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.content, 9, mtime=0)


class Assets:
    """Files of `static/`, the style sheets joined into one."""

    def __init__(self) -> None:
        # The charts bring their own colours and style; what pages add to them comes after.
        style = frame.read_style() + "".join(
            (_FOLDER / name).read_text(encoding="utf-8") for name in _STYLES
        )
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
        """Return the URL of a file, for templates."""
        return self.by_name[name].path

    async def serve(self, request: Request) -> Response:
        """Serve a file; its content never changes under its name."""
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
