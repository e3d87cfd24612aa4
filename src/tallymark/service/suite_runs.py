"""`RunService`: the life of a run, from a suite and its models to stored and summed up results."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tallymark.errors import InvalidInput, Problem
from tallymark.event_loops import run_to_end
from tallymark.judging.judge_model import open_judge
from tallymark.models import Model
from tallymark.models.egress_policy import EgressPolicy
from tallymark.models.model_kinds import open_model
from tallymark.runs.ongoing_run import OngoingRun, RunWatch, make_id, sort_by_suite
from tallymark.runs.record import SENT_TAG, CaseResult, RunRecord
from tallymark.runs.run import Run
from tallymark.service.remote_suites import NOWHERE, RemoteRules
from tallymark.suites.rechecks import rescore
from tallymark.suites.resolved_suite import FilledSuite, resolve
from tallymark.suites.suite_definition import SuiteDefinition
from tallymark.suites.suite_evaluation import RunLimits, SuiteEvaluation, count_planned
from tallymark.suites.suite_file import load_stored
from tallymark.suites.templates import find_unfilled, refuse_unknown
from tallymark.text import format_count

if TYPE_CHECKING:
    from tallymark.engine.engine_choice import EngineChoice
    from tallymark.service.app import App
    from tallymark.service.stop_signals import StopSignal
    from tallymark.suites.chosen_cases import CaseChoice

LEAST_CASES = 200
"""Fewer cases than this finish before workers have started."""


@dataclass(frozen=True)
class RunOptions:
    """A user's options for a run besides its suite and models."""

    limits: RunLimits = field(default_factory=RunLimits)
    values: Mapping[str, str] = field(default_factory=dict)
    """Values of variables and secrets; they override store and environment."""
    named: tuple[str, ...] = ()
    """Values given one by one: the suite must use each."""
    judge: str | None = None
    record: Path | None = None
    cache: Path | None = None
    choice: CaseChoice | None = None
    """Selected cases."""
    prompts: tuple[str, ...] = ()
    """Selected prompts of the suite; all if none is named."""
    stop: StopSignal | None = None
    """Signal that ends the run early."""
    engine: EngineChoice | None = None
    """Engine for many cases; None is this process."""
    ambient: Mapping[str, str] = field(default_factory=dict)
    """Fallback values for variables and secrets: those of a `.env`."""
    hidden: Mapping[str, str] = field(default_factory=dict)
    """Keys of models that came from a file: they are taken out of all that is stored and shown."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Stored with the run: branch and commit of a CI job."""


@dataclass(frozen=True)
class RunService:
    """Runs for commands and servers. The store opens on first use."""

    app: App
    rules: RemoteRules | None = None
    """Restrictions on suites of others on a server; None for one's own."""

    def resolve_suite(self, definition: SuiteDefinition, options: RunOptions) -> FilledSuite:
        """The suite with values for its templates; missing ones are reported before any model call.

        Each name is looked up in the user's values, then in the store, then in the environment,
        except for suites of others.
        """
        by_rules = {} if self.rules is None else {"load": self.rules.load_scorer}
        known_vars, known_secrets = (
            self._find_values(definition, options) if definition.uses else ({}, {})
        )
        return resolve(
            definition,
            vars=known_vars,
            secrets=known_secrets,
            judge=options.judge,
            open_judge=partial(
                open_judge, record=options.record, cache=options.cache, egress=self._egress
            ),
            recorded=options.record is not None,
            hidden=options.hidden,
            **by_rules,
        )

    @cached_property
    def _egress(self) -> EgressPolicy | None:
        """Keys for models of others' suites: all their secrets."""
        if self.rules is None:
            return None
        return self.rules.find_egress(self.app.store)

    def resolve_like(
        self, record: RunRecord, definition: SuiteDefinition, options: RunOptions
    ) -> FilledSuite:
        """The suite as it asks with the prompt of a run."""
        named = record.tags.get("prompt")
        asked = next((each for each in definition.prompts if each.name == named), None)
        return self.resolve_suite(
            definition if asked is None else definition.ask_with(asked), options
        )

    def _find_values(
        self, definition: SuiteDefinition, options: RunOptions
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Values of variables, and of secrets."""
        stored = self.app.store.vars() if self.app.store.exists else {}
        kept = set(self.app.store.secret_names()) if self.app.store.exists else set()
        wanted = [name for name in definition.secret_names if name in kept]
        sealed = self.app.store.secrets_for_run(wanted) if wanted else {}
        environment = {**options.ambient, **os.environ} if self.rules is None else {}
        # A value in the suite wins over one that happens to be in the environment.
        own = definition.own_vars
        unsaid = {name: value for name, value in environment.items() if name not in own}
        return (
            {**unsaid, **stored, **options.values},
            {**environment, **sealed, **options.values},
        )

    def find_unfilled(self, definition: SuiteDefinition, options: RunOptions) -> list[Problem]:
        """Each `{{name}}` of the suite that is sent as text, because no variable is called so."""
        if not any(use.kind == "bare" for use in definition.uses):
            return []
        return list(find_unfilled(definition, self._find_values(definition, options)[0]))

    def run(
        self, definition: SuiteDefinition, models: list[str], options: RunOptions, watch: RunWatch
    ) -> list[Run]:
        """Runs a suite with each prompt against each model in turn; the runs share a group."""
        asked = [definition]
        if definition.prompts or options.prompts:
            from tallymark.suites.chosen_cases import ask_with_each  # noqa: PLC0415 (few have any)

            asked = ask_with_each(definition, options.prompts)
        suites = [self.resolve_suite(each, options) for each in asked]
        suite = suites[0]
        chosen = models or list(suite.models)
        if not chosen:
            hint = "name one with -m, as in -m openai/gpt-5-mini, or in metadata.model"
            raise InvalidInput("no model is named", hint=hint)
        limits, part = options.limits, dict[str, Any]()
        if options.choice is not None or limits.cases is not None:
            limits, part = choose_part(definition, suite, options)
        total = count_planned(suite, limits)
        if not total:
            raise InvalidInput("no case is selected", hint="raise --limit, or add evals")
        # A wrong name must not leave a run behind, so all are opened first.
        opened = [
            (suite, each, self.open_model(each, suite, options))
            for suite in suites
            for each in chosen
        ]
        group = make_id("g")
        runs = []
        for suite, name, model in opened:
            prompt = suite.definition.prompt
            record = RunRecord(
                id=make_id("r"),
                suite=definition.name,
                model=suite.redact(name),
                status="running",
                group=group,
                definition=definition.to_json(),
                definition_hash=definition.hash,
                epochs=options.limits.epochs or definition.epochs,
                created_at=time.time(),
                started_at=time.time(),
                score_formula=str(suite.formula),
                total=total,
                tags={
                    **definition.tags,
                    "folder": str(definition.folder.resolve()),
                    "limit": options.limits.cases,
                    "epochs": options.limits.epochs,
                    **part,
                    **options.labels,
                    **({} if prompt is None else {"prompt": prompt}),
                },
            )
            # Stored before the first call: a killed process leaves a run to resume.
            self.app.store.create_run(record)
            try:
                runs.append(self._evaluate(record, suite, (name, model), limits, watch, options))
            except KeyboardInterrupt as stopped:
                if left := len(opened) - len(runs) - 1:
                    stopped.add_note(f"{format_count(left, 'more run')} not started")
                raise
        return runs

    def rescore_run(
        self,
        run: str,
        *,
        formula: str | None = None,
        suite: FilledSuite | None = None,
        on_progress: Callable[[int, int | None], None] | None = None,
    ) -> tuple[Run, Run]:
        """A run as it is, and by another formula or suite. No model is called."""
        # Old counts are not needed if a suite counts again.
        before = self.app.load_run(run) if suite is None else self.app.find_run(run)
        return before, rescore(before, formula=formula, suite=suite, on_progress=on_progress)

    def save_as_new(self, run: Run) -> RunRecord:
        """Store a rescored run next to its original."""
        record = run.record
        tags = {**record.tags, "rescored_from": record.id}
        new = replace(record, id=make_id("r"), created_at=time.time(), group=None, tags=tags)
        self.app.store.create_run(new)
        with self.app.store.open_writer(new.id) as writer:
            for result in run.results:
                writer.put(result)
        return new

    def resume(self, run: str, options: RunOptions, watch: RunWatch | None) -> Run:
        """Asks again only what is missing or could not run; `latest` is one that can go on."""
        record = self.app.store.run(self._find_unfinished() if run == "latest" else run)
        if (door := record.tags.get("door")) is not None:
            message = (
                f"the run {record.id} came from {door}, and only runs of YAML suites can continue"
            )
            raise InvalidInput(message, hint="start it again")
        if not record.definition or record.tags.get(SENT_TAG):
            message = (
                f"the run {record.id} was sent here after it ended, and cannot be continued here"
            )
            raise InvalidInput(message, hint="continue it where it was started")
        by_rules = {} if self.rules is None else {"load": self.rules.load_scorer}
        folder = Path(record.tags.get("folder", "." if self.rules is None else NOWHERE))
        definition = load_stored(record.definition, folder=folder, **by_rules)
        if definition.hash != record.definition_hash:
            message = f"the datasets of the suite have changed since the run {record.id} began"
            raise InvalidInput(message, hint="put them back, or start a new run")
        refuse_unknown(definition, options.named, "--var")
        kept = record.tags
        limits = replace_fields(options.limits, epochs=kept.get("epochs"), cases=kept.get("limit"))
        options = replace_fields(options, limits=limits)
        suite = self.resolve_like(record, definition, options)
        if isinstance(kept.get("chosen"), dict):
            limits, _ = choose_part(definition, suite, options, kept["chosen"])
        # A name with a secret in it was stored redacted; the suite knows the real one.
        hidden = {suite.redact(each): each for each in suite.models}
        name = hidden.get(record.model, record.model)
        model = self.open_model(name, suite, options)
        self.app.store.claim_run(record.id)
        # Only now: before, another may have been adding to them.
        stored = self.app.store.counted_results(record.id)
        earlier = [result for result in stored if result.status != "error"]
        began = record.started_at or time.time()  # not yet, where it waited for a worker
        record = replace(record, status="running", error=None, started_at=began)
        return self._evaluate(record, suite, (name, model), limits, watch, options, earlier)

    def _find_unfinished(self) -> str:
        """The latest unfinished run without a worker."""
        kept = self.app.store.runs(limit=None)
        asked = [record for record in kept if not {"door", SENT_TAG} & record.tags.keys()]
        for place, record in enumerate(asked):  # the newest first
            # Errors of older runs are old news.
            errors = not place and record.status not in ("running", "completed")
            if errors or record.status in ("interrupted", "cancelled"):
                return record.id
        going = [record.id for record in kept if record.status == "running"]
        others = "only runs of YAML suites that started here can be continued, and none is stored"
        none = others if kept else "none is stored"
        ended = f"the latest, {asked[0].id}, is complete" if asked else none
        hint = f"{going[0]} is still running" if going else ended
        raise InvalidInput("there is no run to continue", hint=hint)

    def open_model(self, reference: str, suite: FilledSuite, options: RunOptions) -> Model:
        """Open a model for a suite without calling it."""
        return open_model(
            reference,
            folder=suite.definition.folder,
            pricing=suite.definition.pricing,
            record=options.record,
            cache=options.cache,
            redact=suite.redact,
            egress=self._egress,
        )

    def _evaluate(  # noqa: PLR0913, PLR0917 (all that a run goes on with)
        self,
        record: RunRecord,
        suite: FilledSuite,
        named: tuple[str, Model],
        limits: RunLimits,
        watch: RunWatch | None,
        options: RunOptions,
        earlier: Sequence[CaseResult] = (),
    ) -> Run:
        name, model = named
        stop = options.stop
        ongoing = OngoingRun(
            record,
            suite.formula,
            undefined=suite.definition.undefined,
            earlier=earlier,
            keeper=self.app.store,
            watch=watch,
        )
        done = {result.key for result in earlier}
        if options.engine is not None and record.total - len(done) > LEAST_CASES:
            self._ask_elsewhere(options.engine, ongoing, suite, name, limits, options, done)
            return self._make_run(ongoing)
        evaluation = SuiteEvaluation(
            suite,
            model,
            limits,
            done=done,
            spent=ongoing.tally.all.cost,
            judged=ongoing.tally.all.judges.total,
        )
        with ongoing:
            if stop is None:
                ongoing.ending = run_to_end(lambda: evaluation.run(ongoing.aadd))
            else:
                ongoing.ending = run_to_end(
                    lambda: stop.run_until_set(evaluation.run(ongoing.aadd))
                )
        return self._make_run(ongoing)

    def _ask_elsewhere(  # noqa: PLR0913, PLR0917 (all that a run goes on with)
        self,
        engine: EngineChoice,
        ongoing: OngoingRun,
        suite: FilledSuite,
        model: str,
        limits: RunLimits,
        options: RunOptions,
        done: Collection[tuple[str, int]],
    ) -> None:
        """Run all cases on the workers of an engine."""
        from tallymark.service.suite_blocks import CaseAsking, ask_on_engine  # noqa: PLC0415 (few do)

        definition = suite.definition
        known_vars, known_secrets = self._find_values(definition, options)
        work = CaseAsking(
            definition.to_json(),
            definition.hash,
            definition.folder.resolve(),
            definition.prompt,
            model,
            limits,
            {name: known_vars[name] for name in definition.used_vars if name in known_vars},
            {
                name: known_secrets[name]
                for name in definition.secret_names
                if name in known_secrets
            },
            options.judge,
            options.hidden,
        )
        with ongoing:
            ongoing.ending = ask_on_engine(engine, work, suite, ongoing, done)

    def _make_run(self, ongoing: OngoingRun) -> Run:
        record = ongoing.record
        if ongoing.results is not None:
            return ongoing.make_run(sort_by_suite(record, ongoing.results))
        from tallymark.store.stored_results import StoredResults  # noqa: PLC0415 (large runs)

        return ongoing.make_run(StoredResults(self.app.store, record, ongoing.keys))


def choose_part(
    definition: SuiteDefinition,
    suite: FilledSuite,
    options: RunOptions,
    kept: Mapping[str, Any] | None = None,
) -> tuple[RunLimits, dict[str, Any]]:
    """The limits with the selected cases, and the record of the selection for a resume."""
    from tallymark.suites.chosen_cases import (  # noqa: PLC0415 (most runs are of all)
        CaseChoice,
        choose_cases,
        restore_choice,
    )

    choice = restore_choice(kept) if kept is not None else options.choice or CaseChoice()
    limit = options.limits.cases
    keys, part = choose_cases(definition, choice, limit, suite.formula)
    limits = replace_fields(options.limits, chosen=keys)
    return limits, {"chosen": part} if choice or part["cases"] < part["of"] else {}
