"""The registry: scorers by name, Tallymark's own and other packages' through one door.

A package offers a scorer with an entry point of the group `tallymark.scorers`; it is imported
only when that scorer is used. A reference is `name`, `file.py:name` or `module:name`, each with
options in brackets, which are literal values:

    keyword_match(keywords=["refund", "sorry"], min_match=2)
"""

from __future__ import annotations

import ast
import inspect
import re
import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from tallymark.errors import Place, ScorerError, TallymarkError, suggest
from tallymark.importing import (
    explain_import_failure,
    find_entry_points,
    import_object,
    parse_alone,
)
from tallymark.scoring.score import show_value
from tallymark.scoring.scorer import SEEN, Scorer
from tallymark.scoring.scorer_decorator import ScorerBuilder
from tallymark.scoring.scorer_options import SHARED_OPTIONS, bind_options, split_shared

_LITERAL_WORDS = {"true": True, "false": False, "null": None}
_WRAPS = {
    "autoevals": "scorer",
    "deepeval": "metric",
    "inspect": "scorer",
    "pydantic_evals": "evaluator",
}
"""Adapters, and the option of each that names what it wraps."""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_READ_ESCAPES = "\\'\"\nnrtxuUN"
"""Others stay as they are typed: in a pattern, `\\b` is the edge of a word and `\\1` a group."""
_BREAKS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")


class ScorerReference(msgspec.Struct, frozen=True):
    """A scorer's name as written, taken apart."""

    name: str
    """The registered name, or the name inside the file or module."""
    home: str | None = None
    """The file or module; None for a registered name."""
    options: dict[str, Any] = msgspec.field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> ScorerReference:
        """Take a reference apart; what cannot be read is a ScorerError with its column."""
        if not isinstance(text, str):
            raise ScorerError(
                f"{show_value(text)} does not name a scorer",
                hint="write a name, file.py:name or module:name, as a text",
            )
        head, bracket, _ = text.partition("(")
        home, colon, name = head.strip().rpartition(":")
        if not name or (colon and not home):
            raise ScorerError(
                f"{text!r} does not name a scorer",
                hint="write a name, file.py:name or module:name",
            )
        options = _parse_options(text, len(head)) if bracket else {}
        return cls(name, home or None, options)

    @property
    def score_name(self) -> str:
        """Name of its value in formulas, found without loading the scorer."""
        own = self.options.get("name", self.name)
        wraps = _WRAPS.get(self.name) if self.home is None else None
        if wraps is None or {wraps, "name"} <= self.options.keys():
            return str(own)
        return name_wrapped(str(self.options.get(wraps, own)))


def name_wrapped(thing: str) -> str:
    """The name of a scorer that wraps the thing of this name: `pattern_match` for a metric."""
    if "{{" in thing:  # only the template has the name
        return thing
    return snake_case(thing.rpartition("/")[2]).removesuffix("_metric")


def snake_case(name: str) -> str:
    """`ExactMatchMetric` as `exact_match_metric`, `JSONDiff` as `json_diff`."""
    return _BREAKS.sub("_", name).strip("_").lower()


def _parse_options(text: str, at: int) -> dict[str, Any]:
    """The options of `text`, whose bracket opens at index `at`."""
    source = "_" + text[at:]  # a call with a name of one character in place of the real one
    shift = at - 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" stays what was typed
            call = parse_alone(lambda: ast.parse(source, mode="eval")).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        column = getattr(error, "offset", None) or 1
        said = getattr(error, "msg", None) or str(error) or "they are nested too deeply"
        raise _make_error(f"the options cannot be read: {said}", text, shift + column) from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise _make_error("something follows the closing bracket", text, at + 1)
    if call.args:
        raise _make_error(
            "an option is written key=value", text, _find_column(call.args[0], source, shift)
        )
    options: dict[str, Any] = {}
    for keyword in call.keywords:
        column = _find_column(keyword, source, shift)
        if keyword.arg is None:
            raise _make_error("an option is written key=value", text, column)
        if keyword.arg in options:
            raise _make_error(f"the option {keyword.arg!r} is given twice", text, column)
        options[keyword.arg] = _parse_literal(keyword.value, text, source, shift)
    return options


def _parse_literal(node: ast.expr, text: str, source: str, shift: int) -> Any:
    class LiteralWords(ast.NodeTransformer):
        def visit_Constant(self, given: ast.Constant) -> ast.expr:
            written = ast.get_source_segment(source, given) or ""
            if not isinstance(given.value, str) or not written.startswith(("'", '"')):
                return given
            kept = _ESCAPE.sub(lambda e: e[0] if e[1] in _READ_ESCAPES else f"\\{e[0]}", written)
            value = parse_alone(lambda: ast.literal_eval(kept)) if kept != written else given.value
            return ast.copy_location(ast.Constant(value), given)

        def visit_Name(self, name: ast.Name) -> ast.expr:
            if name.id in _LITERAL_WORDS:
                return ast.copy_location(ast.Constant(_LITERAL_WORDS[name.id]), name)
            column = _find_column(name, source, shift)
            raise _make_error(f"write text in quotes: {name.id!r}", text, column, len(name.id))

    try:
        return ast.literal_eval(LiteralWords().visit(node))
    except (ValueError, TypeError, RecursionError):
        column = _find_column(node, source, shift)
        raise _make_error("only literal values can be options", text, column) from None


def _find_column(node: ast.expr | ast.keyword, source: str, shift: int) -> int:
    """The column (from 1) in the user's text; ast counts bytes, people count characters."""
    line = source.splitlines()[node.lineno - 1]
    before = sum(map(len, source.splitlines(keepends=True)[: node.lineno - 1]))
    return shift + before + len(line.encode()[: node.col_offset].decode()) + 1


def _make_error(message: str, text: str, column: int, length: int = 1) -> ScorerError:
    return ScorerError(message, place=Place(column=column, length=length, text=text))


def import_scorer(home: str, name: str) -> Any:
    """The object of that name in a file or a module."""
    return import_object(home, name, what="scorer", error=ScorerError)


GROUP = "tallymark.scorers"
RegistryEntry: TypeAlias = Scorer | ScorerBuilder[Any] | Callable[..., Scorer]
"""A scorer, or something that builds one from options."""
E = TypeVar("E", bound=RegistryEntry)


class _KnownScorer(msgspec.Struct):
    origin: str
    package: str | None = None
    entry: Any = None
    point: Any = None


class Registry:
    """Scorers by unique name."""

    def __init__(self, group: str | None = GROUP) -> None:
        """`group` is the entry-point group to look in; None looks in none."""
        self._group = group
        self._known: dict[str, list[_KnownScorer]] = {}
        self._discovered = False
        self._lock = threading.Lock()

    def register(self, entry: E, *, name: str | None = None) -> E:
        """Add a scorer, or a class or function that builds one; also usable as a decorator."""
        key = name or getattr(entry, "name", None) or getattr(entry, "__name__", None)
        if not isinstance(key, str):
            raise ScorerError(f"{show_value(entry)} needs a name to be registered under")
        known = self._discover().setdefault(key, [])
        if any(each.entry is entry for each in known):
            return entry
        added = _KnownScorer(_describe_origin(entry), entry=entry)
        if known:
            raise _make_duplicate_error(key, [*known, added])
        known.append(added)
        return entry

    def names(self) -> list[str]:
        """All names, sorted; nothing is imported for it."""
        return sorted(self._discover())

    def find_package(self, name: str) -> str | None:
        """The installed package that offers a scorer; None for one that was registered here."""
        return next((each.package for each in self._discover().get(name, ())), None)

    def get(self, name: str) -> RegistryEntry:
        """The scorer or builder of that name."""
        known = self._discover().get(name)
        if not known:
            near = suggest(name, self._known)
            meant = (
                f"did you mean {near!r}?"
                if near
                else "list the names with `tally scorers`, or write file.py:name or module:name"
            )
            raise ScorerError(f"there is no scorer {name!r}", hint=meant)
        if len(known) > 1:
            raise _make_duplicate_error(name, known)
        only = known[0]
        if only.entry is None:
            only.entry = _import_entry(only)
        entry: RegistryEntry = only.entry
        return entry

    def load(self, ref: str, /, **options: Any) -> Scorer:
        """The scorer that a reference names, built with the options in it and those given here.

        Every scorer also takes the options `name`, `threshold`, `retries` and `gives`.
        """
        reference = ScorerReference.parse(ref)
        twice = [key for key in options if key in reference.options]
        if twice:
            raise ScorerError(f"{reference.name}: the option {twice[0]!r} is given twice")
        return build_scorer(self.find(reference), reference.name, {**reference.options, **options})

    def find(self, reference: ScorerReference) -> RegistryEntry:
        """The scorer or builder that a reference names: registered, or of a file or module."""
        if reference.home is None:
            return self.get(reference.name)
        found: RegistryEntry = import_scorer(reference.home, reference.name)
        return found

    def _discover(self) -> dict[str, list[_KnownScorer]]:
        if self._group is not None and not self._discovered:
            with self._lock:  # who asks second waits until all are known
                if not self._discovered:
                    self._collect(self._group)
                    self._discovered = True
        return self._known

    def _collect(self, group: str) -> None:
        for point in find_entry_points(group):
            package = point.dist.name if point.dist is not None else None
            whose = f"the package {package}" if package else "an unknown package"
            known = _KnownScorer(f"{point.value} of {whose}", package, point=point)
            self._known.setdefault(point.name, []).append(known)


def _import_entry(known: _KnownScorer) -> object:
    try:
        return known.point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 (a package may raise anything on import)
        said = f"the scorer {known.point.name!r}, {known.origin},"
        raise ScorerError(explain_import_failure(said, error)) from None


def _describe_origin(entry: object) -> str:
    source = entry.function if isinstance(entry, Scorer) else getattr(entry, "wrapped", entry)
    module = getattr(source, "__module__", None)
    return f"{module}:{getattr(source, '__qualname__', type(source).__name__)}"


def _make_duplicate_error(name: str, known: list[_KnownScorer]) -> ScorerError:
    both = " and ".join(each.origin for each in known)
    return ScorerError(f"more than one scorer is named {name!r}: {both}")


default_registry = Registry()
"""The registry that commands and suites use."""


def is_built_in(name: str) -> bool:
    """True if the scorer of that name is one of Tallymark's own."""
    return default_registry.find_package(name) == "tallymark"


def load_scorer(ref: str, /, **options: Any) -> Scorer:
    """The scorer that a reference names, from the default registry."""
    return default_registry.load(ref, **options)


def build_scorer(entry: object, name: str, options: dict[str, Any]) -> Scorer:
    """A scorer from a scorer, or from a class or function that builds one, options checked."""
    if isinstance(entry, Scorer):
        unknown = [key for key in options if key not in SHARED_OPTIONS]
        if unknown:
            raise ScorerError(f"{name} takes no options, but {unknown[0]!r} was given")
        return entry.replace(**options) if options else entry
    if not callable(entry):
        raise ScorerError(f"{name} is {show_value(entry)}, not a scorer")
    try:
        parameters = inspect.signature(entry).parameters
    except ValueError:  # built into Python
        raise ScorerError(f"{name} is {show_value(entry)}, not a scorer") from None
    plain = entry.__class__.__name__ == "function" and next(iter(parameters), "") in SEEN
    if (plain and not options) or list(parameters) in (["ctx"], ["context"]):
        raise ScorerError(f"{name} is a plain function", hint="put @scorer above it")
    own, shared = split_shared(entry, options)
    made = _call_builder(entry, name, own)
    return made.replace(**shared) if shared else made


def _call_builder(entry: Callable[..., Any], name: str, options: dict[str, Any]) -> Scorer:
    bound = bind_options(
        entry.wrapped if isinstance(entry, ScorerBuilder) else entry, name, (), options
    )
    try:
        made = entry(*bound.args, **bound.kwargs)
    except TallymarkError:
        raise
    except Exception as error:  # noqa: BLE001 (a builder may refuse its options in its own way)
        raise ScorerError(f"{name} refuses its options: {type(error).__name__}: {error}") from None
    if not isinstance(made, Scorer):
        raise ScorerError(
            f"{name} gave {show_value(made)}, not a scorer", hint="put @scorer above its definition"
        )
    return made if made.config else made.replace(config=bound.arguments)
