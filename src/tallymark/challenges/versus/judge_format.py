"""The `judge:` of a challenge played red against blue: its type, and that type's options."""

from __future__ import annotations

from tallymark.challenges.evaluators.evaluator_format import TypedShape
from tallymark.challenges.evaluators.evaluator_options import FileNameShape, Option, limits
from tallymark.challenges.evaluators.judge import EVALUATOR as RATING
from tallymark.documents.shapes import NumberShape, TextShape

JUDGES: dict[str, dict[str, Option]] = {
    "script": {
        "script": Option(
            FileNameShape(), "The file with `judge(attack, defence, category)`.", required=True
        ),
        **limits(time_s=10.0, memory_mb=256),
    },
    "judge": {
        name: RATING.options[name]
        for name in ("rubric", "model", "temperature", "max_chars", "timeout")
    },
    "scorer": {
        "scorer": Option(
            TextShape(), "A built-in or installed scorer; it sees attack and defence.", True
        ),
        "threshold": Option(
            NumberShape(low=0, high=1), "The value from which on it is a breach; 0.5."
        ),
    },
}
JUDGE = TypedShape(JUDGES, JUDGES.__getitem__)
