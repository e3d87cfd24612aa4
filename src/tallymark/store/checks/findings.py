"""Result of a check: what was checked, and where stored data differ from the computed ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from tallymark.text import shorten

_SHOWN = 100
_LONGEST = 200


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    """Kind of data: scores, boards, ratings, runs and others."""
    tenant: str
    subject: str
    """The object, as people know it."""
    field: str
    stored: Any
    computed: Any

    def __str__(self) -> str:
        stored, computed = (_write(each) for each in (self.stored, self.computed))
        return f"{self.subject}: {self.field} is {stored}, and should be {computed}"


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a database check."""

    checked: dict[str, int]
    """Number of objects checked, by kind."""
    skipped: dict[str, int]
    """Number of objects that could not be recomputed, by reason."""
    counts: dict[str, int]
    """Number of differences, by kind; empty if there are none."""
    differences: tuple[Difference, ...]
    """The first hundred of each kind."""


class Findings:
    """Collects differences and counts."""

    def __init__(self) -> None:
        self._checked = Counter[str]()
        self._skipped = Counter[str]()
        self._counts = Counter[str]()
        self._differences: list[Difference] = []

    def note_checked(self, kind: str, count: int = 1) -> None:
        self._checked[kind] += count

    def note_skipped(self, why: str, count: int = 1) -> None:
        self._skipped[why] += count

    def compare(
        self, kind: str, tenant: str, subject: str, stored: dict[str, Any], computed: dict[str, Any]
    ) -> None:
        """Add each field whose stored value differs from the computed one."""
        if stored == computed:
            return
        for field, should in computed.items():
            if stored.get(field) != should:
                self.add(kind, tenant, subject, field, stored.get(field), should)

    def add(
        self, kind: str, tenant: str, subject: str, field: str, stored: Any, computed: Any
    ) -> None:
        self._counts[kind] += 1
        if self._counts[kind] <= _SHOWN:
            found = Difference(
                kind=kind,
                tenant=tenant,
                subject=subject,
                field=field,
                stored=stored,
                computed=computed,
            )
            self._differences.append(found)

    def report(self) -> CheckReport:
        return CheckReport(
            checked=dict(self._checked),
            skipped=dict(self._skipped),
            counts=dict(self._counts),
            differences=tuple(self._differences),
        )


def _write(value: Any) -> str:
    return "nothing" if value is None else shorten(str(value), _LONGEST)
