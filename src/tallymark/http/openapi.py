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
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A repeated request with the same key is done once and answered the same.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
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
    problem = {"description": "", "content": {MEDIA_TYPE: {"schema": _find(schema_of, Problem)}}}
    paths: dict[str, Any] = {}
    for kind, each in made:
        parameters = components.pop(each.parameters.__name__)
        entry: dict[str, Any] = {
            "operationId": each.name,
            "tags": [kind.__name__.lower()],
            "summary": (inspect.getdoc(each.run) or "").partition("\n")[0],
            "description": inspect.getdoc(each.run) or "",
            "parameters": _list_parameters(each, parameters),
            "responses": {
                **_describe_answers(each, _find(schema_of, each.answer)),
                **{
                    str(status): {**problem, "description": text}
                    for status, text in _REFUSALS.items()
                },
            },
        }
        if each.body is bytes:
            content: dict[str, Any] = {"application/octet-stream": {}}
            entry["requestBody"] = {"required": True, "content": content}
        elif each.body is not None:
            content = {"application/json": {"schema": _find(schema_of, each.body)}}
            entry["requestBody"] = {"required": each.whole_body is not None, "content": content}
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
        described = {"description": text} if (text := schema.get("description")) else {}
        found.append(
            {
                "name": name,
                "in": where,
                "required": where == "path" or name in needed,
                **described,
                "schema": schema,
            }
        )
    if made.record is not None and made.method == "GET":
        found.append(_FIELDS)
    if made.changes:
        found += [_VALIDATE_ONLY, _KEY]
    return found


def _describe_answers(made: Operation, schema: dict[str, Any]) -> dict[str, Any]:
    if made.answer is type(None):
        return {str(made.status): {"description": "Done."}}
    if made.record is not None and made.method == "GET":
        schema = {"anyOf": [schema, _PART]}
    answer = {"description": "Done.", "content": {"application/json": {"schema": schema}}}
    statuses = {200, 201, 202} if callable(made.status) else {made.status}
    if made.changes:
        statuses.add(200)  # with `validate_only`
    answers: dict[str, Any] = {str(status): answer for status in sorted(statuses)}
    if made.etag is not None:
        answers["304"] = {"description": "Nothing has changed since."}
    return answers
