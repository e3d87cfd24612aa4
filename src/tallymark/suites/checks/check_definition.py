"""A check: a type in the table, a spec in a file, a function of a `Subject` in a run."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tallymark.judging.judge_model import JudgeModel, open_judge
from tallymark.runs.case_verdict import DEFAULT_THRESHOLD
from tallymark.runs.record import CheckResult
from tallymark.scoring import Scorer, load_scorer
from tallymark.text import shorten

if TYPE_CHECKING:
    from tallymark.documents.shapes import Shape
    from tallymark.suites.checks.answer_under_check import Subject

QuickCheck: TypeAlias = Callable[["Subject"], CheckResult]
WaitingCheck: TypeAlias = Callable[["Subject"], Awaitable[CheckResult]]
CheckJudge: TypeAlias = str | Callable[[str], Any]
"""The model that judges by reference, or a function from prompt to answer."""


class CheckSpec(msgspec.Struct, frozen=True):
    """A check as a suite states it, templates not filled in."""

    kind: str
    config: Any = None
    parts: tuple[CheckSpec, ...] = ()
    """The alternatives of an `or`, or the checks of an `all`."""
    line: int = 0
    column: int = 0


@dataclass(frozen=True)
class CheckSetting:
    """Inputs for building a check besides its own config."""

    folder: Path = field(default_factory=Path)
    """Folder of the suite, where relative paths start."""
    threshold: float | None = None
    """Values that the eval sets."""
    suite_threshold: float | None = None
    judge: CheckJudge | None = None
    open_judge: Callable[..., JudgeModel] = open_judge
    """From a model's reference to the judge, as `judging.judge_model.open_judge`."""
    load: Callable[..., Scorer] = load_scorer
    """Finds scorers; a server passes one that knows registered names only."""
    redact: Callable[[str], str] = str
    """Takes secrets out of what is shown."""
    dry: bool = False
    """Only look whether the config is right: no model is reached for."""

    def quote(self, text: str, most: int = 80) -> str:
        """Text of the suite for a reason: without secrets, in quotes, cut; backslashes as typed."""
        return repr(shorten(self.redact(text), most)).replace("\\\\", "\\")

    def threshold_for(self, given: float | None, scorer: Scorer) -> float:
        """The threshold that counts: the check's, the eval's, the scorer's, the suite's."""
        order = (given, self.threshold, scorer.threshold, self.suite_threshold)
        return next((each for each in order if each is not None), DEFAULT_THRESHOLD)


Notice: TypeAlias = tuple[str, str]
"""Something the author should know: a stable code, and a sentence."""


@dataclass(frozen=True)
class CheckType:
    """A line of the table: the key, what may stand under it, and how it becomes a function."""

    kind: str
    shape: Shape
    build: Callable[[Any, CheckSetting], QuickCheck | WaitingCheck]
    """Build the function of a check; InvalidInput names a wrong config."""
    help: str
    notices: Callable[[Any], Iterable[Notice]] = lambda _: ()
    """Warnings about a valid config."""
    value_names: Callable[[Any], tuple[str, ...]] | None = None
    """Names of its values in formulas; none if only a template determines them."""
    many: bool = False
    """A list under the key stands for several checks, all of which must pass."""
    settled: bool = False
    """True if only its config (and secrets in its messages) matter: one build serves every run."""

    def make_check(self, config: Any, setting: CheckSetting) -> Check:
        """Build a check; InvalidInput names a wrong config."""
        function = self.build(config, setting)
        return Check(self.kind, function, inspect.iscoroutinefunction(function))


def expand_config(config: Any, key: str) -> dict[str, Any]:
    """A config that may be written short, as the value of its main key."""
    return config if isinstance(config, dict) else {key: config}


class Check(msgspec.Struct, frozen=True):
    """A check that is ready to run."""

    kind: str
    function: Any
    waits: bool = False
    """True for a check that must be awaited: it asks a model, or may block."""

    async def settle(self, subject: Subject) -> CheckResult:
        """Its result, whether it waits or not."""
        try:
            result = self.function(subject)
            settled: CheckResult = await result if self.waits else result
        except Exception as error:  # noqa: BLE001 (a check that breaks is a result, not a crash)
            return self.failure(error)
        return settled

    def failure(self, error: BaseException) -> CheckResult:
        """The result where the check itself broke."""
        said = f"{type(error).__name__}: {error}"[:500]
        return CheckResult(kind=self.kind, passed=False, error=f"{self.kind} failed: {said}")


class Checks(msgspec.Struct, frozen=True):
    """The checks of a case, in order; all must pass."""

    items: tuple[Check, ...] = ()
    waits: bool = False
    """False: `run` does. True: only `evaluate` does."""

    @classmethod
    def of(cls, items: Iterable[Check]) -> Checks:
        """Waits when one of them does."""
        listed = tuple(items)
        return cls(listed, any(check.waits for check in listed))

    def run(self, subject: Subject) -> list[CheckResult]:
        """The result of every check, for checks that do not wait."""
        results = []
        for check in self.items:
            try:
                results.append(check.function(subject))
            except Exception as error:  # noqa: BLE001 (a check that breaks is a result, not a crash)
                results.append(check.failure(error))
        return results

    async def evaluate(self, subject: Subject) -> list[CheckResult]:
        """The result of every check, in order; those that wait run at the same time."""
        if not self.waits:
            return self.run(subject)
        # None of them raises: the first that did would leave the others running.
        return await asyncio.gather(*(check.settle(subject) for check in self.items))
