"""`deterministic`: fields of the answer compared with the truth by scoring primitives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.challenge_data import load_challenge_data, read_truth
from tallymark.challenges.evaluators.evaluator_kind import (
    PASS_AT,
    TRUTH,
    EvaluatorKind,
    make_warning,
    metrics_of,
    own_dimensions,
    raw_score,
)
from tallymark.dimensions import primitives
from tallymark.dimensions.dimension import to_fraction
from tallymark.documents.reader import MISSING, Reader
from tallymark.documents.shapes import (
    ChoiceShape,
    Key,
    KindShape,
    MapShape,
    NumberShape,
    RecordShape,
    TextShape,
)
from tallymark.documents.yaml_parser import MappingNode, Node, ScalarNode
from tallymark.errors import InvalidInput, Problem
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.evaluators.evaluator_kind import EvaluationSetting, Submitted

PRIMITIVES: dict[str, Callable[..., float]] = {
    "exact_match": primitives.exact_match,
    "exact_match_ratio": primitives.exact_match_ratio,
    "numeric_tolerance": primitives.numeric_tolerance,
    "fuzzy_string": primitives.fuzzy_string,
    "set_overlap": primitives.set_overlap,
    "coverage": primitives.coverage,
    "precision": primitives.precision,
    "recall": primitives.recall,
}
DEFAULT_DIMENSION = "correctness"
LONGEST_TEXT = 20_000
"""Characters that fuzzy_string compares, which takes their product."""
MOST_VALUES = 10_000
"""Values of one field; also because values can be chosen to make sets of them slow."""

ZERO = Fraction(0)
_NOTHING: Any = object()


def check(challenge: Challenge, folder: Path) -> list[Problem]:
    """Every field must score full marks with the truth itself, and every dimension has a field."""
    options = challenge.evaluator.options
    fields = options["fields"]
    scored = {spec.get("dimension", DEFAULT_DIMENSION) for spec in fields.values()}
    problems = [
        Problem(f"no field scores the dimension {key!r}", hint="give a field `dimension:`")
        for key in own_dimensions(challenge)
        if key not in scored
    ]
    if not fields:
        problems.append(Problem("there are no fields to compare"))
    if challenge.generate is None and "truth" not in options:
        hint = "name a file under `truth`, or make it with `data: {generate: generate.py}`"
        problems.append(Problem("there is no truth to compare with", hint=hint))
    if challenge.generate is None and "truth" in options:
        problems += find_truth_problems(fields, read_truth(folder / options["truth"]))
    return problems


def find_truth_problems(
    fields: Mapping[str, Mapping[str, Any]], truth: object
) -> Iterator[Problem]:
    """Fields that the truth lacks, or that its values do not suit."""
    for path, spec in fields.items():
        wanted = read_path(truth, spec.get("truth", path))
        if wanted is _NOTHING or wanted is None:
            yield Problem(f"field {path!r}: the truth has no value there")
        elif (reason := find_excess(wanted, spec["primitive"])) is not None:
            yield Problem(f"field {path!r}: the truth is {reason}")
        else:
            try:
                compare(spec, wanted, wanted)
            except InvalidInput as error:
                yield Problem(f"field {path!r}: {error.problems[0].message}")


def evaluate(submitted: Submitted, setting: EvaluationSetting) -> Evaluation:
    """Each dimension is the weighted mean of its fields."""
    challenge = setting.challenge
    options = EVALUATOR.fill(challenge)
    truth = load_challenge_data(challenge, setting.folder, submitted.seed, setting.policy).truth
    warnings: list[dict[str, Any]] = []
    scores: dict[str, float] = {}
    weighted: dict[str, list[tuple[float, float]]] = {}
    for path, spec in options["fields"].items():
        scores[path] = _score_field(path, spec, submitted.answer, truth, warnings)
        of_dimension = weighted.setdefault(spec.get("dimension", DEFAULT_DIMENSION), [])
        of_dimension.append((scores[path], spec.get("weight", 1)))
    overall = _mean([pair for pairs in weighted.values() for pair in pairs])
    return Evaluation(
        metrics=metrics_of(submitted, succeeded=overall >= options["pass_at"]),
        dimensions={key: _mean(pairs) for key, pairs in weighted.items()},
        warnings=tuple(warnings),
        details={"fields": scores},
    )


def compare(spec: Mapping[str, Any], answer: object, truth: object) -> float:
    """One value against the truth: 0 to 1000."""
    extra = [spec["tolerance"]] if "tolerance" in spec else []
    return PRIMITIVES[spec["primitive"]](answer, truth, *extra)


def read_path(value: object, path: str) -> Any:
    """The value at a path such as `a.b.0`; `.` is the whole value."""
    for part in [] if path == "." else path.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        # Nine digits are more than any list has, and `int` refuses thousands of them.
        elif isinstance(value, list) and part.isdecimal() and int(part[:9]) < len(value):
            value = value[int(part[:9])]
        else:
            return _NOTHING
    return value


def _score_field(
    path: str, spec: Mapping[str, Any], answer: object, truth: object, told: list[dict[str, Any]]
) -> float:
    wanted = read_path(truth, spec.get("truth", path))
    if wanted is _NOTHING or wanted is None:
        raise InvalidInput(f"the truth has no value for the field {path!r}")
    got = read_path(answer, path)
    where = "the answer" if path == "." else path
    if got is _NOTHING or got is None:
        told.append(make_warning(f"{where} is missing, and scores 0"))
        return 0.0
    if (reason := find_excess(got, spec["primitive"])) is not None:
        told.append(make_warning(f"{where} is {reason}, and scores 0"))
        return 0.0
    if _describe_kind(got) != _describe_kind(wanted):
        told.append(
            make_warning(f"{where} is {show_value(got)}, and {_describe_kind(wanted)} is wanted")
        )
    return compare(spec, got, wanted)


def find_excess(value: object, primitive: str) -> str | None:
    """Why a value is not compared: it would take too long."""
    if primitive == "fuzzy_string" and isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"a text of more than {LONGEST_TEXT:,} characters"
    left = MOST_VALUES
    waiting = [value]
    while waiting:
        each = waiting.pop()
        left -= 1
        if isinstance(each, dict | list):
            waiting += each.values() if isinstance(each, dict) else each
        if left < 0 or len(waiting) > MOST_VALUES:
            return f"more than {MOST_VALUES:,} values"
    return None


def _describe_kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    kinds: dict[type, str] = {dict: "a mapping", list: "a list", str: "text"}
    return kinds.get(type(value), "a number")


def _mean(weighted: Sequence[tuple[float, float]]) -> float:
    """Exact, so that full marks in every field are full marks."""
    pairs = [
        (to_fraction(number) or ZERO, to_fraction(weight) or ZERO) for number, weight in weighted
    ]
    total = sum((weight for _, weight in pairs), ZERO)
    return raw_score(sum((number * weight for number, weight in pairs), ZERO) / total)


def _require_tolerance(node: MappingNode, reader: Reader) -> None:
    primitive = node.get("primitive")
    numeric = isinstance(primitive, ScalarNode) and primitive.text == "numeric_tolerance"
    if numeric != ("tolerance" in node.entries):
        reader.wrong(node, "numeric_tolerance needs a 'tolerance', and nothing else takes one")


class _FieldShape(KindShape):
    """A primitive's name alone is short for a mapping with it."""

    def read(self, node: Node, reader: Reader) -> Any:
        value = super().read(node, reader)
        if value is MISSING:
            return MISSING
        given = value if isinstance(value, dict) else {"primitive": value}
        return {"primitive": "exact_match"} | given


_FIELD = _FieldShape(
    scalar=ChoiceShape(tuple(PRIMITIVES)),
    mapping=RecordShape(
        "a mapping with 'primitive'",
        {
            "primitive": Key(ChoiceShape(tuple(PRIMITIVES)), "How it is compared; exact_match."),
            "dimension": Key(TextShape(), "The dimension that it counts for; correctness."),
            "weight": Key(NumberShape(above=0), "Its share in that dimension; 1."),
            "tolerance": Key(
                NumberShape(low=0), "Full marks within it, none from five times it on."
            ),
            "truth": Key(TextShape(), "Where its truth lies, if not at the same path."),
        },
        _require_tolerance,
    ),
)
EVALUATOR = EvaluatorKind(
    help="compares fields with the truth",
    options={
        "truth": TRUTH,
        "fields": Key(
            MapShape(_FIELD), "How each field, by its path `a.b.0`, is compared.", required=True
        ),
        "pass_at": PASS_AT,
    },
    check=check,
    evaluate=evaluate,
)
