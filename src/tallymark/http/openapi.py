"""OpenAPI entries of declared operations, made from the types that requests are read with."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from tallymark.http.problems import CODES, MEDIA_TYPE
from tallymark.service.operations import Operation, Resource

PREFIX = "/api/v1"
_REFS = "#/components/schemas/{name}"
_PART = {"type": "object", "description": "With `fields`: only these."}
_FIELDS = {
    "name": "fields",
    "in": "query",
    "required": False,
    "description": "Return only these fields of each record, separated by commas.",
    "schema": {"type": "string", "maxLength": 1000},
}
_VALIDATE_ONLY = {
    "name": "validate_only",
    "in": "query",
    "required": False,
    "description": "Check everything and change nothing.",
    "schema": {"type": "boolean", "default": False},
}
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "The ETag of an earlier answer; 304 if nothing has changed.",
    "schema": {"type": "string"},
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A repeated request with the same key is done once and answered the same.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
_ETAG = {"description": "Changes with the answer.", "schema": {"type": "string"}}
_LOCATION = {
    "description": "The path of the thing that was made or started.",
    "schema": {"type": "string"},
}
_REPLAYED = {
    "description": "`true` if the answer is that of an earlier request with the same key.",
    "schema": {"const": "true"},
}
_RETRY_AFTER = {
    "description": "Seconds to wait before the next try.",
    "schema": {"type": "integer", "minimum": 1},
}
_REFUSAL_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"schema": {"const": "Bearer"}}},
    429: {"Retry-After": _RETRY_AFTER},
    503: {"Retry-After": _RETRY_AFTER},
}
_REFUSALS = {
    400: "The request cannot be read.",
    401: "A key is needed.",
    403: "The key does not allow this.",
    404: "It does not exist.",
    409: "It conflicts with an earlier change.",
    413: "The body is too large.",
    415: "The body has another media type.",
    422: "A value is wrong.",
    429: "Too many requests.",
    503: "It cannot be done now.",
}


class ProblemPart(msgspec.Struct):
    """One mistake: what is wrong, where, and how to fix it."""

    message: str
    field: str | None
    line: int | None
    column: int | None
    text: str | None
    length: int
    hint: str | None


class Problem(msgspec.Struct):
    """Why a request was refused or failed (RFC 9457). `code` is stable, `detail` is for people."""

    type: str
    title: str
    status: int
    detail: str
    code: Literal[(*sorted({*CODES.values(), "busy", "not_ready"}),)]  # type: ignore[valid-type]
    errors: list[ProblemPart]
    request_id: str


def describe_operations(
    resources: Iterable[type[Resource]],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make the paths and the schemas of all operations."""
    made = [(kind, each) for kind in resources for each in kind.operations().values()]
    twice = [name for name, count in Counter(each.name for _, each in made).items() if count > 1]
    if twice:
        raise TypeError(f"operations of the same name: {', '.join(twice)}")
    types: list[Any] = [Problem]
    for _, each in made:
        types += [each.parameters, each.answer]
        if each.body not in (None, bytes):
            types.append(each.body)
        if each.record is not None:
            types.append(each.record)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFS)
    # Types such as `Page[Rule]` cannot be keys of a dictionary in all versions of Python.
    schema_of = list(zip(types, schemas, strict=True))
    problem = _find(schema_of, Problem)
    refusals = {
        str(status): {
            "description": text,
            "content": {MEDIA_TYPE: {"schema": problem}},
            **({"headers": _REFUSAL_HEADERS[status]} if status in _REFUSAL_HEADERS else {}),
        }
        for status, text in _REFUSALS.items()
    }
    paths: dict[str, Any] = {}
    for kind, each in made:
        parameters = components.pop(each.parameters.__name__)
        text = inspect.getdoc(each.run) or ""
        entry: dict[str, Any] = {
            "operationId": each.name,
            "tags": [kind.__name__.lower()],
            "summary": text.partition("\n")[0],
            "description": text,
            "x-roles": sorted(each.may),
            "parameters": _list_parameters(each, parameters),
            "responses": {**_describe_answers(each, _find(schema_of, each.answer)), **refusals},
        }
        if each.body is bytes:
            content: dict[str, Any] = {"application/octet-stream": {}}
            entry["requestBody"] = {"required": True, "content": content}
        elif each.body is not None:
            schema = _find(schema_of, each.body)
            needed = components.get(schema.get("$ref", "").rpartition("/")[2], {}).get("required")
            entry["requestBody"] = {
                "required": each.whole_body is not None or bool(needed),
                "content": {"application/json": {"schema": schema}},
            }
        entries = paths.setdefault(PREFIX + each.path, {})
        known = entries.setdefault(each.method.lower(), entry)
        if known is not entry:  # the same with another body
            known["requestBody"]["content"] |= entry["requestBody"]["content"]
    return paths, components


def _find(schema_of: list[tuple[Any, dict[str, Any]]], kind: Any) -> dict[str, Any]:
    return next(schema for each, schema in schema_of if each is kind)


def _list_parameters(made: Operation, struct: dict[str, Any]) -> list[dict[str, Any]]:
    needed = struct.get("required", ())
    found = []
    for name, schema in struct.get("properties", {}).items():
        where = "query" if name in made.query else "path"
        shape = _leave_out_null(schema)
        described = {"description": text} if (text := shape.pop("description", None)) else {}
        found.append(
            {
                "name": name,
                "in": where,
                "required": where == "path" or name in needed,
                **described,
                "schema": shape,
            }
        )
    if made.record is not None and made.method == "GET":
        found.append(_FIELDS)
    if made.etag is not None:
        found.append(_IF_NONE_MATCH)
    if made.changes:
        found += [_VALIDATE_ONLY, _KEY]
    return found


def _leave_out_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter: one that is null is left out of the address."""
    options = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(options) != 1:
        return dict(schema)
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    return {**rest, **options[0]}


def _describe_answers(made: Operation, schema: dict[str, Any]) -> dict[str, Any]:
    if made.answer is type(None):
        return {str(made.status): {"description": "Done."}}
    if made.record is not None and made.method == "GET":
        schema = {"anyOf": [schema, _PART]}
    headers: dict[str, Any] = {}
    if made.etag is not None:
        headers["ETag"] = _ETAG
    if made.changes:
        headers["Idempotency-Replayed"] = _REPLAYED
    answer: dict[str, Any] = {
        "description": "Done.",
        "content": {"application/json": {"schema": schema}},
    }
    statuses = {200, 201, 202} if callable(made.status) else {made.status}
    answers: dict[str, Any] = {}
    for status in sorted(statuses):
        located = {"Location": _LOCATION} if made.location is not None and status > 200 else {}
        answers[str(status)] = {**answer, "headers": {**headers, **located}}
    if made.changes and 200 not in statuses:
        answers["200"] = {**answer, "description": "With `validate_only`: it would be done."}
    if made.etag is not None:
        answers["304"] = {"description": "Nothing has changed since.", "headers": {"ETag": _ETAG}}
    return answers
