"""Copies of plain data, so that nobody can change what others still look at."""

from __future__ import annotations

from typing import Any, NoReturn

from tallymark.errors import ScorerError

_ATOMS = frozenset({str, int, float, bool, bytes, type(None)})


def copy_plain(given: Any) -> Any:
    """Mappings and lists copied to the bottom; what is neither, or nested too deep, is shared."""
    try:
        return _copy(given)
    except RecursionError:
        return given


def _copy(given: Any) -> Any:
    kind = given.__class__
    if kind in _ATOMS:
        return given
    if kind is dict:
        return {
            key: value if value.__class__ in _ATOMS else _copy(value)
            for key, value in given.items()
        }
    if kind is list:
        return [_copy(value) for value in given]
    return given


def freeze(given: Any) -> Any:
    """The same data, in mappings and lists that refuse to be changed; the rest as in a copy."""
    try:
        return _freeze(given)
    except RecursionError:
        return given


def _freeze(given: Any) -> Any:
    kind = given.__class__
    if kind is dict:
        return (
            FrozenDict([(key, _freeze(value)) for key, value in given.items()])
            if given
            else NOTHING
        )
    return FrozenList([_freeze(value) for value in given]) if kind is list else given


def _refuse(self: object, *_: object, **__: object) -> NoReturn:  # noqa: ARG001
    raise ScorerError(
        "what a scorer sees cannot be changed, because others see it too",
        hint="change a copy: dict(...), list(...) or copy.deepcopy(...)",
    )


class FrozenDict(dict[Any, Any]):
    """A mapping that stays as it is; its copies are ordinary ones."""

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[dict[Any, Any]], tuple[dict[Any, Any]]]:
        return dict, (dict(self),)


class FrozenList(list[Any]):
    """A list that stays as it is; its copies are ordinary ones."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = _refuse
    pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[type[list[Any]], tuple[list[Any]]]:
        return list, (list(self),)


NOTHING = FrozenDict()
