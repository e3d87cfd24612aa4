"""The format of `challenge.yaml` as one table: read by it, and the JSON Schema made from it."""

from __future__ import annotations

from importlib import import_module
from typing import Any, get_args

from tallymark.challenges.attempt import LEVELS
from tallymark.challenges.challenge import (
    OnePer,
    OnViolation,
    Rated,
    SubmissionFormat,
    Tier,
    Visibility,
)
from tallymark.challenges.evaluators import EVALUATORS, find_evaluator
from tallymark.challenges.evaluators.evaluator_kind import METRICS, FileNameShape
from tallymark.challenges.strategies import STRATEGIES
from tallymark.documents.shapes import (
    AnyShape,
    ChoiceShape,
    DurationShape,
    Key,
    KindShape,
    ListShape,
    MapShape,
    MomentShape,
    NumberShape,
    RecordShape,
    TextShape,
    TypedShape,
    make_schema,
    one_or_many,
    record_or_short,
)
from tallymark.documents.yaml_parser import MappingNode

COUNT = NumberShape(low=1, high=1_000_000, whole=True)
AMOUNT = NumberShape(above=0)
STRATEGY = ChoiceShape(tuple(STRATEGIES))
CONFIG = AnyShape(MappingNode, "a mapping")

ATTEMPTS = record_or_short(
    "total",
    "a mapping with 'total' and 'per_day'",
    {
        "total": Key(COUNT, "How many attempts an agent has in all."),
        "per_day": Key(COUNT, "How many it has a day (UTC)."),
    },
)
CONSTRAINTS = RecordShape(
    "a mapping of limits",
    {
        "tokens": Key(NumberShape(above=0, whole=True), "Tokens that an attempt may use."),
        "calls": Key(NumberShape(above=0, whole=True), "Model and tool calls together."),
        "cost": Key(AMOUNT, "US dollars."),
        "tools": Key(ListShape(TextShape("a tool's name")), "The tools that may be called."),
        "on_violation": Key(
            ChoiceShape(get_args(OnViolation)),
            "What passing a bound does: a note, a score of 0, or no score; note.",
        ),
    },
)
TRAJECTORY = record_or_short(
    "least",
    "a mapping with 'least'",
    {"least": Key(ChoiceShape(LEVELS), "The least level that ranks; none.")},
)
SUBMISSION = RecordShape(
    "a mapping with 'format'",
    {
        "format": Key(ChoiceShape(get_args(SubmissionFormat)), "What is submitted; json."),
        "max_bytes": Key(
            NumberShape(low=1, high=50_000_000, whole=True), "The largest; 1,000,000."
        ),
        "schema": Key(
            KindShape(scalar=FileNameShape(), mapping=AnyShape(MappingNode, "a JSON Schema")),
            "A JSON Schema that it ought to fit, or the file with one.",
        ),
        "schema_dimension": Key(TextShape(), "The dimension that scores 0 where it does not."),
    },
)
DATA = RecordShape(
    "a mapping with 'generate' or 'public'",
    {
        "generate": Key(FileNameShape(), "A script with `generate(seed)`."),
        "public": Key(one_or_many(FileNameShape()), "Files that competitors get."),
    },
)
DIMENSION = record_or_short(
    "weight",
    "a mapping with 'weight'",
    {
        "weight": Key(NumberShape(), "Its share of the total; all sum to 1.", required=True),
        "label": Key(TextShape(), "Title on pages."),
        "description": Key(TextShape(), "What it scores."),
        "color": Key(TextShape(), "Its colour on pages."),
    },
)
SCORING = RecordShape(
    "a mapping with 'strategy', 'plugin', 'formula' or 'dimensions'",
    {
        "strategy": Key(STRATEGY, "What the board is ordered by; custom is by score."),
        "plugin": Key(TextShape(), "module:Class, file.py:Class, or builtin.weighted_scorer."),
        "formula": Key(TextShape("text with a formula"), "The score, over metrics and dimensions."),
        "dimensions": Key(MapShape(DIMENSION), "2 to 6 dimensions, each with its weight."),
        "config": Key(CONFIG, "What the plugin gets; `undefined` for a formula."),
        "timeout": Key(DurationShape(), "How long the plugin may take; 5 seconds."),
    },
)
EVALUATOR = TypedShape(
    EVALUATORS, lambda name: {**find_evaluator(name).options, "metrics": METRICS}
)
JUDGES = {"script": "script_judge", "judge": "model_judge", "scorer": "judges"}
"""By name, the module of `versus` with its `OPTIONS`: imported when it is first used."""
JUDGE = TypedShape(
    JUDGES, lambda name: import_module(f"tallymark.challenges.versus.{JUDGES[name]}").OPTIONS
)
VERSUS = RecordShape(
    "a mapping with 'categories' and 'judge'",
    {
        "categories": Key(
            ListShape(TextShape("a category"), 1), "What pairings are judged in.", True
        ),
        "judge": Key(JUDGE, "Judge that decides whether a defence was breached.", True),
    },
)
FLAT = {
    "scoring_strategy": Key(STRATEGY, "The same as scoring, strategy."),
    "scoring_plugin_id": Key(
        TextShape(), "The plugin's name; its code where no entrypoint is given."
    ),
    "scoring_entrypoint": Key(TextShape(), "The plugin's code, module:Class."),
    "scoring_config": Key(CONFIG, "The same as scoring, config."),
}
"""Challenges as systems with an API describe them: scoring in keys of its own."""

CHALLENGE = RecordShape(
    "a mapping with 'name', 'evaluator' and 'scoring'",
    {
        "name": Key(
            TextShape(), "Letters, digits and hyphens; other text is the title.", required=True
        ),
        "title": Key(TextShape(), "Title on pages."),
        "goal": Key(TextShape(), "Task of the competitor."),
        "difficulty": Key(ChoiceShape(get_args(Tier)), "How hard it is; contender."),
        "kind": Key(ChoiceShape(("solo", "versus")), "solo, or versus for red against blue."),
        "rated": Key(
            ChoiceShape(get_args(Rated)),
            "Which attempts are matches: every, until_won or first; every where `data.generate`"
            " makes new data, else until_won.",
        ),
        "time_limit": Key(DurationShape(), "From entering to submitting; an hour."),
        "attempts": Key(ATTEMPTS, "How many attempts an agent has; as many as it likes."),
        "opens": Key(MomentShape(), "Time from which attempts can be entered."),
        "closes": Key(MomentShape(), "Time after which no attempt can be entered."),
        "freezes": Key(MomentShape(), "When the public board stops moving."),
        "constraints": Key(CONSTRAINTS, "What an attempt may use, by its trajectory."),
        "trajectory": Key(TRAJECTORY, "How far a trajectory must be believed to rank."),
        "submission": Key(SUBMISSION, "What may be submitted."),
        "data": Key(DATA, "What competitors get."),
        "evaluator": Key(EVALUATOR, "How a submission is judged; reported."),
        "scoring": Key(SCORING, "How an attempt becomes a score; first."),
        **FLAT,
        "reference": Key(FileNameShape(may_be_folder=True), "An answer that ought to do well."),
        "versus": Key(VERSUS, "For kind: versus."),
        "visibility": Key(
            ChoiceShape(get_args(Visibility)),
            "public: on a server anybody may read it and its board; private: with a key alone.",
        ),
        "one_per": Key(
            ChoiceShape(get_args(OnePer)),
            "What the board shows: every agent, or of each owner the best one; agent.",
        ),
    },
)


def challenge_schema() -> dict[str, Any]:
    """The JSON Schema of a challenge, for editors."""
    named = {
        "attempts": ATTEMPTS,
        "constraints": CONSTRAINTS,
        "trajectory": TRAJECTORY,
        "submission": SUBMISSION,
        "data": DATA,
        "evaluator": EVALUATOR,
        "scoring": SCORING,
        "dimension": DIMENSION,
        "versus": VERSUS,
        "judge": JUDGE,
    }
    return make_schema("Tallymark challenge", CHALLENGE, named)
