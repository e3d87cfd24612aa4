"""`EvalContext`: all that a trace scorer sees."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from msgspec.structs import replace

from tallymark.errors import InvalidInput, NotMeasured, ScorerError, suggest
from tallymark.scoring.score import show_value
from tallymark.traces import Span, Trace

if TYPE_CHECKING:
    from typing import Self

_CAMEL = {"outputContains": "output_contains", "toolCalls": "tool_calls"}
_NO_CALL = "no answer was seen: the trace has no model call, and no output of its root"
_NOT_RECORDED = "no answer was seen: the trace does not record the output of its model calls"
_STATED = frozenset({"output", "output_contains", "tool_calls"})
"""The fields that most expectations use."""
_DATA_BEGINS = frozenset('{[-0123456789tfn"')
"""First characters of JSON: most answers begin otherwise and need no decoding."""
_PARTS = ("trace", "expected", "metadata", "config")


class _OpenMapping(msgspec.Struct, frozen=True, kw_only=True):
    """Known keys as attributes, all others in `extra`; `get` and `[]` reach both."""

    extra: dict[str, Any] = msgspec.field(default_factory=dict)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any] | None, where: str) -> Self:
        """From a mapping in snake_case or the document's camelCase; None gives an empty one."""
        values = _check_mapping(given, where)
        known: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for key, value in values.items():
            name = _CAMEL.get(key, key)
            known_key = name in cls.__struct_fields__ and name != "extra"
            (known if known_key else extra)[name if known_key else key] = value
        try:
            return msgspec.convert({**known, "extra": extra}, cls)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"{where}: {str(error).replace('$.', '')}") from None

    def get(self, key: str, default: Any = None) -> Any:
        """The value of any key, known or extra."""
        known = key in self.__struct_fields__ and key != "extra"
        value = getattr(self, key) if known else self.extra.get(key)
        return default if value is None else value

    def __getitem__(self, key: str) -> Any:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.get(key) is not None


class Expected(_OpenMapping, frozen=True, kw_only=True):
    """Expectations of the test's author; None where nothing is expected."""

    output: Any = None
    """A text, or the data that a JSON scorer compares with."""
    output_contains: list[str] | None = None
    tool_calls: list[str | dict[str, Any]] | None = None
    """Tools by name, or mappings with `name` and `arguments`; an empty list expects no call."""

    @classmethod
    def read(cls, given: Any, where: str = "expected") -> Expected:
        """From a mapping of these keys; any other value, a text first of all, is the output."""
        if isinstance(given, Expected):
            return given
        if given.__class__ is dict and given.keys() <= _STATED:
            try:
                return msgspec.convert(given, cls)
            except msgspec.ValidationError:  # reported below, with its place
                pass
        if given is None or isinstance(given, Mapping):
            return cls.from_dict(given, where)
        return cls(output=given)

    def freeze(self) -> Expected:
        """A read-only copy."""
        return Expected(
            extra=freeze(self.extra),
            output=freeze(self.output),
            output_contains=freeze(self.output_contains),
            tool_calls=freeze(self.tool_calls),
        )

    @property
    def tool_names(self) -> list[str] | None:
        """The names of the expected tools, in order; None when none were stated."""
        if self.tool_calls is None:
            return None
        return [call if isinstance(call, str) else str(call["name"]) for call in self.tool_calls]

    def __post_init__(self) -> None:
        """An expected tool call needs a name."""
        for call in self.tool_calls or ():
            if not isinstance(call, str) and "name" not in call:
                raise InvalidInput(f"the expected tool call {call!r} has no key 'name'")


class Config(_OpenMapping, frozen=True, kw_only=True):
    """Settings of test and suite: seconds that a scorer may take, and the value that passes."""

    timeout: float | None = None
    threshold: float | None = None


class EvalContext(msgspec.Struct, frozen=True, dict=True):
    """The sole argument of every trace scorer."""

    trace: Trace
    expected: Expected = msgspec.field(default_factory=Expected)
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    config: Config = msgspec.field(default_factory=Config)

    def __post_init__(self) -> None:
        """Refuse here what a scorer would stumble over."""
        given: Any = self
        spans: Any = getattr(given.trace, "spans", None)
        if (
            not isinstance(given.trace, Trace)
            or not isinstance(spans, list)
            or not isinstance(given.expected, Expected)
            or not isinstance(given.metadata, dict)
            or not isinstance(given.config, Config)
        ):
            raise self._explain_refusal()

    def _explain_refusal(self) -> InvalidInput:
        wanted = {
            "trace": (Trace, "a Trace"),
            "expected": (Expected, "an Expected"),
            "metadata": (dict, "a mapping"),
            "config": (Config, "a Config"),
        }
        for key, (kind, named) in wanted.items():
            given = getattr(self, key)
            if not isinstance(given, kind):
                message = f"context: {key} must be {named}, not {show_value(given)}"
                return InvalidInput(message, hint="EvalContext.from_dict takes plain data")
        spans = show_value(self.trace.spans)
        return InvalidInput(f"context: the trace's spans must be a list, not {spans}")

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> EvalContext:
        """From plain data in the document's shape, keys in camelCase or snake_case."""
        values = _check_mapping(given, "context")
        for key in values:
            if key not in _PARTS:
                near = suggest(key, _PARTS)
                hint = f"did you mean {near!r}?" if near else f"the keys are {', '.join(_PARTS)}"
                raise InvalidInput(f"context: unknown key {key!r}", hint=hint)
        trace = values.get("trace")
        if trace is None:
            raise InvalidInput("context: the key 'trace' is missing")
        return cls(
            trace if isinstance(trace, Trace) else Trace.from_dict(trace),
            Expected.read(values.get("expected")),
            dict(_check_mapping(values.get("metadata"), "metadata")),
            Config.from_dict(values.get("config"), "config"),
        )

    @cached_property
    def frozen(self) -> EvalContext:
        """A read-only copy: other scorers and epochs see the same context."""
        trace = self.trace
        try:
            spans = [
                replace(span, metadata=freeze(span.metadata) if span.metadata else NOTHING)
                for span in trace.spans
            ]
        except (AttributeError, TypeError):
            raise InvalidInput("context: the trace's spans must be Spans") from None
        metadata = freeze(trace.metadata)
        return EvalContext(
            replace(trace, spans=FrozenList(spans), metadata=metadata),
            self.expected.freeze(),
            metadata if self.metadata is trace.metadata else freeze(self.metadata),
            replace(self.config, extra=freeze(self.config.extra)),
        )

    @property
    def spans(self) -> list[Span]:
        """The spans of the trace."""
        return self.trace.spans

    @property
    def output(self) -> Any:
        """The agent's answer: a text, or JSON values where it returned data.

        Raises `NotMeasured` where no answer was seen.
        """
        text = self.output_text
        data = text[:1] in _DATA_BEGINS and any(
            span.output_is_data and span.output == text for span in self.trace.spans
        )
        return freeze(msgspec.json.decode(text)) if data else text

    @property
    def output_text(self) -> str:
        """The agent's answer as text; raises `NotMeasured` where no answer was seen.

        See docs/decisions/0030-what-was-not-seen.md.
        """
        answer = self.trace.answer
        if answer is None:
            raise NotMeasured(_NOT_RECORDED if self.trace.generations else _NO_CALL)
        return answer

    @property
    def input(self) -> Any:
        """The agent's input: a text, or JSON values where it was given data; empty when the trace
        does not record it.
        """
        asked = self.trace.question
        if asked is None:
            return ""
        return freeze(msgspec.json.decode(asked.input)) if asked.input_is_data else asked.input

    @property
    def input_text(self) -> str:
        """The agent's input as text; empty when the trace does not record it."""
        return self.trace.first_input


def _check_mapping(given: object, where: str) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{where} must be a mapping, not {type(given).__name__}")
    return given


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
    """A copy of plain data in mappings and lists that refuse changes; other values are shared."""
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
