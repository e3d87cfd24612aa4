"""`@scorer` makes a scorer of a function; on a class, and as `@configurable`, a builder of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypedDict, overload

from tallymark.errors import ScorerError, suggest
from tallymark.scoring.score import show_value
from tallymark.scoring.scorer import DataType, Scorer, pass_named
from tallymark.scoring.scorer_options import bind_options, split_shared

if TYPE_CHECKING:
    from typing import Unpack

    from tallymark.scoring.eval_context import EvalContext

P = ParamSpec("P")


class ContextEvaluator(Protocol):
    """An object whose `evaluate` takes the context."""

    def evaluate(self, ctx: EvalContext, /) -> Any:
        """Anything that a scorer may return, or an awaitable of it."""


ScorerFunction = Callable[["EvalContext"], Any]


class ScorerFacts(TypedDict, total=False):
    """Settings of a scorer where it is defined."""

    name: str
    description: str
    data_type: DataType
    threshold: float
    labels: Mapping[str, float]
    blocking: bool
    version: str
    retries: int
    gives: Sequence[str]


class ScorerBuilder(Generic[P]):
    """Builds scorers from options; each scorer remembers its options."""

    def __init__(
        self, target: Callable[P, ContextEvaluator | ScorerFunction], facts: ScorerFacts
    ) -> None:
        self.wrapped = target
        self.facts = facts
        self.name = facts["name"]
        self.description = facts["description"]
        self.__doc__ = target.__doc__
        self.__signature__ = inspect.signature(target)

    @overload
    def __call__(self, *args: P.args, **options: P.kwargs) -> Scorer: ...
    @overload
    def __call__(
        self,
        *args: Any,
        name: str = ...,
        threshold: float = ...,
        retries: int = ...,
        gives: Sequence[str] = ...,
        **options: Any,
    ) -> Scorer: ...
    def __call__(self, *args: Any, **options: Any) -> Scorer:
        """A scorer with these options, checked against the annotations.

        Every scorer also takes `name`, `threshold`, `retries` and `gives`. An instance of a class
        may say its own `name`, `description` and `threshold`.
        """
        options, shared = split_shared(self.wrapped, options)
        made = self._build(args, options)
        return made.replace(**shared) if shared else made

    def _build(self, args: tuple[Any, ...], options: dict[str, Any]) -> Scorer:
        bound = bind_options(self.wrapped, self.name, args, options)
        config = dict(bound.arguments)
        made = self.wrapped(*bound.args, **bound.kwargs)
        if isinstance(made, Scorer):
            return made.replace(config=config)
        own = {
            key: value
            for key in ("name", "description", "threshold")
            if (value := getattr(made, key, None)) is not None
        }
        function: Any = getattr(made, "evaluate", made)
        facts: dict[str, Any] = {**self.facts, **own}
        if not callable(function):
            raise ScorerError(
                f"{self.name} gave {show_value(made)} instead of a function of the context"
            )
        return Scorer(function, **facts, config=config, sources=(self.wrapped,))

    def __repr__(self) -> str:
        return f"ScorerBuilder({self.name!r})"


class BuilderDecorator(Protocol):
    """The type of `@configurable(...)`."""

    def __call__(
        self, target: Callable[P, ContextEvaluator | ScorerFunction], /
    ) -> ScorerBuilder[P]:
        """Make a builder of a function of options, or of a class."""


class ScorerDecorator(Protocol):
    """The type of `@scorer(...)`."""

    @overload
    def __call__(self, target: ScorerFunction, /) -> Scorer: ...
    @overload
    def __call__(
        self, target: Callable[P, ContextEvaluator | ScorerFunction], /
    ) -> ScorerBuilder[P]: ...
    @overload
    def __call__(self, target: Callable[..., Any], /) -> Scorer: ...


@overload
def scorer(target: ScorerFunction, /) -> Scorer: ...
@overload
def scorer(target: Callable[P, ContextEvaluator | ScorerFunction], /) -> ScorerBuilder[P]: ...
@overload
def scorer(target: Callable[..., Any], /) -> Scorer: ...
@overload
def scorer(target: None = None, /, **facts: Unpack[ScorerFacts]) -> ScorerDecorator: ...
def scorer(target: Any = None, /, **facts: Unpack[ScorerFacts]) -> Any:
    """Make a scorer of a sync or async function, or a builder of a class.

    The function takes the `EvalContext`, or some of its parts by name: `def f(output, expected)`.

    The name is the function's own and the description its docstring's first line, unless given.
    `blocking=False` means that a sync function returns at once, so it may run without a thread.
    `retries` is the number of further calls when one raises, `gives` names the scores of a call
    that gives several.
    """
    if target is None:
        return lambda given: _make_scorer(given, facts)
    return _make_scorer(target, facts)


@overload
def configurable(target: Callable[P, ContextEvaluator | ScorerFunction], /) -> ScorerBuilder[P]: ...
@overload
def configurable(target: None = None, /, **facts: Unpack[ScorerFacts]) -> BuilderDecorator: ...
def configurable(target: Any = None, /, **facts: Unpack[ScorerFacts]) -> Any:
    """Make a builder of a function that takes options and returns the function of a context."""
    if target is None:
        return lambda given: ScorerBuilder(given, _complete_facts(given, facts))
    return ScorerBuilder(target, _complete_facts(target, facts))


def _make_scorer(target: Any, facts: ScorerFacts) -> Scorer | ScorerBuilder[Any]:
    """The scorer of a function, or the builder of a class."""
    complete = _complete_facts(target, facts)
    if isinstance(target, type):
        if not hasattr(target, "evaluate") and "__call__" not in dir(target):
            raise ScorerError(f"the class {complete['name']} needs a method `evaluate(self, ctx)`")
        return ScorerBuilder(target, complete)
    _check_takes_context(target, complete["name"])
    return Scorer(target, **complete)


def _complete_facts(target: Any, facts: ScorerFacts) -> ScorerFacts:
    """The facts with name and description, refused here, where they stand, if they are wrong."""
    if isinstance(target, Scorer | ScorerBuilder) or not callable(target):
        raise ScorerError(f"a scorer is made of a function or a class, not {show_value(target)}")
    unknown = next((key for key in facts if key not in ScorerFacts.__annotations__), None)
    if unknown is not None:
        near = suggest(unknown, ScorerFacts.__annotations__)
        hint = (
            f"did you mean {near!r}?"
            if near
            else f"it takes {', '.join(ScorerFacts.__annotations__)}"
        )
        raise ScorerError(f"@scorer takes no {unknown!r}", hint=hint)
    complete: ScorerFacts = {**facts}
    complete.setdefault("name", getattr(target, "__name__", type(target).__name__))
    complete.setdefault("description", (inspect.getdoc(target) or "").partition("\n")[0].strip())
    Scorer(id, **complete)  # for its checks alone
    return complete


def _check_takes_context(function: Callable[..., Any], name: str) -> None:
    try:
        inspect.signature(pass_named(function, name)).bind(None)
    except ValueError:
        return  # a compiled function without a signature
    except TypeError:
        raise ScorerError(
            f"{name} must take exactly one argument, the context, or some of what it has by name",
            hint="a function of options is made a scorer with @configurable",
        ) from None
