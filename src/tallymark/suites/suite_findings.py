"""`validate`: findings in a valid suite that are probably mistakes, before any model call."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tallymark.documents.reader import Reader
from tallymark.documents.yaml_parser import MappingNode, Node, ScalarNode, SequenceNode
from tallymark.errors import InvalidInput, ModelError, Problem, WorkFailed, suggest
from tallymark.formula import Finding
from tallymark.judging.judge_model import open_judge
from tallymark.scoring import load_scorer
from tallymark.suites.checks.check_definition import CheckSetting
from tallymark.suites.checks.check_types import CHECK_TYPES, build_check
from tallymark.suites.checks.llm_judge import answer_nothing
from tallymark.suites.suite_file import SuiteLoader, open_suite
from tallymark.suites.templates import find_near_misses, find_unfilled, has_templates
from tallymark.suites.unknown_prices import HINT, find_unknown_prices
from tallymark.text import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallymark.errors import Place
    from tallymark.scoring import Scorer
    from tallymark.suites.checks.check_definition import CheckSpec
    from tallymark.suites.suite_definition import Eval, SuiteDefinition

_CUT_OFF = re.compile(r"\s+(#[^\s#].*)")


def validate(
    path: Path | str, *, load: Callable[..., Scorer] = load_scorer
) -> tuple[SuiteDefinition, list[Finding]]:
    """The suite, and what its author should know of it, in the order of the file.

    InvalidInput carries every mistake, as from `load_suite`, or every judge that is wrongly named.
    Keys, packages and services do not matter: a suite is valid or not on every machine.
    """
    reader = open_suite(Path(path))
    definition = SuiteLoader(reader, load).definition(Path(path).stem)
    findings = _SuiteFindings(definition, reader)
    if wrong := list(findings.wrong_judges(load)):
        raise InvalidInput(wrong)
    found = list(findings.all())
    return definition, sorted(found, key=lambda each: (each.place and each.place.line) or 0)


class _SuiteFindings:
    def __init__(self, definition: SuiteDefinition, reader: Reader) -> None:
        self.definition = definition
        self.reader = reader
        self.source = reader.source

    def all(self) -> Iterator[Finding]:
        yield from self.definition.warnings
        yield from self.formula()
        yield from self.same_prompts()
        yield from self.texts()
        yield from self.bare_names()
        yield from self.metadata()
        yield from self.prompts()
        yield from self.judge()
        for entry in self.definition.evals:
            yield from self.checks(entry)

    def warning(
        self, code: str, message: str, line: int | None, hint: str | None = None
    ) -> Finding:
        return Finding(code, "warning", message, self.source.place(line or 0, 1), hint)

    def formula(self) -> Iterator[Finding]:
        """Findings of the formula's lint, with their place in the file."""
        if self.reader.find("score") is not None and not has_templates(self.definition.formula):
            for finding in self.definition.parse_formula().lint().findings:
                place = self.reader.place_within(finding.place, "score", "formula")
                yield replace(finding, place=place)

    def same_prompts(self) -> Iterator[Finding]:
        seen: dict[object, Eval] = {}
        for entry in self.definition.evals:
            asked = (*((turn.user, turn.assistant) for turn in entry.turns), entry.system_prompt)
            if entry.dataset is None and not entry.vars:
                first = seen.setdefault(asked, entry)
                if first is not entry:
                    message = f"{entry.key} asks the same as {first.key} on line {first.line}"
                    yield self.warning("same-prompt", message, entry.line, "see `epochs`")

    def texts(self) -> Iterator[Finding]:
        """Text that is not sent as its author sees it."""
        for scalar in _walk_scalars(self.reader.root):
            place = self.source.place(scalar.line, scalar.column, scalar.length)
            for nearly in find_near_misses(scalar.text):
                message = f"{nearly} is not a template, and is sent unchanged"
                hint = "write {{var('name')}} or {{secret('name')}}"
                yield Finding("template", "warning", message, place, hint)
            rest = self.source.line(scalar.end_line)[scalar.end_column - 1 :]
            if not scalar.style and (comment := _CUT_OFF.match(rest)) is not None:
                message = f"the text ends here: YAML takes {comment[1][:40]!r} for a comment"
                yield Finding("comment", "warning", message, place, "put the text in quotes")

    def bare_names(self) -> Iterator[Finding]:
        """Notes on each `{{name}}`."""
        for each in find_unfilled(self.definition, ()):
            yield Finding("template", "warning", each.message, each.place, each.hint)
        told = set[str]()
        for use in self.definition.uses:
            if use.kind == "bare" and use.name not in told and self.definition.has_value(use):
                told.add(use.name)
                message = f"{{{{{use.name}}}}} is the variable '{use.name}'"
                place = self.source.place(use.line, use.column)
                yield Finding("template", "note", message, place)

    def metadata(self) -> Iterator[Finding]:
        suite = self.definition
        if suite.pricing is not None and len(suite.models) > 1:
            message = f"one pricing is given for {len(suite.models)} models"
            yield self.warning("pricing", message, self.reader.place("metadata", "pricing").line)
        for message in find_unknown_prices(suite, suite.models):
            line = self.reader.place("metadata", "model").line
            yield self.warning("price", message, line, HINT)
        used = {use.name for use in suite.uses}
        for name in suite.vars:
            if name not in used:
                line = self.reader.place("metadata", "vars", name).line
                yield self.warning("unused", f"the variable '{name}' is never used", line)

    def prompts(self) -> Iterator[Finding]:
        """Prompts without variables, and variables without a value in an eval."""
        suite, told = self.definition, set[tuple[int | None, str]]()
        asked = [each for each in suite.evals if not each.turns]
        for prompt in suite.prompts:
            # Evals may differ only in their system prompt.
            if len(asked) > 1 and not has_templates([prompt.text, prompt.system_prompt or ""]):
                message = f"the prompt '{prompt.name}' asks every eval the same"
                line = self.reader.place("prompts", prompt.name).line
                yield self.warning("same-prompt", message, line, "use {{var('name')}} in it")
        for use in suite.uses:
            if use.prompt is None or use.kind != "var" or suite.has_value(use):
                continue
            if (use.eval, use.name) not in told:
                told.add((use.eval, use.name))
                owner = suite.evals[(use.eval or 1) - 1]
                near = suggest(use.name, suite.known_vars(use.eval))
                hint = f"did you mean '{near}'?" if near else "write it under `vars`, or give --var"
                message = f"{owner.key} has no '{use.name}', which the prompt '{use.prompt}' uses"
                yield self.warning("prompt-value", message, use.line, hint)

    def judge(self) -> Iterator[Finding]:
        if self.definition.judge is None:
            specs = [spec for entry in self.definition.evals for spec in entry.all_checks()]
            judged = [each for each in specs if each.kind == "llm_judge" and not _names_judge(each)]
            if judged:
                count = format_count(len(judged), "llm_judge check")
                message = f"no model is named to judge {count}"
                hint = "write metadata.judge, or give --judge when the suite runs"
                yield self.warning("judge", message, judged[0].line, hint)

    def checks(self, entry: Eval) -> Iterator[Finding]:
        specs = list(entry.all_checks())
        for spec in specs:
            if spec.kind in CHECK_TYPES and not has_templates(spec.config):
                for code, message in CHECK_TYPES[spec.kind].notices(spec.config):
                    place = self.source.place(spec.line, spec.column)
                    yield Finding(code, "note" if code == "regex" else "warning", message, place)
        yield from self.token_limits(entry)

    def wrong_judges(self, load: Callable[..., Scorer]) -> Iterator[Problem]:
        """Mistakes that would end a run before its first case, when templates are filled in."""
        folder, judge = self.definition.folder, self.definition.judge
        if judge is not None and not has_templates(judge):
            place = replace(self.reader.place("metadata", "judge"), column=None)
            yield from _explain_refusal(
                lambda: open_judge(judge, folder=folder), "metadata, judge", place
            )
        setting = CheckSetting(
            folder=folder,
            judge=answer_nothing,
            open_judge=partial(open_judge, folder=folder),
            load=load,
        )
        for entry in self.definition.evals:
            for spec in entry.all_checks():
                if spec.kind in ("llm_judge", "scorer") and not has_templates(spec.config):
                    place = self.source.place(spec.line, spec.column)
                    where = f"evals, #{entry.number}, {spec.kind}"
                    yield from _explain_refusal(partial(build_check, spec, setting), where, place)

    def token_limits(self, entry: Eval) -> Iterator[Finding]:
        low = max((s.config for s in entry.checks if s.kind == "min_tokens"), default=0)
        high = min((s.config for s in entry.checks if s.kind == "max_tokens"), default=low)
        if low > high:
            message = f"{entry.key} can never pass: min_tokens {low} is above max_tokens {high}"
            yield self.warning("never", message, entry.line)


def _explain_refusal(
    work: Callable[[], object], where: str, place: Place | None
) -> Iterator[Problem]:
    try:
        work()
    except InvalidInput as error:
        if not _is_of_machine(error):
            for problem in error.problems:
                yield Problem(f"{where}: {problem.message}", place, problem.hint)
    except WorkFailed:
        pass  # a service is missing, which matters when the suite runs


def _is_of_machine(error: BaseException | None) -> bool:
    """Is only a key or a package missing, which matters when the suite runs?"""
    return error is not None and (isinstance(error, ModelError) or _is_of_machine(error.__cause__))


def _names_judge(spec: CheckSpec) -> bool:
    return isinstance(spec.config, dict) and "model" in spec.config


def _walk_scalars(root: Node) -> Iterator[ScalarNode]:
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, MappingNode):
            stack += [value for _, value in node.entries.values()]
        elif isinstance(node, SequenceNode):
            stack += node.items
        elif isinstance(node, ScalarNode):
            yield node
