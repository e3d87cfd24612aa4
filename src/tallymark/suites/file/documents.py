"""A suite as plain data again: what is stored of it, without comments and `x-` keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.suites.checks.check import CheckSpec

if TYPE_CHECKING:
    from collections.abc import Iterable


def make_document(value: Any) -> Any:
    """A suite as plain data again, which is stored: without comments and `x-` keys.

    What the shapes read, with checks as a file writes them.
    """
    if isinstance(value, dict):
        return {key: make_document(each) for key, each in value.items()}
    if isinstance(value, list):
        return [make_document(each) for each in value]
    return _write_check([value]) if isinstance(value, CheckSpec) else value


def _write_check(specs: Iterable[CheckSpec]) -> dict[str, Any]:
    """One mapping; checks of the same kind share a list."""
    written: dict[str, list[Any]] = {}
    for spec in specs:
        config = (
            [_write_alternative(part) for part in spec.parts] if spec.kind == "or" else spec.config
        )
        written.setdefault(spec.kind, []).append(config)
    return {kind: configs[0] if len(configs) == 1 else configs for kind, configs in written.items()}


def _write_alternative(part: CheckSpec) -> dict[str, Any]:
    return _write_check(part.parts if part.kind == "all" else [part])
