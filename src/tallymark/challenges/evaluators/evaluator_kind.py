"""Interface of evaluators: options that they share, inputs, and the start of an `Evaluation`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tallymark.challenges.attempt import COUNTS, NEVER_BELOW_ZERO, Evaluation, Metrics
from tallymark.challenges.challenge import Challenge
from tallymark.challenges.challenge_folder import find_name_problem
from tallymark.documents.reader import MISSING, Reader
from tallymark.documents.shapes import (
    DurationShape,
    FlagShape,
    Key,
    ListShape,
    NumberShape,
    Shape,
    TextShape,
)
from tallymark.documents.yaml_parser import Node
from tallymark.errors import InvalidInput, OrganiserFault, Problem, suggest
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from tallymark.judging.judge_dialogue import OpenAnswers
    from tallymark.sandbox import Policy

_TEXT = TextShape()


@dataclass(frozen=True)
class FileNameShape(Shape):
    """The name of a file in the challenge's folder, which must be there."""

    may_be_folder: bool = False
    secret: bool = False
    """Competitors must never get it."""
    called = "the name of a file in the challenge's folder"

    def read(self, node: Node, reader: Reader) -> Any:
        name = _TEXT.read(node, reader)
        if name is MISSING:
            return MISSING
        tidy = name.rstrip("/") if self.may_be_folder else name
        if (problem := find_name_problem(tidy)) is not None:
            return reader.wrong(node, problem)
        path = reader.source.folder / tidy
        # A link could lead out of the folder, which is all that a published challenge has.
        if path.is_symlink() or not (path.is_file() or (self.may_be_folder and path.is_dir())):
            near = suggest(tidy, sorted(path.name for path in reader.source.folder.iterdir()))
            hint = f"did you mean '{near}'?" if near else "names start at the challenge's folder"
            return reader.wrong(node, f"there is no file '{tidy}'", hint)
        return tidy

    def schema(self) -> dict[str, Any]:
        return _TEXT.schema()


NAMES = ListShape(TextShape("a name"))
METRICS = Key(NAMES, "Names of its own metrics, for formulas.")
"""Every evaluator has it."""
TRUTH = Key(FileNameShape(secret=True), "The file with the truth: JSON or YAML; else a text.")
PASS_AT = Key(
    NumberShape(low=0, high=1000),
    "Without dimensions, the score that an attempt succeeds with.",
    default=1000,
)


def dimension(default: str) -> Key:
    """The option `dimension`."""
    return Key(TextShape(), "The dimension that it scores.", default=default)


def limits(*, time_s: float, memory_mb: int) -> dict[str, Key]:
    """Options of evaluators that run code in the sandbox."""
    memory = NumberShape(low=16, high=64_000, whole=True)
    return {
        "time": Key(DurationShape(), "How long one run may take.", default=time_s),
        "memory": Key(memory, "Megabytes that it may use.", default=memory_mb),
        "packages": Key(
            FlagShape(), "May it import the packages that are installed here?", default=False
        ),
    }


MEASURED_DIMENSIONS = frozenset({"speed", "token_efficiency", "call_efficiency"})
"""Dimensions that scoring adds from times and counts; no evaluator gives them."""

EVALUATION_FAILED = "the evaluation failed; the organiser can see why"
"""Reason for a competitor; details may quote the truth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """Input of an evaluator."""

    answer: Any
    """A JSON value, a text, texts by file name, or a model's name: see `Submission.format`."""
    seed: int
    agent: str = ""
    number: int = 1
    elapsed_ms: int | None = None
    tokens_total: int | None = None
    cost: float | None = None
    calls: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The competitor's claims."""
    trusted: bool = False
    """True when a trusted system reports it; only then are metrics taken from the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSetting:
    """Environment of an evaluation."""

    challenge: Challenge
    folder: Path
    policy: Policy | None = None
    """Backend of the sandbox; None probes the machine."""
    judge_model: str | None = None
    """A model that judges in place of the challenge's own."""
    answers: OpenAnswers | None = None
    """Opens the cache of model verdicts; None calls models every time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedCopy:
    """A copy of a challenge to which a program is submitted that looks for the truth."""

    folder: Path
    mark: str
    """Stands for the truth: the program looks for it."""
    program: str
    """Python with a function `probe_PLACE(folder)` for each place, which lists what it found."""
    places: tuple[str, ...]
    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxProbe:
    """A submitted program for one type of evaluator, and its findings."""

    options: dict[str, Any]
    """The evaluator's, in the copy."""
    files: dict[str, str]
    """The submission."""
    read_clean: Callable[[Evaluation], set[str] | None]
    """The places where it found nothing; None when it did not run."""


Probe: TypeAlias = Callable[[Mapping[str, Any], ProbedCopy], SandboxProbe | None]


@dataclass(frozen=True, kw_only=True)
class EvaluatorKind:
    """One type of evaluator: all that others know of it. Each stands in a file of its own."""

    help: str
    """Its line in the docs."""
    options: Mapping[str, Key]
    evaluate: Callable[[Submitted, EvaluationSetting], Evaluation]
    """Judges one submission; the same one with the same seed is judged alike."""
    refuse: Callable[[Any, Challenge, Path], None] = lambda *_: None
    """Refuse an answer that it can never judge, before the answer is stored."""
    check: Callable[[Challenge, Path], list[Problem]] = lambda *_: []
    """Problems of the options and of the files they name."""
    reported: bool = False
    """A trusted system gives the metrics: nothing is entered, timed or judged here."""
    runs_code: bool = False
    """Code runs in the sandbox, the organiser's or what was submitted."""
    probe: Probe = lambda *_: None
    """Builds the program, for evaluators that run submissions; None for other options."""
    varies: bool = False
    """A model answers, so the same submission may be rated differently, and each one costs."""
    needs_judge: bool = False
    """True if a model of the organiser judges; it is called only when named."""

    def fill(self, challenge: Challenge) -> dict[str, Any]:
        """The options of a challenge, with the defaults of those that it leaves out."""
        return fill_options(self.options, challenge.evaluator.options)

    def secret_files(self, challenge: Challenge) -> set[str]:
        """The files of a challenge that competitors must never get."""
        given = challenge.evaluator.options
        return {
            given[name]
            for name, each in self.options.items()
            if isinstance(each.shape, FileNameShape) and each.shape.secret and name in given
        }


def fill_options(options: Mapping[str, Key], given: Mapping[str, Any]) -> dict[str, Any]:
    """Given options and defaults."""
    defaults = {name: each.default for name, each in options.items() if each.default is not None}
    return defaults | dict(given)


def own_dimensions(challenge: Challenge) -> list[str]:
    """The dimensions that the evaluator has to score."""
    return [
        each.key for each in challenge.scoring.dimensions if each.key not in MEASURED_DIMENSIONS
    ]


def metrics_of(submitted: Submitted, **found: Any) -> Metrics:
    """The metrics of an attempt: what the server knows, and what the evaluator found."""
    known = {
        "elapsed_ms": submitted.elapsed_ms,
        "tokens_total": submitted.tokens_total,
        "cost": submitted.cost,
        "calls": submitted.calls,
    }
    # By their types, as the store gives them back: what is scored again is scored by the same.
    return msgspec.convert(known | found, Metrics)


def read_metric(name: str, value: object, problems: list[Problem]) -> float | None:
    """A measured number; an impossible one is noted among the problems."""
    if value is None:
        return None
    whole, bounded = name in COUNTS, name in NEVER_BELOW_ZERO
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and not (bounded and value < 0)
        and not (whole and value != int(value))
    ):
        return int(value) if whole else float(value)
    wanted = f"a {'whole' if whole else 'finite'} number{', 0 or more' if bounded else ''}"
    problems.append(Problem(f"{name} is {wanted}, not {show_value(value)}"))
    return None


def raw_score(exactly: Fraction) -> float:
    """A score for JSON, rounded up at the ninth decimal.

    Rounded down, two thirds of 1000 weighed by 0.75 would be less than 500, and show as 499.
    """
    return float(Fraction(math.ceil(exactly * 10**9), 10**9))


def make_warning(
    message: str, *, severity: str = "warning", dimension: str | None = None
) -> dict[str, Any]:
    """One of an evaluation's warnings."""
    return {"message": message, "severity": severity, "dimension": dimension}


def evaluate_unusable(submitted: Submitted, challenge: Challenge, message: str) -> Evaluation:
    """The evaluation of what cannot be judged at all: 0 in every dimension, speed included."""
    keys: list[str | None] = [each.key for each in challenge.scoring.dimensions]
    return Evaluation(
        metrics=metrics_of(submitted, succeeded=False),
        dimensions=dict.fromkeys(own_dimensions(challenge), 0.0),
        warnings=tuple(
            make_warning(message, severity="error", dimension=key) for key in (keys or [None])
        ),
    )


@contextmanager
def blame_organiser(challenge: Challenge) -> Iterator[None]:
    """For what is done before the submission is looked at: that it fails is not its doing."""
    try:
        yield
    except InvalidInput as error:
        said = f"attempts at {challenge.name} cannot be judged now"
        raise OrganiserFault(said, str(error)) from None


def find_inner_file(folder: Path, name: str, what: str) -> Path:
    """A file of the challenge by its name; nothing outside of the folder is reached."""
    if (problem := find_name_problem(name)) is not None:
        raise InvalidInput(
            f"{what}: {show_value(name)} cannot be a file of the challenge: {problem}"
        )
    path = folder / name
    if not path.is_file() or path.is_symlink():
        raise InvalidInput(f"{what}: there is no file {name} in the challenge")
    return path
