"""Scoring a trace by a rule: its scorer, judge or formula, cost and result."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallymark.errors import InvalidInput, NotMeasured, TallymarkError, WorkFailed
from tallymark.formula import Formula
from tallymark.judging.judge_model import open_judge
from tallymark.judging.rubric import load_rubric, read_frame
from tallymark.judging.spending import find_spending, is_unavailable
from tallymark.judging.trace_evidence import collect_material
from tallymark.models.egress_policy import EgressPolicy, limit_egress
from tallymark.models.model_kinds import ModelReference
from tallymark.models.token_count import count_tokens
from tallymark.models.token_prices import Pricing, find_provider_prices
from tallymark.scorers.llm_judge import llm_judge
from tallymark.scoring import EvalContext, Expected, Score, Scorer, composite, load_scorer
from tallymark.service.rule_definitions import MOST_OUTPUT
from tallymark.store.traces.rule_outcomes import KeptScore
from tallymark.store.traces.rules import FORMULA_NAMES, read_formula_values

if TYPE_CHECKING:
    from pathlib import Path

    from tallymark.service.remote_suites import RemoteRules
    from tallymark.store import Store
    from tallymark.store.traces.rules import Rule, RuleDefinition
    from tallymark.traces import Trace

_ASKS = 2
"""Maximum calls of a judge for one verdict."""
LIKELY_OUTPUT = 300
"""Assumed tokens of a verdict; with reasoning there are more."""
_BYTES_A_TOKEN = 4
_SECONDS = 600.0
"""For scorers that wait; judges, which have a time of their own for each request, get more."""


@dataclass(frozen=True)
class JudgePrice:
    """Cost of a judge's verdict."""

    shows: tuple[Any, ...]
    frame: int
    """Bytes of the prompt around the evidence."""
    most_output: int
    price: Callable[[int, int], float] | None
    """Price of tokens in dollars; None if unknown."""

    def find_most(self, ctx: EvalContext) -> float | None:
        """Dollars that it cannot exceed: no token is shorter than a byte."""
        if self.price is None:
            return None
        return _ASKS * self.price(self._count_bytes(ctx), self.most_output)

    def find_likely(self, ctx: EvalContext) -> float | None:
        """Typical cost in dollars."""
        if self.price is None:
            return None
        shown = self._show(ctx)
        if shown is None:
            return 0.0
        return self.price(self.frame // _BYTES_A_TOKEN + count_tokens(shown), LIKELY_OUTPUT)

    def _count_bytes(self, ctx: EvalContext) -> int:
        shown = self._show(ctx)
        return 0 if shown is None else self.frame + len(shown.encode("utf-8", "replace"))

    def _show(self, ctx: EvalContext) -> str | None:
        try:
            return collect_material(ctx, self.shows).text
        except WorkFailed:  # then the judge is not called
            return None


@dataclass(frozen=True)
class RuleScoring:
    """A version of a rule, ready to score."""

    name: str
    said: RuleDefinition
    scorer: Scorer | None
    formula: Formula | None
    judges: tuple[JudgePrice, ...]
    egress: EgressPolicy | None
    seconds: float = _SECONDS
    """For all that is done with one trace."""

    @property
    def is_paid(self) -> bool:
        """True if it costs money, so that some is reserved first."""
        return bool(self.judges) or self.said.reserve is not None

    @property
    def is_reserved(self) -> bool:
        """True if a place or money must be reserved before it scores."""
        return self.is_paid or self.said.cap_count is not None

    @property
    def is_quick(self) -> bool:
        """True if it scores in the calling thread without waiting."""
        return self.scorer is None or self.scorer.inline

    @property
    def may_travel(self) -> bool:
        """True if other workers can score by it: paid calls are counted here."""
        return self.scorer is not None and not self.judges and self.said.folder is not None

    def find_amount(self, ctx: EvalContext | None) -> float:
        """US dollars to be set aside for a trace."""
        if self.said.reserve is not None:
            return self.said.reserve
        if ctx is None:
            return 0.0
        return sum(each.find_most(ctx) or 0.0 for each in self.judges)

    def find_likely(self, ctx: EvalContext) -> float | None:
        """Typical cost of a trace in US dollars; None if unknown."""
        parts = [each.find_likely(ctx) for each in self.judges]
        if None in parts or not parts:
            return self.said.reserve
        return sum(each or 0.0 for each in parts)

    def score_numbers(self, numbers: Mapping[str, Any]) -> Score:
        """Value of a formula over the columns of a trace."""
        if self.formula is None:
            raise TypeError("a rule without a formula scores traces, not numbers")
        values = read_formula_values(numbers)
        value = self.formula.evaluate(values)
        if value is not None:
            return Score(value)
        reason = self.formula.reason(values) or "it is undefined"
        if self.said.undefined is not None:
            return Score(self.said.undefined, reason)
        return Score.failed(reason)

    def score_all(self, contexts: Iterable[EvalContext]) -> Iterator[Score]:
        """The score of each, in their order; judges and what waits work on many at a time."""
        if self.scorer is None:
            raise TypeError("a formula scores numbers, not traces")
        if self.scorer.inline:
            yield from map(self.scorer.score, contexts)
            return
        from tallymark.suites.trace_loop import score_in_loop  # noqa: PLC0415 (asyncio is heavy)

        with limit_egress(self.egress):
            for _, (score,) in score_in_loop([self.scorer], contexts, self.seconds):
                yield score

    def keep(self, score: Score) -> tuple[KeptScore, ...]:
        """A score under the rule's name, several under its name and theirs."""
        if not score.parts:
            return (self._keep(self.name, score),)
        return tuple(self._keep(f"{self.name}.{each.name}", each) for each in score.parts)

    def _keep(self, name: str, score: Score) -> KeptScore:
        metadata = score.metadata
        if self.scorer is not None and not self.scorer.is_ours:
            metadata = {"scorer_version": self.scorer.origin.version, **metadata}
        spent = find_spending(score) if metadata else None
        cost = None if spent is None else spent.cost
        return KeptScore(name, score.value, score.label, score.reason, score.error, metadata, cost)


def open_scoring(
    rule: Rule | None, said: RuleDefinition, store: Store, rules: RemoteRules, *, name: str = ""
) -> RuleScoring:
    """Prepare a rule for scoring; an unusable one is refused in one sentence.

    A sent rule uses nothing of this machine that the operator does not allow.
    """
    own = said.folder is not None
    egress = None if own else rules.find_egress(store)
    opener = _Opener(said, egress, load_scorer if own else rules.load_scorer)
    try:
        with limit_egress(egress):
            scorer = opener.open()
    except TallymarkError:
        raise
    except Exception as error:  # noqa: BLE001 (a user's file may raise anything)
        raise InvalidInput(f"the scorer cannot be made: {type(error).__name__}: {error}") from None
    formula = None
    if said.formula is not None:
        formula = Formula.parse(said.formula, names=FORMULA_NAMES)
    called = name or (rule.name if rule is not None else "")
    seconds = _SECONDS + opener.seconds
    made = RuleScoring(called, said, scorer, formula, tuple(opener.judges), egress, seconds)
    _check_money(made)
    return made


def open_own_scoring(said: RuleDefinition) -> RuleScoring:
    """A rule whose writer has the database and that asks no judge, for a worker elsewhere."""
    return RuleScoring("", said, _Opener(said, None, load_scorer).open(), None, (), None)


def make_context(trace: Trace) -> EvalContext:
    """Context of a trace for a scorer; a trace may contain its own expectations."""
    told = trace.metadata.get("expected")
    if told is None:
        return EvalContext(trace, metadata=trace.metadata)
    try:
        return EvalContext(trace, Expected.read(told), trace.metadata)
    except InvalidInput as error:
        raise NotMeasured(f"what it expects cannot be read: {error}") from None


def is_outage(score: Score) -> bool:
    """True if neither trace nor scorer is the cause of a missing score."""
    return score.error is not None and is_unavailable(score)


class _Opener:
    """Opens what a definition names, and collects what its judges cost."""

    def __init__(
        self, said: RuleDefinition, egress: EgressPolicy | None, load: Callable[..., Scorer]
    ) -> None:
        self._said = said
        self._egress = egress
        self._load = load
        self.judges: list[JudgePrice] = []
        self.seconds = 0.0
        """Extra seconds for judges, beyond the time of any scorer."""

    def open(self) -> Scorer | None:
        said = self._said
        if said.scorer is not None:
            return self._load(said.scorer)
        if said.judge is not None:
            return self._open_judge(said.judge)
        if said.composite is not None:
            return self._open_composite(said.composite)
        return None

    def _open_composite(self, given: dict[str, Any]) -> Scorer:
        parts = [self._open_part(each) for each in given["parts"]]
        on_error = given.get("on_error", "fail")
        formula = given.get("formula")
        return composite(
            [scorer for scorer, _ in parts] if formula is not None else parts,
            on_error=0 if on_error == "zero" else on_error,
            formula=formula,
        )

    def _open_part(self, part: Any) -> tuple[Scorer, float]:
        if isinstance(part, str):
            return self._load(part), 1.0
        made = self._load(part["scorer"]) if "scorer" in part else self._open_judge(part["judge"])
        named = made.replace(name=part["name"]) if "name" in part else made
        return named, float(part.get("weight", 1.0))

    def _open_judge(self, given: dict[str, Any]) -> Scorer:
        rubric, reference = given["rubric"], given["model"]
        if self._egress is not None and rubric.endswith(".toml"):
            self._egress.demand("files", "no file of this server is read for others")
        most = given.get("max_tokens", MOST_OUTPUT)
        timeout = float(given.get("timeout", 60.0))
        pricing = given.get("pricing")
        folder: str | Path | None = self._said.folder
        judge = open_judge(reference, folder=folder, egress=self._egress, pricing=pricing)
        judge.settings = {"max_tokens": most}
        judge.careful = True
        made = llm_judge(
            rubric,
            model=judge,
            choices=given.get("choices"),
            timeout=timeout,
        )
        self.seconds = max(self.seconds, _ASKS * timeout)
        asked = load_rubric(rubric)
        words = tomllib.loads(read_frame())
        frame = sum(len(str(each).encode()) for each in words.values())
        said = (asked.question, asked.criteria, asked.choices, given.get("choices"))
        about = len(str(said).encode("utf-8", "replace"))
        shows = tuple(each for each in asked.shows if each != "expected" or not asked.criteria)
        price = _find_price(reference, pricing)
        self.judges.append(JudgePrice(shows, frame + about, most, price))
        return made


def _find_price(
    reference: str, pricing: dict[str, float] | None
) -> Callable[[int, int], float] | None:
    if pricing is not None:
        return Pricing.of(pricing).cost
    named = ModelReference.parse(reference)
    if named.kind == "echo":
        return lambda _, __: 0.0
    return find_provider_prices(named.kind, named.rest)


def _check_money(made: RuleScoring) -> None:
    """A cap in money needs to know what a trace may cost."""
    if made.said.cap_cost is None or made.said.reserve is not None:
        return
    if not made.judges:
        raise InvalidInput(
            "cap_cost: nothing is known to cost money here",
            hint="cap the count, or say with reserve what a trace may cost",
        )
    if any(each.price is None for each in made.judges):
        raise InvalidInput(
            "cap_cost: the price of this judge is unknown",
            hint="set the pricing of the judge, or set reserve to what a trace may cost",
        )
