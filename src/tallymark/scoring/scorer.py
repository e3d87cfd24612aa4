"""`Scorer`: a name and a function of one `EvalContext`, whose every outcome is a `Score`.

A failure stays inside its score: `evaluate` and `score` return one even if the function fails.
Only a real Ctrl-C and the cancellation of the caller's own task pass through.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import textwrap
import threading
from collections.abc import Callable, Mapping
from functools import partial, update_wrapper
from operator import attrgetter
from types import CodeType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tallymark.errors import NotMeasured, ScorerError
from tallymark.importing import find_raising_line, is_async, parse_alone
from tallymark.scoring.score import Origin, Score, as_number, show_value
from tallymark.scoring.scorer_returns import SCORE_NAME, to_score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tallymark.scoring.eval_context import EvalContext

DataType = Literal["numeric", "categorical", "boolean"]
_DATA_TYPES = ("numeric", "categorical", "boolean")
_PLAIN = frozenset({bool, int, float, str, dict, list, Score, type(None)})
"""Types of returns that are certainly not awaitable, for a quick test."""
_MOST_RETRIES = 100


class Scorer:
    """Anything that turns a context into a score; make one with `@scorer` or `composite`."""

    __slots__ = (
        "_origin",
        "_sources",
        "_tried",
        "blocking",
        "config",
        "data_type",
        "description",
        "function",
        "gives",
        "is_async",
        "is_ours",
        "labels",
        "name",
        "retries",
        "threshold",
        "version",
    )

    def __init__(  # noqa: PLR0913 (the facts about a scorer, all but the function by keyword)
        self,
        function: Callable[..., Any],
        *,
        name: str,
        description: str = "",
        data_type: DataType | None = None,
        threshold: float | None = None,
        labels: Mapping[str, float] | None = None,
        blocking: bool | None = None,
        version: str | None = None,
        config: Mapping[str, Any] | None = None,
        sources: Sequence[object] = (),
        retries: int = 0,
        gives: Sequence[str] = (),
    ) -> None:
        """`sources` are what the code hash covers; the function itself when none is given."""
        self.name = _check_name(name)
        self.is_ours = _is_ours(function)
        """True for code that leaves its context alone, and gives a new score each time."""
        self.function = function if self.is_ours else pass_named(function, name)
        self.retries = _check_retries(name, retries)
        """Number of further calls when one raises."""
        self.gives = _check_gives(name, gives)
        """The names of its scores, where a call gives several; formulas may use them."""
        self._tried = retry(self.function, self.retries) if self.retries else self.function
        self.description = description
        self.labels = _check_labels(name, labels)
        self.data_type = _check_data_type(name, data_type, labels)
        self.threshold = (
            None if threshold is None else _check_from_0_to_1(threshold, f"{name}: threshold")
        )
        self.is_async = is_async(self.function)
        self.blocking = not self.is_async and blocking is not False
        """True when the function may keep its thread waiting; `evaluate` then uses another."""
        self.version = version
        self.config = _check_mapping(name, "config", config)
        self._sources = tuple(sources) or (function,)
        self._origin: Origin | None = None

    @property
    def inline(self) -> bool:
        """True when the function is neither async nor blocking: it runs where it is called."""
        return not (self.is_async or self.blocking)

    @property
    def origin(self) -> Origin:
        """Name, version or code hash, and config; the hash is computed when first asked for."""
        if self._origin is None:
            version = self.version or code_hash(self._sources)
            self._origin = Origin(self.name, version, self.config)
        return self._origin

    @property
    def sources(self) -> tuple[object, ...]:
        """The functions and classes that the code hash covers."""
        return self._sources

    async def evaluate(
        self,
        ctx: EvalContext,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (late is a score, not an exception)
    ) -> Score:
        """The score of one context. `timeout` is in seconds; inline scorers do not need one."""
        if timeout is not None and (
            isinstance(timeout, bool) or not isinstance(timeout, int | float)
        ):
            message = f"{self.name}: timeout is {show_value(timeout)}; it must be seconds above 0"
            raise ScorerError(message)
        if self.blocking:
            raw = await load_calls().call_blocking(self, ctx, timeout)
        else:
            try:  # as `call` does, which costs a call more
                raw = self._tried(ctx if self.is_ours else ctx.frozen)
            except BaseException as error:  # noqa: BLE001 (as there)
                raw = self._explain_raised(ctx, error)
        if raw.__class__ not in _PLAIN and inspect.isawaitable(raw):
            raw = await load_calls().wait_for_return(self, raw, timeout)
        return to_score(raw, self)

    @property
    def score_names(self) -> tuple[str, ...]:
        """The names that its values have in a run."""
        return self.gives or (self.name,)

    def score(self, ctx: EvalContext) -> Score:
        """The score of one context, for code that is not async; nothing limits its time."""
        try:  # as `call` does, which costs a call less for each of a million traces
            raw = self._tried(ctx if self.is_ours else ctx.frozen)
        except BaseException as error:  # noqa: BLE001 (whatever a scorer raises is its own failure)
            raw = self._explain_raised(ctx, error)
        if raw.__class__ not in _PLAIN and inspect.isawaitable(raw):
            raw = load_calls().run_to_end(self, raw)
        return to_score(raw, self)

    def __call__(self, ctx: EvalContext) -> Any:
        """Exactly what the function returns or raises, for tests of the function itself."""
        return self.function(ctx)

    def call(self, ctx: EvalContext) -> object:
        """The function's return, or a failed score when it raises."""
        try:
            # Only our own code gets the context itself: a user's changes must not reach others.
            return self._tried(ctx if self.is_ours else ctx.frozen)
        except BaseException as error:  # noqa: BLE001 (whatever a scorer raises is its own failure)
            return self._explain_raised(ctx, error)

    def _explain_raised(self, ctx: EvalContext, error: BaseException) -> Score:
        if not hasattr(type(ctx), "frozen"):  # a mistake of the caller, not of the scorer
            message = f"{self.name} scores an EvalContext, not {show_value(ctx)}"
            hint = "tallymark.testing.mock_context makes one"
            raise ScorerError(message, hint=hint) from None
        return self.failure(error)

    def failure(self, error: BaseException) -> Score:
        """The failed score for what the function raised; a real Ctrl-C is raised again."""
        if (
            isinstance(error, KeyboardInterrupt)
            and threading.current_thread() is threading.main_thread()
        ):
            raise error
        if isinstance(error, NotMeasured):
            return Score.failed(str(error))
        return Score.failed(describe_raised(self.name, error))

    def replace(
        self,
        *,
        name: str | None = None,
        threshold: float | None = None,
        retries: int | None = None,
        gives: Sequence[str] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> Scorer:
        """The same scorer with some settings changed."""
        return Scorer(
            self.function,
            name=self.name if name is None else name,
            description=self.description,
            data_type=self.data_type,
            threshold=self.threshold if threshold is None else threshold,
            labels=self.labels,
            blocking=self.blocking,
            version=self.version,
            config=self.config if config is None else config,
            sources=self._sources,
            retries=self.retries if retries is None else retries,
            gives=self.gives if gives is None else gives,
        )

    def __repr__(self) -> str:
        return f"Scorer({self.name!r})"


def describe_raised(name: str, error: BaseException) -> str:
    """Describe in one sentence what a user's code raised and where."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 (a user's exception may not even print)
        said = ""
    cut = said if len(said) <= 1000 else f"{said[:997]}..."
    kind = type(error).__name__
    return f"{name} raised {kind}{f': {cut}' if cut else ''}{find_raising_line(error)}"


def load_calls() -> Any:
    """The async side of scoring: asyncio takes longer to load than all of it, and few need it."""
    from tallymark.scoring import scorer_calls  # noqa: PLC0415 (asyncio is heavy)

    return scorer_calls


def _check_name(name: object) -> str:
    if isinstance(name, str) and SCORE_NAME.fullmatch(name):
        return name
    raise ScorerError(f"{name!r} cannot name a scorer", hint="use letters, digits, '_' and '-'")


def _is_ours(function: object) -> bool:
    module = str(getattr(function, "__module__", None) or "")
    return module.startswith("tallymark.") and ".adapters." not in module


def _check_retries(name: str, retries: object) -> int:
    if isinstance(retries, int) and not isinstance(retries, bool) and 0 <= retries <= _MOST_RETRIES:
        return retries
    wanted = f"a whole number from 0 to {_MOST_RETRIES}"
    raise ScorerError(f"{name}: retries is {show_value(retries)}; it must be {wanted}")


def _check_gives(name: str, gives: object) -> tuple[str, ...]:
    if not isinstance(gives, list | tuple):
        raise ScorerError(f"{name}: gives is {show_value(gives)}; it must be a list of names")
    names = tuple(_check_name(each) for each in gives)
    if len(set(names)) < len(names):
        raise ScorerError(f"{name}: gives names a score twice: {', '.join(names)}")
    return names


def _check_data_type(
    name: str, data_type: DataType | None, labels: Mapping[str, float] | None
) -> DataType:
    if data_type is None:
        return "numeric" if labels is None else "categorical"
    if data_type not in _DATA_TYPES:
        kinds = ", ".join(_DATA_TYPES)
        raise ScorerError(f"{name}: data_type is {data_type!r}, which is not one of {kinds}")
    if labels is not None and data_type != "categorical":
        raise ScorerError(f"{name}: labels belong to a categorical scorer, not a {data_type} one")
    return data_type


def _check_labels(name: str, labels: Mapping[str, float] | None) -> dict[str, float] | None:
    if labels is None:
        return None
    _check_mapping(name, "labels", labels)
    return {
        label: _check_from_0_to_1(value, f"{name}: label {label!r}")
        for label, value in labels.items()
    }


def _check_mapping(name: str, key: str, given: object) -> dict[str, Any]:
    if given is None or isinstance(given, Mapping):
        return dict(given or {})
    raise ScorerError(f"{name}: {key} must be a mapping, not {show_value(given)}")


def _check_from_0_to_1(value: object, what: str) -> float:
    try:
        number = as_number(value)
    except ScorerError:
        number = math.nan
    if not 0.0 <= number <= 1.0:
        raise ScorerError(f"{what} is {show_value(value)}; it must be a number from 0 to 1")
    return number


def code_hash(sources: Iterable[object]) -> str:
    """Twelve hex digits over the source of functions, classes or callable objects."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(_read_code(source))
        digest.update(b"\0")  # so that text moved from one source to the next changes the hash
    return digest.hexdigest()[:12]


def _read_code(source: object) -> bytes:
    if isinstance(source, partial):
        return _read_code(source.func)
    named = source if hasattr(source, "__qualname__") else type(source)
    try:
        # A class is found by parsing its whole file.
        text = parse_alone(lambda: inspect.getsource(named))  # type: ignore[arg-type]
        return textwrap.dedent(text).encode()
    except (OSError, TypeError, SyntaxError):
        return _read_bytecode(named)


def _read_bytecode(source: object) -> bytes:
    """The bytecode, for code without a source file: a shell, `exec`, a compiled module."""
    code = getattr(source, "__code__", None)
    if code is not None:
        return _flatten_bytecode(code)
    if isinstance(source, type):
        parts = [_read_bytecode(each) for _, each in sorted(vars(source).items()) if callable(each)]
        return b"\0".join([source.__qualname__.encode(), *parts])
    return str(getattr(source, "__qualname__", source)).encode()


def _flatten_bytecode(code: CodeType) -> bytes:
    consts = [
        _flatten_bytecode(const) if isinstance(const, CodeType) else repr(const).encode()
        for const in code.co_consts
    ]
    return b"\0".join([code.co_code, " ".join(code.co_names).encode(), *consts])


ContextFunction: TypeAlias = "Callable[[EvalContext], Any]"
SEEN: dict[str, Callable[[Any], Any]] = {
    "input": attrgetter("input"),
    "output": attrgetter("output"),
    "expected": attrgetter("expected.output"),
    "metadata": attrgetter("metadata"),
    "trace": attrgetter("trace"),
    "spans": attrgetter("spans"),
    "config": attrgetter("config"),
    "ctx": lambda ctx: ctx,
}
"""Arguments that a function may take by name; `expected` is the expected output."""
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def pass_named(function: Callable[..., Any], name: str) -> ContextFunction:
    """From `def f(output, expected)` to a function of a context; one that is so is left alone."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return function  # a compiled function without a signature
    asked = [each.name for each in parameters if each.kind in _BY_NAME and each.name in SEEN]
    needed = [each for each in parameters if each.default is each.empty and each.kind in _BY_NAME]
    first = next(iter(parameters), None)
    if first is None or first.kind not in _BY_NAME or first.name not in SEEN or asked == ["ctx"]:
        if len(needed) > 1 and asked:
            other = next(each.name for each in needed if each.name not in SEEN)
            raise _make_unknown_error(name, other)
        return function
    for each in needed:
        if each.name not in SEEN:
            raise _make_unknown_error(name, each.name)
    getters = [(each, SEEN[each]) for each in asked]

    def call(ctx: EvalContext) -> Any:
        return function(**{each: get(ctx) for each, get in getters})

    async def wait(ctx: EvalContext) -> Any:
        return await function(**{each: get(ctx) for each, get in getters})

    # It has the name and the words of the function, but arguments of its own.
    made = update_wrapper(wait if is_async(function) else call, function, updated=())
    del made.__wrapped__
    return made


def _make_unknown_error(name: str, parameter: str) -> ScorerError:
    return ScorerError(
        f"{name} asks for {parameter!r}, which no scorer is given",
        hint=f"take the context alone, or any of {', '.join(SEEN)}; "
        "a function of options is made a scorer with @configurable",
    )


def retry(function: ContextFunction, retries: int) -> ContextFunction:
    """The function, called again up to so often when it raises; the last error comes out."""

    def call(ctx: EvalContext) -> Any:
        for _ in range(retries):
            try:
                return function(ctx)
            except Exception:  # noqa: BLE001, S112 (what is to be tried again, whatever it is)
                continue
        return function(ctx)

    async def wait(ctx: EvalContext) -> Any:
        for _ in range(retries):
            try:
                return await function(ctx)
            except Exception:  # noqa: BLE001, S112 (what is to be tried again, whatever it is)
                continue
        return await function(ctx)

    return wait if is_async(function) else call
