"""Answers in other forms than a page: JSON, CSV, and files to keep; each with the same headers."""

from __future__ import annotations

import csv
import io
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from tallymark.scoring.score import make_json_safe
from tallymark.text import format_cell
from tallymark.web.page import File
from tallymark.web.view import Download, View

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # What is shown may be another's next time, and must not come from a cache after signing out.
    "Cache-Control": "private, no-store",
}
FORMATS = ("json", "csv")


def send_download(file: Download) -> Response:
    """To be kept, never shown: what is in it may be anybody's."""
    named = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.title, safe='')}"}
    return Response(file.content, headers=HEADERS | named, media_type=file.media_type)


def write_view(view: View, chosen: str) -> Response:
    """The view as other programs read it."""
    if chosen == "json":
        plain = msgspec.to_builtins(view, str_keys=True, enc_hook=make_json_safe)
        content = msgspec.json.encode(make_json_safe(plain))
        return Response(content, headers=HEADERS, media_type="application/json")
    if chosen == "csv":
        rows = [dict(row) for row in view.list_rows()]
        names = list(dict.fromkeys(name for row in rows for name in row))
        target = io.StringIO()
        writer = csv.writer(target, lineterminator="\r\n")
        writer.writerow(map(_write_cell, names))
        writer.writerows([[_write_cell(row.get(name)) for name in names] for row in rows])
        return Response(target.getvalue(), headers=HEADERS, media_type="text/csv; charset=utf-8")
    content = msgspec.json.encode({"problems": [f"format={chosen[:40]!r} is not json or csv"]})
    return Response(content, 422, HEADERS, media_type="application/json")


def send_page(file: File) -> Response:
    """A file that is kept and not shown here: it carries a policy of its own."""
    name = "".join(each if each.isalnum() and each.isascii() else "-" for each in file.name[:80])
    named = {"Content-Disposition": f'attachment; filename="{name.strip("-") or "page"}.html"'}
    return Response(file.content, headers=HEADERS | named, media_type="text/html; charset=utf-8")


def _write_cell(value: Any) -> Any:
    if isinstance(value, str):
        return format_cell(value)
    return "" if value is None else value
