"""`resolve`: fills in the templates of a suite, so that it can run.

Nothing here is stored. Cases of a dataset are made one at a time, so that their prompts are not all
in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.documents.source import Source
from tallymark.errors import InvalidInput
from tallymark.judging.judge_model import open_judge
from tallymark.models.model import McpServer, Message
from tallymark.scoring import Config, Expected, load_scorer
from tallymark.suites.checks.answer_under_check import Subject
from tallymark.suites.checks.check_definition import Checks, CheckSetting, CheckSpec
from tallymark.suites.checks.check_types import build_checks
from tallymark.suites.eval_entries import read_expected
from tallymark.suites.redaction import Redactor
from tallymark.suites.templates import TemplateValues, fill_templates, has_templates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tallymark.judging.judge_model import JudgeModel
    from tallymark.models.model import Answer, Request
    from tallymark.scoring import Scorer
    from tallymark.suites.checks.check_definition import CheckJudge
    from tallymark.suites.suite_definition import Case, Eval, SuiteDefinition, Turn
    from tallymark.traces import Trace

_NO_CHECKS = Checks()
_KEEP: Callable[[Any], Any] = lambda value: value  # noqa: E731 (one line says it)
_NOTHING_EXPECTED = Expected()


class FilledTurn(msgspec.Struct, frozen=True, gc=False):
    """Message of the user, fixed answer (if the suite has one), checks of the model's answer."""

    user: str
    assistant: str | None
    checks: Checks


class FilledCase(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A case ready to run."""

    key: str
    case: Case
    system_prompt: str | None
    turns: tuple[FilledTurn, ...]
    checks: Checks
    """Checks of the last answer."""
    expected: Expected
    metadata: dict[str, Any]
    config: Config
    """The time limit in seconds and the threshold, as scorers see them."""
    epochs: int

    @property
    def asked(self) -> list[FilledTurn]:
        """The turns that the model answers; most cases have one."""
        return [turn for turn in self.turns if turn.assistant is None]

    def messages(self, answers: Sequence[str] = ()) -> tuple[Message, ...] | None:
        """Next messages after these answers; None when the conversation is over."""
        if len(self.turns) == 1 and not answers and not self.system_prompt:  # as most
            return (Message("user", self.turns[0].user),)
        said = [Message("system", self.system_prompt)] if self.system_prompt else []
        given = iter(answers)
        for turn in self.turns:
            said.append(Message("user", turn.user))
            answer = next(given, None) if turn.assistant is None else turn.assistant
            if answer is None:
                return tuple(said)
            said.append(Message("assistant", answer))
        return None

    def subject(self, answer: Answer, request: Request, trace: Trace | None = None) -> Subject:
        """Input of checks."""
        return Subject(answer, request, self.expected, self.metadata, self.config, trace)


class FilledSuite:
    """A suite with its values. Made by `resolve`."""

    def __init__(
        self,
        definition: SuiteDefinition,
        values: TemplateValues | None,
        setting: CheckSetting,
        redact: Callable[[Any], Any] | None = None,
    ) -> None:
        """Most suites have no templates and no values: their texts stay as they are."""
        self.definition = definition
        self.redact = redact or _KEEP
        """Any data without secrets."""
        self._values = values
        fill = _KEEP if values is None else partial(fill_templates, lookup=values.suite)
        self.models: tuple[str, ...] = fill(definition.models)
        self.settings: dict[str, Any] = fill(definition.settings)
        self.mcp_servers = tuple(_make_server(fill(s)) for s in definition.mcp_servers)
        self.formula = definition.parsed or definition.parse_formula(fill(definition.formula))
        judge = fill(definition.judge) if setting.judge is None else setting.judge
        if isinstance(judge, str) and any(
            spec.kind == "llm_judge" for entry in definition.evals for spec in entry.all_checks()
        ):
            setting.open_judge(judge)  # what is wrong with it shows now, and not in the first case
        self._settings = {
            entry.number: replace(
                setting, judge=judge, redact=self.redact, threshold=entry.threshold
            )
            for entry in definition.evals
        }
        self._cases: dict[str, FilledCase] = {}
        # Built without knowing secrets, ready checks would show them.
        ready = () if redact else definition.ready_checks
        self._static = {id(specs): checks for specs, checks in ready}
        self._bases: dict[int, FilledCase] = {}

    def case(self, case: Case) -> FilledCase:
        """One case, its templates filled in; InvalidInput where a row makes a check invalid."""
        found = self._cases.get(case.key)
        if found is not None:
            return found
        base = self._bases.get(case.eval.number)
        if base is not None:
            return self._fill_prompt(case, base)
        found = self._fill_case(case)
        if case.eval.dataset is None:
            self._cases[case.key] = found
        elif _varies_in_prompt_only(case.eval, self.definition):
            self._bases[case.eval.number] = found
        return found

    def fill_input(self, case: Case) -> str:
        """The prompt of a case, even if its checks are invalid."""
        said = join_turns(case.eval.turns)
        return said if self._values is None else fill_templates(said, self._values.case(case))

    def _fill_prompt(self, case: Case, base: FilledCase) -> FilledCase:
        """A row of a dataset that shares with the others all but its prompt."""
        said = case.eval.turns[0].user
        if self._values is not None:
            said = fill_templates(said, self._values.case(case))
        turns = (FilledTurn(said, None, base.turns[0].checks),)
        return msgspec.structs.replace(base, key=case.key, case=case, turns=turns)

    def _fill_case(self, case: Case) -> FilledCase:
        entry, suite = case.eval, self.definition
        values = self._values
        fill = _KEEP if values is None else partial(fill_templates, lookup=values.case(case))
        system = suite.system_prompt if entry.system_prompt is None else entry.system_prompt
        timeout = suite.timeout if entry.timeout is None else entry.timeout
        threshold = suite.threshold if entry.threshold is None else entry.threshold
        expected = _NOTHING_EXPECTED
        if entry.expected is not None:
            expected = read_expected(fill(entry.expected))
        return FilledCase(
            key=case.key,
            case=case,
            system_prompt=fill(system) or None,
            turns=tuple(
                FilledTurn(
                    fill(turn.user),
                    fill(turn.assistant),
                    self._build_checks(turn.checks, entry, fill),
                )
                for turn in entry.turns
            ),
            checks=self._build_checks(entry.checks, entry, fill),
            expected=expected,
            metadata=fill(entry.metadata),
            config=Config(timeout=timeout, threshold=threshold),
            epochs=suite.epochs if entry.epochs is None else entry.epochs,
        )

    def _build_checks(
        self, specs: tuple[CheckSpec, ...], entry: Eval, fill: Callable[[Any], Any]
    ) -> Checks:
        """Checks without templates are built once for all rows of a dataset."""
        if not specs:
            return _NO_CHECKS
        # By identity: the definition holds these tuples for as long as we are here.
        ready = self._static.get(id(specs))
        if ready is None:
            filled = [_fill_spec(spec, fill) for spec in specs]
            ready = build_checks(filled, self._settings[entry.number])
            if all(new is old for new, old in zip(filled, specs, strict=True)):
                self._static[id(specs)] = ready
        return ready


def join_turns(turns: Sequence[FilledTurn | Turn]) -> str:
    """The user's messages of all turns as one text, separated by empty lines."""
    return "\n\n".join(turn.user for turn in turns)


def _varies_in_prompt_only(entry: Eval, suite: SuiteDefinition) -> bool:
    """Is the prompt of its one turn the only text with templates?"""
    system = suite.system_prompt if entry.system_prompt is None else entry.system_prompt
    fixed = [system, entry.expected, entry.metadata, *(s.config for s in entry.all_checks())]
    return (
        len(entry.turns) == 1
        and entry.turns[0].assistant is None
        and not any(map(has_templates, fixed))
    )


def resolve(  # noqa: PLR0913 (where values and judges come from, by keyword)
    definition: SuiteDefinition,
    *,
    vars: Mapping[str, Any] | None = None,  # noqa: A002 (the word of the format)
    secrets: Mapping[str, str] | None = None,
    judge: CheckJudge | None = None,
    open_judge: Callable[..., JudgeModel] = open_judge,
    load: Callable[..., Scorer] = load_scorer,
    recorded: bool = False,
    hidden: Mapping[str, str] | None = None,
) -> FilledSuite:
    """The suite with these values; InvalidInput names all missing ones before anything runs.

    The mappings may contain more than the suite uses, such as the whole environment. `judge` is for
    `llm_judge` checks: a model's reference, or a function from prompt to answer. Judges are opened
    here, each once, by `open_judge`. A `recorded` suite may not use secrets. `hidden` are further
    secrets, which the suite does not use: they are removed from all output.
    """
    if definition.prompts and definition.prompt is None:
        names = ", ".join(repr(each.name) for each in definition.prompts)
        hint = "ask with one of them, or give each eval a prompt of its own"
        raise InvalidInput(f"the suite has several prompts: {names}", hint=hint)
    values = TemplateValues(definition, vars or {}, secrets or {}) if definition.uses else None
    if values is not None and (problems := list(values.problems())):
        raise InvalidInput(problems)
    reach: dict[str, Any] = {"folder": definition.folder}
    redact = None
    if secret := {**(hidden or {}), **({} if values is None else values.secrets)}:
        redact = reach["redact"] = Redactor(secret).redact
    own = values if recorded and values is not None and values.secrets else None
    if own is not None and (asked := _find_asked_secrets(definition, own)):
        raise InvalidInput(
            f"recorded answers would hold the secrets of the suite: {', '.join(asked)}",
            hint="leave out --record, or use variables instead",
        )
    setting = CheckSetting(
        folder=definition.folder,
        suite_threshold=definition.threshold,
        judge=judge,
        open_judge=cache(partial(open_judge, **reach)),
        load=_remember_scorers(load),
    )
    suite = FilledSuite(definition, values, setting, redact)
    tried: set[int] = set()
    for case in definition.cases:
        # Build an eval's checks now, so that mistakes show before any model call.
        if case.eval.number not in tried:
            tried.add(case.eval.number)
            try:
                suite.case(case)
            except InvalidInput as error:
                message = suite.redact(f"eval {case.eval.key}: {error}")
                place = Source("", definition.source).place(case.eval.line)
                raise InvalidInput(message, place=place) from None
    return suite


def _find_asked_secrets(definition: SuiteDefinition, values: TemplateValues) -> list[str]:
    """Secrets in prompts of the model or its judge."""
    redactors = {name: Redactor({name: value}) for name, value in values.secrets.items()}
    found: set[str] = set()
    for case in definition.cases:
        entry = case.eval
        told: list[Any] = [definition.system_prompt, entry.system_prompt]
        told += [(turn.user, turn.assistant) for turn in entry.turns]
        if judged := [spec.config for spec in entry.all_checks() if spec.kind == "llm_judge"]:
            told += [*judged, entry.expected, entry.metadata]
        asked = fill_templates(told, values.case(case))
        found |= {name for name, each in redactors.items() if each.redact(asked) != asked}
    return sorted(found)


def _fill_spec(spec: CheckSpec, fill: Callable[[Any], Any]) -> CheckSpec:
    """The check with its templates filled in; the very same one when it has none."""
    if spec.parts:
        parts = tuple(_fill_spec(part, fill) for part in spec.parts)
        same = all(new is old for new, old in zip(parts, spec.parts, strict=True))
        return spec if same else msgspec.structs.replace(spec, parts=parts)
    if not has_templates(spec.config):
        return spec
    return msgspec.structs.replace(spec, config=fill(spec.config))


def _make_server(given: dict[str, Any]) -> McpServer:
    headers = dict(given.get("headers", {}))
    if "authorization_token" in given:
        headers["Authorization"] = f"Bearer {given['authorization_token']}"
    return McpServer(
        url=given.get("url"),
        headers=headers,
        command=given.get("command"),
        arguments=tuple(given.get("args", ())),
        environment=given.get("env", {}),
        name=given.get("name"),
    )


def _remember_scorers(load: Callable[..., Scorer], most: int = 1000) -> Callable[..., Scorer]:
    """Load each scorer once for each set of options: a judge keeps its connections."""
    known: dict[str, Scorer] = {}

    def load_once(reference: str, /, **options: Any) -> Scorer:
        key = f"{reference} {sorted(options.items())!r}"
        if key not in known:
            if len(known) >= most:  # each row of a dataset may bring options of its own
                known.clear()
            known[key] = load(reference, **options)
        return known[key]

    return load_once
