"""Runs of the example suites on sample answers: several days, and one in progress.

The answers are stored next to the suites. Two agents give the careful or the hasty one, in shares
that change from day to day.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tallymark.documents.source import Source
from tallymark.models.replay import ReplayModel
from tallymark.service.suite_runs import RunOptions, RunService
from tallymark.suites.suite_evaluation import RunLimits
from tallymark.suites.suite_file import load_source

if TYPE_CHECKING:
    from tallymark.models import Answer, Model, Request
    from tallymark.service.stop_signals import StopSignal
    from tallymark.suites.resolved_suite import FilledSuite
    from tallymark.suites.suite_definition import SuiteDefinition

SUITES = ("support-desk", "capitals")
JUDGED = "desk-tone"
_JUDGED_DAYS = 3
"""Number of the last days with a run; each calls the judge."""
STEADY, SWIFT = "sample/steady", "sample/swift"
_DAY = 86_400.0
_SHARES = {
    STEADY: (0.60, 0.70, 0.66, 0.74, 0.80, 0.84, 0.88, 0.94),
    SWIFT: (0.45, 0.60, 0.58, 0.70, 0.76, 0.74, 0.84, 0.40),
}
"""Share of careful answers by day; the fast agent had a bad last day."""
_EPOCHS = 3
_GOING_ON = 120
"""Epochs of the run that goes on: some minutes."""
_PAUSE_S = 1.5
_SEMANTIC = re.compile(r"(?m)^ {6}- semantic:\n(?: {10}.*\n)+")


@dataclass
class SampleAgent:
    """Answers carefully or hastily, by a hash of the prompt."""

    name: str
    careful: Model
    hasty: Model
    share: float = 0.5
    day: int = 0
    pause_s: float = 0.0

    async def answer(self, request: Request) -> Answer:
        """The sample's answer with latency and cost as they vary in life."""
        if self.pause_s:
            await asyncio.sleep(self.pause_s)
        told = f"{self.name} {self.day} {request.epoch} {request.prompt}"
        luck = hashlib.sha256(told.encode()).digest()
        chosen = self.careful if luck[0] < 256 * self.share else self.hasty
        found = await chosen.answer(request)
        factor = 0.75 + luck[1] / 512
        cost = None if found.cost is None else round(found.cost * factor, 6)
        latency = None if found.latency is None else round(found.latency * factor, 3)
        return replace(found, latency=latency, cost=cost)

    async def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True)
class SampleRuns(RunService):
    """The service of runs, with models that only it knows."""

    agents: Mapping[str, SampleAgent] = field(default_factory=dict)

    def open_model(
        self,
        reference: str,
        suite: FilledSuite,  # noqa: ARG002 (as the service has it)
        options: RunOptions,  # noqa: ARG002
    ) -> Model:
        """One of the samples."""
        return self.agents[reference]


class _Silent:
    """Observer without output."""

    def started(self, *_: Any) -> None: ...

    def moved(self, *_: Any) -> None: ...

    def ended(self, *_: Any) -> None: ...


def make_agents(folder: Path) -> dict[str, SampleAgent]:
    """Both agents over the stored answers."""
    careful, hasty = (
        ReplayModel(name, folder / "answers" / f"{name}.jsonl") for name in ("careful", "hasty")
    )
    return {name: SampleAgent(name, careful, hasty) for name in _SHARES}


def run_past(runs: SampleRuns, folder: Path, now: float) -> None:
    """Each suite by each agent, once a day; the newest an hour ago."""
    suites = [load_example(folder, name) for name in SUITES]
    judged = load_example(folder, JUDGED)
    days = len(_SHARES[STEADY])
    for day in range(days):
        at = now - (days - 1 - day) * _DAY - 3600
        today = suites if day < days - _JUDGED_DAYS else [*suites, judged]
        for place, suite in enumerate(today):
            for name, agent in runs.agents.items():
                agent.day, agent.share = day, _SHARES[name][day]
                at += 300 + 60 * place
                _run_at(runs, suite, name, at)


def _run_at(runs: SampleRuns, suite: SuiteDefinition, model: str, at: float) -> None:
    options = RunOptions(limits=RunLimits(epochs=_EPOCHS))
    (done,) = runs.run(suite, [model], options, _Silent())
    took = sum(each.latency or 0 for each in done.results) / 4
    kept = {name: value for name, value in done.record.tags.items() if name != "folder"}
    record = replace(
        done.record,
        group=None,
        created_at=at,
        started_at=at,
        finished_at=at + took,
        tags={**kept, "branch": "main"},
    )
    runs.app.store.save_run(record)


def run_on(runs: SampleRuns, folder: Path, stop: StopSignal) -> None:
    """A long run in progress, and another after it, until the demo ends."""
    suite = load_example(folder, SUITES[0])
    options = RunOptions(limits=RunLimits(epochs=_GOING_ON, threads=2))
    for nth in range(10**6):
        agent = runs.agents[(STEADY, SWIFT)[nth % 2]]
        going = replace_fields(agent, day=100 + nth, share=0.8, pause_s=_PAUSE_S)
        once = replace_fields(runs, agents={agent.name: going})
        once.run(suite, [agent.name], replace_fields(options, stop=stop), _Silent())
        if stop.reason is not None:
            return


def load_example(folder: Path, name: str) -> SuiteDefinition:
    """A suite of the examples; without the check that compares meanings, where that is missing."""
    text = (folder / f"{name}.yaml").read_text(encoding="utf-8")
    if importlib.util.find_spec("wordllama") is None:
        text = _SEMANTIC.sub("", text)
    return load_source(Source(text, f"{name}.yaml", folder), name=name)
