"""OpenAPI entries of declared operations, made from the types that requests are read with."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import msgspec

from tallymark.http import health
from tallymark.http.problems import MEDIA_TYPE
from tallymark.http.routes import PlainRoute
from tallymark.service.operations import Operation, Resource
from tallymark.service.problems import Problem

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
    "description": "The path of the job that was started.",
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
_REFUSALS: dict[str, Any] = {
    str(status): {
        "description": text,
        "content": {MEDIA_TYPE: {"schema": {"$ref": _REFS.format(name="Problem")}}},
        **({"headers": _REFUSAL_HEADERS[status]} if status in _REFUSAL_HEADERS else {}),
    }
    for status, text in (
        (400, "The request cannot be read."),
        (401, "A key is needed."),
        (403, "The key does not allow this."),
        (404, "It does not exist."),
        (409, "It conflicts with an earlier change."),
        (413, "The body is too large."),
        (415, "The body has another media type."),
        (422, "A value is wrong."),
        (429, "Too many requests."),
        (503, "It cannot be done now."),
    )
}


def describe_api(
    resources: Iterable[type[Resource]], plain: Iterable[PlainRoute]
) -> dict[str, Any]:
    """Make the OpenAPI document of all routes."""
    paths, components = describe_operations(resources)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tallymark",
            "summary": "Scores AI agents by your own idea of good.",
            "version": version("tallymark"),
        },
        "security": [{"key": []}, {}],
        "paths": paths | describe_plain(plain) | health.PATHS,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


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
    paths: dict[str, Any] = {}
    for kind, each in made:
        parameters = components.pop(each.parameters.__name__)
        listed = _list_parameters(parameters, each.path)
        if each.record is not None and each.method == "GET":
            listed.append(_FIELDS)
        if each.etag:
            listed.append(_IF_NONE_MATCH)
        if each.changes:
            listed += [_VALIDATE_ONLY, _KEY]
        text = inspect.getdoc(each.run) or ""
        entry: dict[str, Any] = {
            "operationId": each.name,
            "tags": [kind.__name__.lower()],
            "summary": text.partition("\n")[0],
            "description": text,
            "x-roles": sorted(each.may),
            "parameters": listed,
            "responses": {**_describe_answers(each, _find(schema_of, each.answer)), **_REFUSALS},
        }
        if each.body is bytes:
            # No lines are lines too; operations refuse other empty bodies in words of their own.
            entry["requestBody"] = {"required": False, "content": {each.media_type: {}}}
        elif each.body is not None:
            schema = _find(schema_of, each.body)
            needed = components.get(schema.get("$ref", "").rpartition("/")[2], {}).get("required")
            entry["requestBody"] = {
                "required": each.whole_body is not None or bool(needed),
                "content": {"application/json": {"schema": schema}},
            }
        entries = paths.setdefault(PREFIX + each.path, {})
        known = entries.setdefault(each.method.lower(), entry)
        if known is not entry:
            _add_alternative(known, entry)
    return paths, components


def _add_alternative(known: dict[str, Any], other: dict[str, Any]) -> None:
    """Describe an operation that takes another body at the same address."""
    known["description"] += f"\n\n{other['description']}"
    known["requestBody"]["content"] |= other["requestBody"]["content"]
    names = {each["name"] for each in known["parameters"]}
    known["parameters"] += [each for each in other["parameters"] if each["name"] not in names]
    for status, answer in other["responses"].items():
        there = known["responses"].setdefault(status, answer)
        if there is answer or there == answer:
            continue
        kinds = answer["content"].keys() & there["content"].keys()
        either = {
            kind: {
                "schema": {"anyOf": [each["content"][kind]["schema"] for each in (there, answer)]}
            }
            for kind in kinds
        }
        known["responses"][status] = {
            **there,
            "content": there["content"] | answer["content"] | either,
        }


def _find(schema_of: list[tuple[Any, dict[str, Any]]], kind: Any) -> dict[str, Any]:
    return next(schema for each, schema in schema_of if each is kind)


def describe_plain(routes: Iterable[PlainRoute]) -> dict[str, Any]:
    """Make the paths of routes that are written by hand."""
    paths: dict[str, Any] = {}
    for each in routes:
        entry: dict[str, Any] = {
            "operationId": each.handle.__name__,
            "description": each.entry["summary"],
            "x-roles": sorted(each.may),
            **each.entry,
        }
        if each.parameters is not None:
            (_,), components = msgspec.json.schema_components([each.parameters])
            entry["parameters"] = _list_parameters(components[each.parameters.__name__], each.path)
        if "default" not in entry["responses"]:
            entry["responses"] = entry["responses"] | _REFUSALS
        paths.setdefault(each.path, {})[each.method.lower()] = entry
    return paths


def _list_parameters(struct: dict[str, Any], path: str) -> list[dict[str, Any]]:
    needed = struct.get("required", ())
    found = []
    for name, schema in struct.get("properties", {}).items():
        where = "path" if f"{{{name}}}" in path else "query"
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
    return found


def _leave_out_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove null from the schema of a parameter: a null parameter is not sent."""
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
    if made.etag:
        headers["ETag"] = _ETAG
    if made.changes:
        headers["Idempotency-Replayed"] = _REPLAYED
    answer: dict[str, Any] = {
        "description": "Done.",
        "content": {"application/json": {"schema": schema}},
    }
    statuses = {200, 201} if callable(made.status) else {made.status}
    if made.starts_job:
        statuses.add(202)
    answers: dict[str, Any] = {}
    for status in sorted(statuses):
        located = {"Location": _LOCATION} if made.starts_job and status == 202 else {}
        answers[str(status)] = {**answer, "headers": {**headers, **located}}
    if made.changes and 200 not in statuses:
        answers["200"] = {**answer, "description": "With `validate_only`: it would be done."}
    if made.etag:
        answers["304"] = {"description": "Nothing has changed since.", "headers": {"ETag": _ETAG}}
    return answers
