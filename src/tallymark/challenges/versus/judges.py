"""Judges of a versus challenge: was a defence breached, per category? Deterministic by input.

`type: script` calls `judge(attack, defence, category)` of the organiser's file in the sandbox,
`type: judge` calls a model, and `type: scorer` a built-in or installed scorer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from tallymark.challenges.versus.pairings import Meeting, Ruling, require_versus
from tallymark.challenges.versus.script_judge import ScriptJudge
from tallymark.documents.shapes import Key, NumberShape, TextShape
from tallymark.errors import InvalidInput, TallymarkError
from tallymark.judging.trace_evidence import write_as_text
from tallymark.scoring import EvalContext, Scorer, load_scorer
from tallymark.scoring.scorer_registry import ScorerReference
from tallymark.traces import Span, Trace

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.judging.judge_dialogue import OpenAnswers
    from tallymark.sandbox import Policy


class Judge(Protocol):
    """Anything that rules on meetings."""

    @property
    def name(self) -> str:
        """Judge and version, stored with every verdict."""
        ...

    def rule(self, meetings: Sequence[Meeting]) -> list[Ruling]:
        """One ruling for every meeting, in their order; a failure is a ruling too."""
        ...


def judge_of(
    challenge: Challenge,
    folder: Path,
    *,
    policy: Policy | None = None,
    judge_model: str | None = None,
    answers: OpenAnswers | None = None,
) -> Judge:
    """The judge of a challenge; `folder` has its files, `answers` caches a model's."""
    versus = require_versus(challenge)
    if versus.judge.type == "script":
        return ScriptJudge.of(challenge, folder, policy)
    if versus.judge.type == "judge":
        # It loads asyncio, which no other judge needs.
        from tallymark.challenges.versus.model_judge import ModelJudge  # noqa: PLC0415

        return ModelJudge.of(challenge, folder, judge_model, answers)
    return ScorerJudge.of(versus.judge.options)


def check_judge(challenge: Challenge, folder: Path) -> None:
    """Refuse an unusable judge without calling it, which may cost money."""
    # The model may be chosen later, so any will do for the other checks.
    judge_of(challenge, folder, judge_model="echo/any")
    judge = require_versus(challenge).judge
    if judge.type == "judge":
        from tallymark.challenges.evaluators.judge import try_judge  # noqa: PLC0415 (as above)

        try_judge(judge.options.get("model"), folder)


class ScorerJudge:
    """Judges by a scorer: it sees the attack as input and the defence as output.

    A value of at least the scorer's threshold (0.5 unless it has one) is a breach. The category is
    in `ctx.metadata`.
    """

    def __init__(self, scorer: Scorer, threshold: float | None = None) -> None:
        self.scorer = scorer
        self.name = f"scorer {scorer.name} {scorer.origin.version or ''}".strip()
        own = 0.5 if scorer.threshold is None else scorer.threshold
        self._least = own if threshold is None else threshold

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """By its name: code in a challenge's folder would run outside of the sandbox."""
        named = str(options["scorer"])
        if ScorerReference.parse(named).home is not None:
            raise InvalidInput(
                f"versus, judge: {named!r} is code, and a scorer is not run in the sandbox",
                hint="name a built-in or installed scorer, or write type: script",
            )
        return cls(load_scorer(named), options.get("threshold"))

    def rule(self, meetings: Sequence[Meeting]) -> list[Ruling]:
        """One ruling for every meeting."""
        return [self._rule_one(each) for each in meetings]

    def _rule_one(self, meeting: Meeting) -> Ruling:
        met = Span(
            span_type="generation",
            input=write_as_text(meeting.attack),
            output=write_as_text(meeting.defence),
        )
        context = EvalContext(Trace(spans=[met]), metadata={"category": meeting.category})
        try:
            score = self.scorer.score(context)
        except TallymarkError as error:
            return Ruling.failed(str(error))
        if score.value is None:
            several = "the scorer gave several scores, and a ruling needs one"
            return Ruling.failed(
                several if score.parts else score.error or "the scorer gave no value"
            )
        return Ruling(breached=score.value >= self._least, reason=score.reason or "")


OPTIONS = {
    "scorer": Key(
        TextShape(), "A built-in or installed scorer; it sees attack and defence.", required=True
    ),
    "threshold": Key(NumberShape(low=0, high=1), "The value from which on it is a breach; 0.5."),
}
"""The judge of `type: scorer`."""
