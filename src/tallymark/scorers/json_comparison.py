"""Comparing JSON values, where `true` is not 1 but 1 is 1.0."""

from __future__ import annotations

from typing import Any


def is_same(want: Any, got: Any) -> bool:
    """True if two values are equal at every level."""
    if isinstance(want, bool) or isinstance(got, bool):
        return want is got
    if isinstance(want, dict):
        return (
            isinstance(got, dict)
            and want.keys() == got.keys()
            and all(is_same(value, got[key]) for key, value in want.items())
        )
    if isinstance(want, list | tuple):
        return (
            isinstance(got, list | tuple) and len(want) == len(got) and all(map(is_same, want, got))
        )
    return bool(want == got)


def count_leaves(value: Any) -> int:
    """Number of values that hold no others; an empty list or object is one."""
    count = 0
    stack = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, dict | list | tuple) and each:
            stack.extend(each.values() if isinstance(each, dict) else each)
        else:
            count += 1
    return count


class JsonComparison:
    """Counts the leaves of the expected value that the other one has, and lists the differences."""

    def __init__(self, want: Any, got: Any, *, exact_keys: bool) -> None:
        """`exact_keys` counts leaves under keys that were not expected as differences."""
        self.exact_keys = exact_keys
        self.matched = 0
        self.total = 0
        self.differs_at: list[str] = []
        self._compare(want, got, "$")

    def _compare(self, want: Any, got: Any, path: str) -> None:
        if isinstance(want, dict) and isinstance(got, dict):
            self._compare_objects(want, got, path)
        elif isinstance(want, list | tuple) and want and isinstance(got, list | tuple):
            for place, each in enumerate(want):
                where = f"{path}[{place}]"
                if place < len(got):
                    self._compare(each, got[place], where)
                else:
                    self._differs(each, where)
            for place in range(len(want), len(got)):
                self._differs(got[place], f"{path}[{place}]")
        elif is_same(want, got):
            self._matches()
        else:
            self._differs(want, path)

    def _compare_objects(self, want: dict[str, Any], got: dict[str, Any], path: str) -> None:
        for key, each in want.items():
            where = f"{path}.{key}"
            if key in got:
                self._compare(each, got[key], where)
            else:
                self._differs(each, where)
        unexpected = [key for key in got if key not in want] if self.exact_keys else []
        for key in unexpected:
            self._differs(got[key], f"{path}.{key}")
        if not want and not unexpected:
            self._matches()

    def _matches(self) -> None:
        self.matched += 1
        self.total += 1

    def _differs(self, value: Any, path: str) -> None:
        self.total += count_leaves(value)
        self.differs_at.append(path)
