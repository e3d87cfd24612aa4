"""Answers: values as JSON, parts of them, pages with cursors, and what has not changed since."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any

import msgspec
from fastapi import Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from tallymark.errors import suggest
from tallymark.http.problems import refuse
from tallymark.store.rehearsals import is_rehearsal

encode = msgspec.json.Encoder(enc_hook=str).encode
_BEYOND = 2**63
Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many.")]
Cursor = Annotated[
    str | None, Query(max_length=500, description="What the page before gave as `next`.")
]
Fields = Annotated[
    str | None,
    Query(max_length=1000, description="Only these fields of each item, with commas between."),
]
Live = Annotated[
    bool | None,
    Query(
        description="For organisers: true shows what came after a freeze too, false what the"
        " public sees."
    ),
]
ValidateOnly = Annotated[bool, Query(description="Check everything and change nothing.")]


def answer(value: Any, status: int = 200, **headers: str) -> Response:
    """A value as JSON."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    if status in (201, 202) and is_rehearsal():
        status = 200
    return Response(encode(value), status, named, "application/json")


def answer_once(value: Mapping[str, Any], secret: str, status: int = 201) -> Response:
    """A value with a field that is shown this once: kept answers are without it."""
    hidden = {**value, secret: None}
    response = answer(hidden if is_rehearsal() else value, status, cache_control="no-store")
    response.kept_body = encode(hidden)  # type: ignore[attr-defined]
    return response


def pick(
    document: Mapping[str, Any], fields: str | None, declared: type[BaseModel]
) -> Mapping[str, Any]:
    """Only the named fields of a document.

    What may be named goes by what is `declared` of all of its kind, never by what this one has:
    what it leaves out is as it is declared.
    """
    if fields is None:
        return document
    return _pick_named(document, _read_fields(fields, declared), declared)


def pick_each(
    documents: Iterable[Mapping[str, Any]], fields: str | None, declared: type[BaseModel]
) -> list[Mapping[str, Any]]:
    """The same of every item of a page."""
    if fields is None:
        return list(documents)
    wanted = _read_fields(fields, declared)
    return [_pick_named(each, wanted, declared) for each in documents]


def _read_fields(fields: str, declared: type[BaseModel]) -> list[str]:
    known = declared.model_fields
    wanted = [name.strip() for name in fields.split(",") if name.strip()]
    if not wanted:
        raise refuse(400, "fields: it names none", f"there are: {', '.join(known)}")
    for name in wanted:
        if name not in known:
            near = suggest(name, known)
            hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(known)}"
            raise refuse(400, f"fields: there is no field {name!r}", hint)
    return wanted


def _pick_named(
    document: Mapping[str, Any], wanted: Iterable[str], declared: type[BaseModel]
) -> Mapping[str, Any]:
    document = {**list_defaults(declared), **document}
    return {name: document[name] for name in wanted}


@cache
def list_defaults(declared: type[BaseModel]) -> Mapping[str, Any]:
    """What the fields are that a document may leave out."""
    return {
        name: each.get_default(call_default_factory=True)
        for name, each in declared.model_fields.items()
        if not each.is_required()
    }


def make_etag(*state: Any) -> str:
    """A tag that is the same while all of this is the same."""
    return f'"{hashlib.blake2b(repr(state).encode(), digest_size=12).hexdigest()}"'


def find_unchanged(request: Request, etag: str) -> Response | None:
    """The answer to who has this already."""
    if not is_known(request.headers.get("if-none-match"), etag):
        return None
    return Response(status_code=304, headers={"etag": etag, "cache-control": "no-cache"})


def is_known(asked: str | None, etag: str) -> bool:
    """Whether an `If-None-Match` names the tag."""
    if asked is None:
        return False
    return asked.strip() == "*" or etag in asked.replace("W/", "").split(", ")
