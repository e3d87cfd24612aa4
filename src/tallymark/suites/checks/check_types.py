"""The table of checks: what is not in it does not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.suites.checks.any_of import all_of, any_of
from tallymark.suites.checks.check_definition import (
    Check,
    Checks,
    CheckSetting,
    CheckSpec,
    CheckType,
)
from tallymark.suites.checks.exact_text import CONTAINS, EQUALS, NOT_CONTAINS
from tallymark.suites.checks.json_schema import JSON_SCHEMA
from tallymark.suites.checks.llm_judge import LLM_JUDGE
from tallymark.suites.checks.max_cost import MAX_COST
from tallymark.suites.checks.max_latency import MAX_LATENCY
from tallymark.suites.checks.regex import REGEX
from tallymark.suites.checks.scorer_check import SCORER
from tallymark.suites.checks.semantic import SEMANTIC
from tallymark.suites.checks.text_match import MATCH, NOT_MATCH
from tallymark.suites.checks.todo import TODO
from tallymark.suites.checks.token_limits import MAX_TOKENS, MIN_TOKENS
from tallymark.suites.checks.tool_called import NOT_TOOL_CALLED, TOOL_CALLED

if TYPE_CHECKING:
    from collections.abc import Iterable

CHECK_TYPES: dict[str, CheckType] = {
    each.kind: each
    for each in (
        MATCH,
        NOT_MATCH,
        CONTAINS,
        NOT_CONTAINS,
        EQUALS,
        REGEX,
        MIN_TOKENS,
        MAX_TOKENS,
        SEMANTIC,
        LLM_JUDGE,
        JSON_SCHEMA,
        MAX_LATENCY,
        MAX_COST,
        TOOL_CALLED,
        NOT_TOOL_CALLED,
        SCORER,
        TODO,
    )
}


def find_value_names(spec: CheckSpec) -> tuple[str, ...]:
    """Names of a check's values in formulas."""
    kind = CHECK_TYPES.get(spec.kind)
    return () if kind is None or kind.value_names is None else kind.value_names(spec.config)


def build_check(spec: CheckSpec, setting: CheckSetting) -> Check:
    """Build a check; InvalidInput names a wrong config."""
    if spec.kind in ("or", "all"):
        parts = [build_check(part, setting) for part in spec.parts]
        return any_of(parts) if spec.kind == "or" else all_of(parts)
    return CHECK_TYPES[spec.kind].make_check(spec.config, setting)


def build_checks(specs: Iterable[CheckSpec], setting: CheckSetting) -> Checks:
    """The checks of a case."""
    return Checks.of(build_check(spec, setting) for spec in specs)
