"""`json_schema`: has the answer the shape that a JSON Schema asks for?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.documents.bounded_json import read_json
from tallymark.errors import InvalidInput, ScorerError
from tallymark.scoring import Score, configurable
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext


@configurable(blocking=False, data_type="boolean")
def json_schema(
    schema: dict[str, Any] | None = None, file: str | None = None, fenced: bool = False
) -> Callable[[EvalContext], Score]:
    """1 when the output is JSON that the schema accepts, else 0.

    The schema is `schema`, or the JSON in `file`; one without `$schema` is of draft 2020-12,
    and nothing is fetched from the network. `fenced` takes the JSON out of the first ``` block.
    """
    if (schema is None) == (file is None):
        raise ScorerError("json_schema needs one of the options 'schema' and 'file'")
    from tallymark.scorers.schema_validator import SchemaValidator  # noqa: PLC0415 (heavy)

    try:
        validator = SchemaValidator(_read_schema_file(file) if schema is None else schema)
    except InvalidInput as error:
        raise ScorerError(f"json_schema: {error}") from None

    def score(ctx: EvalContext) -> Score:
        output = ctx.output_text
        if not output.strip():
            return Score(0.0, "Empty output")
        try:
            value = read_json(output, fenced=fenced)
        except ValueError as error:
            return Score(0.0, f"Output is not valid JSON: {error}")
        try:
            found = validator.findings(value, 4)
        except InvalidInput as error:
            return Score.failed(f"json_schema: {error}")
        if not found:
            return Score(1.0, "Output fits the schema")
        lines = [f"{place}: {message}" for place, message in found[:3]]
        return Score(0.0, "; ".join([*lines, "and more"] if len(found) > 3 else lines))

    return score


def _read_schema_file(file: str | None) -> dict[str, Any]:
    try:
        schema = read_json(Path(str(file)).read_text(encoding="utf-8"))
    except OSError as error:
        raise ScorerError(f"json_schema: {file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ScorerError(f"json_schema: {file} is not valid JSON: {error}") from None
    if not isinstance(schema, dict):
        raise ScorerError(f"json_schema: {file} holds {show_value(schema)}, not a JSON Schema")
    return schema
