"""Judges: who says, per category, whether a defence was breached. The same inputs, the same answer.

`type: script` calls `judge(attack, defence, category)` of the organiser's file in the sandbox, and
`type: judge` asks a model. A scorer of the user's own judges through `ScorerJudge`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tallymark.challenges.versus.pairing import versus_part
from tallymark.challenges.versus.verdict import Ruling
from tallymark.errors import InvalidInput, TallymarkError
from tallymark.scorers.evidence import as_text
from tallymark.scoring import EvalContext, Scorer
from tallymark.traces import Span, Trace

if TYPE_CHECKING:
    from tallymark.challenges.definition import Challenge
    from tallymark.sandbox import Policy


class Meeting(NamedTuple):
    """What is judged: an attack, a defence, and the category in which they meet."""

    attack: Any
    defence: Any
    category: str


class Judge(Protocol):
    """Anything that rules on meetings."""

    @property
    def name(self) -> str:
        """Which judge, in which version: kept with every verdict."""
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
) -> Judge:
    """The judge that a challenge names; `folder` has its files."""
    versus = versus_part(challenge)
    if versus.judge.type == "script":
        from tallymark.challenges.versus.script_judge import ScriptJudge  # noqa: PLC0415 (sandbox)

        return ScriptJudge.of(challenge, folder, policy)
    if versus.judge.type == "judge":
        from tallymark.challenges.versus.model_judge import ModelJudge  # noqa: PLC0415 (models)

        return ModelJudge.of(challenge, folder, judge_model)
    raise InvalidInput(
        f"versus, judge: the type {versus.judge.type!r} cannot judge red against blue",
        hint="write type: script, or type: judge for a model",
    )


class ScorerJudge:
    """Judges by a scorer: it sees the attack as input and the defence as output.

    A value of at least the scorer's threshold (0.5 unless it has one) is a breach. The category is
    in `ctx.metadata`.
    """

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.name = f"scorer {scorer.name} {scorer.origin.version or ''}".strip()
        self._least = 0.5 if scorer.threshold is None else scorer.threshold

    def rule(self, meetings: Sequence[Meeting]) -> list[Ruling]:
        """One ruling for every meeting."""
        return [self._ruling(each) for each in meetings]

    def _ruling(self, meeting: Meeting) -> Ruling:
        met = Span(
            span_type="generation",
            input=as_text(meeting.attack),
            output=as_text(meeting.defence),
        )
        context = EvalContext(Trace(spans=[met]), metadata={"category": meeting.category})
        try:
            score = self.scorer.score(context)
        except TallymarkError as error:
            return Ruling.failed(str(error))
        if score.value is None:
            return Ruling.failed(score.error or "the scorer gave no value")
        return Ruling(breached=score.value >= self._least, reason=score.reason or "")
