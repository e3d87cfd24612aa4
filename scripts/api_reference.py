"""Write docs/api-reference.md from the OpenAPI document.

Every route with its parameters, what it takes and what it answers, then every shape field by
field. Run by `make docs`, checked by a test.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.docs_tables import name_roles, read_document, write_table

from tallymark.http.operation_routes import PREFIX

PAGE = Path(__file__).parents[1] / "docs" / "api-reference.md"
_HEAD = """\
# The API, field by field

Made by `make docs` from what a server gives at `/openapi.json`. What holds for all routes:
[the API](api.md). Routes stand below `/api/v1`, but for those of health and `/v1/traces`; all that
is refused is [a problem](api.md#errors). What is sent and has no default is needed.
"""
_REF = "#/components/schemas/"
_JSON = "application/json"
Schema = Mapping[str, Any]


def write_page() -> str:
    """The whole page."""
    document = read_document()
    parts = [_HEAD]
    tags: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            [tag] = operation.get("tags") or ["others"]
            route = path.removeprefix(PREFIX)
            tags.setdefault(tag, []).append(_write_route(method.upper(), route, operation))
    for tag, routes in tags.items():
        parts += [f"## {tag.capitalize()}\n", *routes]
    parts.append("## Shapes\n")
    schemas = document["components"]["schemas"]
    parts += [_write_shape(name, schemas[name]) for name in sorted(schemas)]
    return "\n".join(parts)


def _write_route(method: str, path: str, operation: Schema) -> str:
    allowed = name_roles(operation)
    does = f"{_describe(operation)}{f' For {allowed}.' if allowed else ''}"
    lines = [f"### {method} {path}\n", f"{does}\n"]
    rows = [_write_parameter(each) for each in operation.get("parameters", ())]
    if rows:
        lines.append(write_table(("parameter", "in", "value", "default", "meaning"), rows))
    lines += [f"{each}\n" for each in _list_contents(operation)]
    return "\n".join(lines)


def _write_parameter(parameter: Schema) -> tuple[str, ...]:
    schema = parameter["schema"]
    meaning = parameter.get("description") or schema.get("description") or ""
    kind = _name_type(schema).removesuffix(" or null")
    needed = " Needed." if parameter.get("required") and parameter["in"] == "query" else ""
    default = _write_default(schema)
    return f"`{parameter['name']}`", parameter["in"], kind, default, _escape(meaning) + needed


def _list_contents(operation: Schema) -> Iterator[str]:
    """What is sent, and what is answered where it went well."""
    sent = operation.get("requestBody", {}).get("content", {})
    if sent:
        yield f"Takes {_join_contents(sent)}."
    answers: dict[str, list[str]] = {}
    for status, answer in sorted(operation["responses"].items()):
        if status < "400":
            answers.setdefault(_join_contents(answer.get("content", {})), []).append(status)
    told = (f"{' or '.join(statuses)}: {what}" for what, statuses in answers.items())
    yield f"Answers {'; '.join(told)}."


def _join_contents(contents: Schema) -> str:
    named = (_name_content(kind, each.get("schema", {})) for kind, each in contents.items())
    return ", or ".join(named) or "nothing"


def _name_content(kind: str, schema: Schema) -> str:
    name = _name_type(schema)
    return (
        name
        if kind == _JSON
        else f"`{kind}`" + ("" if name in ("text", "anything") else f": {name}")
    )


def _write_shape(name: str, schema: Schema) -> str:
    lines = [f"### {name}\n"]
    if about := _describe(schema):
        lines.append(f"{about}\n")
    rows = [
        (f"`{field}`", _name_type(each), _write_default(each), _describe(each))
        for field, each in schema.get("properties", {}).items()
    ]
    if rows:
        lines.append(write_table(("field", "value", "default", "meaning"), rows))
    elif "properties" not in schema:
        lines.append(f"{_name_type(schema)}\n")
    return "\n".join(lines)


def _describe(schema: Schema) -> str:
    return _escape(" ".join(schema.get("description", "").split()))


def _name_type(schema: Schema) -> str:
    """What may stand there, in words."""
    if reference := schema.get("$ref"):
        name = reference.removeprefix(_REF)
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_name_type(each) for each in schema[key]))
    if "allOf" in schema:
        return " and ".join(_name_type(each) for each in schema["allOf"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return " ".join(f"`{value}`" for value in schema["enum"])
    return _name_plain_type(schema)


def _name_plain_type(schema: Schema) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(_name_plain_type({**schema, "type": each}) for each in kind)
    if kind == "array":
        item = schema.get("items")
        return f"list of {_name_type(item)}" if item else "list"
    if kind == "object":
        if fields := schema.get("properties"):
            inside = (f"`{name}`: {_name_type(each)}" for name, each in fields.items())
            return f"mapping with {', '.join(inside)}"
        inner = schema.get("additionalProperties")
        if isinstance(inner, Mapping) and inner:
            return f"mapping of {_name_type(inner)}"
        return "mapping"
    words = {"string": "text", "integer": "whole number", "number": "number", "null": "null"}
    named = words.get(str(kind), "true or false" if kind == "boolean" else "anything")
    return f"{named}{_write_bounds(schema)}"


def _write_bounds(schema: Schema) -> str:
    low = schema.get("minimum", schema.get("minLength"))
    high = schema.get("maximum", schema.get("maxLength"))
    sign = " characters" if schema.get("type") == "string" else ""
    if low is not None and high is not None:
        return f", {low:,} to {high:,}{sign}"
    if high is not None:
        return f", at most {high:,}{sign}"
    return f", at least {low:,}{sign}" if low else ""


def _write_default(schema: Schema) -> str:
    if "default" not in schema:
        return ""
    default = schema["default"]
    return f"`{json.dumps(default)}`"


def _escape(text: str) -> str:
    """Words as they are; signs of Markdown in them do nothing, but for code."""
    return re.sub(r"([*_<\[\]])(?=[^`]*(?:`[^`]*`[^`]*)*$)", r"\\\1", text)


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
