"""`load_suite`: from a file to a definition, or to all mistakes in it; and what is stored."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tallymark.documents.reader import MISSING, Reader, open_document
from tallymark.documents.source import Source
from tallymark.documents.yaml_parser import MappingNode, Node, ScalarNode, SequenceNode, make_nodes
from tallymark.errors import FormulaError, InvalidInput, Problem, WorkFailed
from tallymark.formula import MORE_METRICS, RUN_METRICS, Formula, Names, eval_name_problems
from tallymark.models.token_prices import Pricing
from tallymark.scoring import load_scorer
from tallymark.suites.checks.check_definition import Check, Checks, CheckSetting, CheckSpec
from tallymark.suites.checks.check_types import CHECK_TYPES, find_value_names
from tallymark.suites.checks.scorer_check import name_scorer
from tallymark.suites.eval_entries import find_missing_values, read_evals
from tallymark.suites.prompt_entries import read_prompts
from tallymark.suites.suite_definition import (
    DEFAULT_FORMULA,
    Eval,
    Prompt,
    SuiteDefinition,
    TemplateUse,
    formula_names,
)
from tallymark.suites.suite_format import SUITE
from tallymark.suites.templates import find_column, find_templates, has_templates
from tallymark.text import list_some

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tallymark.formula import Finding
    from tallymark.scoring import Scorer


_OTHER_TOOLS: tuple[set[str], ...] = (
    {"prompts", "providers"},
    {"prompts", "targets"},
    {"prompts", "tests"},
    {"eval", "status", "version"},
)
"""Keys by which a promptfoo configuration and an Inspect log are known."""


def load_suite(path: Path | str, *, load: Callable[..., Scorer] = load_scorer) -> SuiteDefinition:
    """The suite in a YAML file; InvalidInput carries every mistake with its place.

    `load` finds the scorers that checks name; a server passes one that imports no files.
    """
    return SuiteLoader(open_suite(Path(path)), load).definition(Path(path).stem)


def open_suite(path: Path) -> Reader:
    """A reader of the file; InvalidInput names the command for a file of another tool."""
    if path.suffix in (".jsonl", ".ndjson") and path.is_file():
        records = shlex.quote(str(path))
        hint = f"if it has traces, score them: tally score {records} --scorer no_errors"
        raise InvalidInput(f"{path} has a record on each line; a suite is a YAML file", hint=hint)
    packed = path.suffix == ".eval" and path.is_file()
    reader = None if packed else open_document(path, "suite")
    keys = reader.root.entries.keys() if reader and isinstance(reader.root, MappingNode) else set()
    if reader is not None and ("evals" in keys or not any(each <= keys for each in _OTHER_TOOLS)):
        return reader
    what = "a promptfoo configuration" if "prompts" in keys else "an Inspect log"
    hint = f"make a suite of it with: tally import {shlex.quote(str(path))}"
    raise InvalidInput(f"{path} is {what}, not a suite", hint=hint)


def load_source(
    source: Source, *, name: str = "suite", load: Callable[..., Scorer] = load_scorer
) -> SuiteDefinition:
    """Read a suite from text; `name` is its default name."""
    return SuiteLoader(open_document(source, "suite"), load).definition(name)


def load_stored(
    text: str, *, folder: Path | None = None, load: Callable[..., Scorer] = load_scorer
) -> SuiteDefinition:
    """The suite that `SuiteDefinition.to_json` wrote. Datasets are read again: compare `hash`."""
    try:
        root = make_nodes(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"the stored suite cannot be read: {error}") from None
    source = Source(text, "the stored suite", folder or Path())
    return SuiteLoader(Reader(source, root), load).definition("suite")


@dataclass
class SuiteLoader:
    """From a document that is open to a suite, or to all mistakes in it."""

    reader: Reader
    load: Callable[..., Scorer]
    items: list[Node] = field(default_factory=list)
    """The nodes of the evals."""
    has_templates: Callable[[Any], bool] = lambda _: False
    """Only a suite with templates is searched for them."""
    ready: list[tuple[tuple[CheckSpec, ...], Checks]] = field(default_factory=list)
    prompts: tuple[Prompt, ...] = ()

    @property
    def setting(self) -> CheckSetting:
        """For checks that are only looked at."""
        return CheckSetting(folder=self.reader.source.folder, load=self.load, dry=True)

    def definition(self, name: str) -> SuiteDefinition:
        """Read a suite; `name` is its default name."""
        values = SUITE.read(self.reader.root, self.reader)
        if values is MISSING:
            self.reader.check()
        assert isinstance(self.reader.root, MappingNode)  # noqa: S101 (the shapes have read it)
        if isinstance(listed := self.reader.root.entries["evals"][1], SequenceNode):
            self.items = listed.items
        metadata = {"name": name, **values.get("metadata", {})}
        evals = tuple(read_evals(values["evals"], self.items, self.reader))
        if "prompts" in values:
            self.read_prompts(values["prompts"], evals)
            # As texts: a resumed run uses the original content, even if files have changed.
            values["prompts"] = [_write_prompt(each) for each in self.prompts]
        score = values.get("score", {})
        score = {"formula": score} if isinstance(score, str) else score
        source = self.reader.source
        templates = "{{" in source.text or any("{{" in each.text for each in self.prompts)
        uses = tuple(self.uses()) if templates else ()
        if uses:
            self.has_templates = has_templates
            self.check_rows(evals, uses)
        if wrong := eval_name_problems([each.name for each in evals]):
            self.report_names(evals, wrong)
        evals = tuple(map(self.name_scorers, evals))
        for each in evals:
            self.check_checks(each)
        parsed = self.check_formula(score.get("formula", DEFAULT_FORMULA), evals)
        self.reader.check()
        stored = make_document({**values, "metadata": metadata})
        hashed = [msgspec.json.encode(stored, order="sorted")]
        hashed += [each.dataset.digest.encode() for each in evals if each.dataset is not None]
        return SuiteDefinition(
            evals=evals,
            prompts=self.prompts,
            uses=uses,
            parsed=parsed,
            ready_checks=tuple(self.ready),
            document=stored,
            hash=hashlib.sha256(b"\0".join(hashed)).hexdigest(),
            source=source.name,
            warnings=self.warnings(evals),
            folder=source.folder,
            **score,
            **_read_metadata(metadata),
        )

    def uses(self) -> Iterator[TemplateUse]:
        """Every template, with the eval whose variables it sees."""
        outside = [self.reader.find("metadata"), self.reader.find("score")]
        for number, item in enumerate(self.items, start=1):
            own = item.entries if isinstance(item, MappingNode) else {}
            # An eval's own variables are filled in from the suite's, never from each other.
            outside += [value for key, (_, value) in own.items() if key == "vars"]
            inside = [value for key, (_, value) in own.items() if key != "vars"]
            yield from self.find_uses(inside, number)
            if self.prompts and not own.keys() & {"prompt", "turns"}:
                yield from _find_uses_of_prompts(self.prompts, number, item)
        yield from self.find_uses(outside, None)

    def find_uses(self, nodes: list[Any], number: int | None) -> Iterator[TemplateUse]:
        """Every template in these nodes."""
        stack = nodes[::-1]
        while stack:
            node = stack.pop()
            if isinstance(node, MappingNode):
                stack += [value for _, value in reversed(node.entries.values())]
            elif isinstance(node, SequenceNode):
                stack += node.items[::-1]
            elif isinstance(node, ScalarNode):
                for kind, name in find_templates(node.text):
                    line = self.reader.source.line(node.line)
                    # A mistake on a later line of a text is reported at the start of the text.
                    column = find_column(line, name, node.column)
                    yield TemplateUse(kind, name, number, node.line, column, text=line or None)

    def read_prompts(self, values: Any, evals: tuple[Eval, ...]) -> None:
        node = self.reader.find("prompts")
        assert node is not None  # noqa: S101 (the shapes have read it)
        self.prompts = read_prompts(values, node, self.reader)
        if evals and all(each.turns for each in evals):
            hint = "leave out the 'prompt' of those that they are for"
            message = "prompts: every eval has a prompt of its own, so these are never used"
            self.reader.wrong(node, message, hint)

    def check_rows(self, evals: tuple[Eval, ...], uses: tuple[TemplateUse, ...]) -> None:
        for entry in evals:
            if entry.dataset is not None:
                names = {use.name for use in uses if use.eval == entry.number}
                for message in find_missing_values(entry, names):
                    self.reader.wrong(self.items[entry.number - 1], message)

    def report_names(self, evals: tuple[Eval, ...], wrong: list[tuple[int, Problem]]) -> None:
        for index, problem in wrong:
            item = self.items[evals[index].number - 1]
            at = item.get("name") if isinstance(item, MappingNode) else None
            self.reader.wrong(at or item, problem.message, problem.hint)

    def name_scorers(self, entry: Eval) -> Eval:
        """The eval with the names of its scorers, including those declared in their code."""
        if not any(spec.kind == "scorer" for spec in entry.all_checks()):
            return entry

        def name(specs: tuple[CheckSpec, ...]) -> tuple[CheckSpec, ...]:
            return tuple(
                replace(
                    spec,
                    config=name_scorer(spec.config, self.setting)
                    if spec.kind == "scorer"
                    else spec.config,
                    parts=name(spec.parts),
                )
                for spec in specs
            )

        turns = tuple(replace(turn, checks=name(turn.checks)) for turn in entry.turns)
        return replace(entry, checks=name(entry.checks), turns=turns)

    def check_checks(self, entry: Eval) -> None:
        """Build what needs no template, to see whether that can be done; keep what serves any run.

        So such checks are built once, however often the suite runs.
        """
        built: dict[int, Check] = {}
        for spec in entry.all_checks():
            if spec.kind not in ("or", "all") and not self.has_templates(spec.config):
                try:
                    check = CHECK_TYPES[spec.kind].make_check(spec.config, self.setting)
                except InvalidInput as error:
                    for problem in error.problems:
                        self.wrong_check(entry, spec, problem)
                except WorkFailed:
                    pass  # a key or a service is missing, which matters when the suite runs
                else:
                    if CHECK_TYPES[spec.kind].settled:
                        built[id(spec)] = check
        for specs in (entry.checks, *(turn.checks for turn in entry.turns)):
            if specs and all(id(spec) in built for spec in specs):
                self.ready.append((specs, Checks.of(built[id(spec)] for spec in specs)))

    def warnings(self, evals: tuple[Eval, ...]) -> tuple[Finding, ...]:
        """Warnings about missing quotes and about cases whose result means nothing."""
        told = [("quotes", each) for each in self.reader.warnings]
        kinds = [(each, {spec.kind for spec in each.all_checks()}) for each in evals]
        todo = [each for each, found in kinds if "todo" in found]
        for code, what, some in (
            ("no-checks", "check nothing and always pass", [e for e, found in kinds if not found]),
            ("todo", "cannot pass until a check is written in place of their `todo`", todo),
        ):
            if some:
                count = f"{_count_cases(some):,} of {_count_cases(evals):,}"
                listed = list_some([each.key for each in some])
                place = self.reader.source.place(some[0].line, 1)
                told.append((code, Problem(f"cases that {what}: {count} ({listed})", place)))
        if not told:
            return ()
        from tallymark.formula import Finding  # noqa: PLC0415 (most suites need none)

        return tuple(
            Finding(code, "warning", each.message, each.place, each.hint) for code, each in told
        )

    def wrong_check(self, entry: Eval, spec: CheckSpec, problem: Problem) -> None:
        message = f"evals, #{entry.number}, {spec.kind}: {problem.message}"
        place = self.reader.source.place(spec.line, spec.column)
        self.reader.report(Problem(message, place, problem.hint))

    def check_formula(self, text: str, evals: tuple[Eval, ...]) -> Formula | None:
        """The formula; None where it is wrong, and where only a run knows it."""
        valued = {kind for kind, each in CHECK_TYPES.items() if each.value_names is not None}
        scorers = [(e, spec) for e in evals for spec in e.all_checks() if spec.kind in valued]
        names = formula_names(
            (each.name for each in evals if each.name),
            self.check_scorer_names(evals, scorers) if scorers else (),
        )
        if self.has_templates(text):
            if any(kind == "secret" for kind, _ in find_templates(text)):
                place = self.reader.place_within(None, "score", "formula")
                message = "score, formula: a formula is shown, so it has no secrets"
                self.reader.report(Problem(message, place))
            return None
        try:
            return Formula.parse(text, names)
        except FormulaError as error:
            self.reader.report_within(error, "score", "formula")
            return None

    def check_scorer_names(
        self, evals: tuple[Eval, ...], specs: list[tuple[Eval, CheckSpec]]
    ) -> list[str]:
        """Refuse scorers with the names of evals or metrics."""
        known = formula_names((each.name for each in evals if each.name), ())
        scorers: dict[str, None] = {}
        named = ((entry, spec, name) for entry, spec in specs for name in _find_names(spec))
        for entry, spec, name in named:
            if name in scorers:
                continue
            scorers[name] = None
            if name in known and known[name] is not MORE_METRICS.get(name):
                what = "a run-wide metric" if name in RUN_METRICS else "an eval, or made by one"
                message = f"the scorer's name '{name}' is also the name of {what}"
                hint = "give it another: {use: ..., name: ...}"
                self.wrong_check(entry, spec, Problem(message, hint=hint))
            try:
                Names.of([name])
            except FormulaError as error:
                self.wrong_check(entry, spec, error.problems[0])
        return list(scorers)


def _find_names(spec: CheckSpec) -> tuple[str, ...]:
    """The names of a scorer's values; a reference that cannot be read is reported elsewhere."""
    try:
        return find_value_names(spec)
    except InvalidInput:
        return ()


def _count_cases(evals: Iterable[Eval]) -> int:
    return sum(1 if each.dataset is None else len(each.dataset.rows) for each in evals)


def _find_uses_of_prompts(
    prompts: Iterable[Prompt], number: int, item: Node
) -> Iterator[TemplateUse]:
    """Variables that an eval needs for the suite's prompts."""
    own_system = isinstance(item, MappingNode) and "system_prompt" in item.entries
    for prompt in prompts:
        system = "" if own_system else prompt.system_prompt or ""
        for kind, name in find_templates(f"{prompt.text}\n{system}"):
            yield TemplateUse(kind, name, number, item.line, item.column, prompt.name)


def _write_prompt(prompt: Prompt) -> dict[str, str]:
    system = {} if prompt.system_prompt is None else {"system_prompt": prompt.system_prompt}
    return {"name": prompt.name, "prompt": prompt.text, **system}


def _read_metadata(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a definition that `metadata` holds."""
    plural = {"model": "models", "mcp_server": "mcp_servers"}
    fields: dict[str, Any] = {}
    for key, value in given.items():
        if key in plural:
            fields[plural[key]] = tuple(value) if isinstance(value, list) else (value,)
        elif key == "pricing":
            fields[key] = Pricing.of(value)
        elif key == "settings":
            fields[key] = {**value, **value.get("extra", {})}
            fields[key].pop("extra", None)
        elif key == "tags":
            fields[key] = dict.fromkeys(value, True) if isinstance(value, list) else value
        else:
            fields[key] = value
    return fields


def make_document(value: Any) -> Any:
    """A suite as plain data again, which is stored: without comments and `x-` keys.

    What the shapes read, with checks as a file writes them.
    """
    if isinstance(value, dict):
        return {key: make_document(each) for key, each in value.items()}
    if isinstance(value, list):
        return [make_document(each) for each in value]
    return _write_check([value]) if isinstance(value, CheckSpec) else value


def _write_check(specs: Iterable[CheckSpec]) -> dict[str, Any]:
    """One mapping; checks of the same kind share a list."""
    written: dict[str, list[Any]] = {}
    for spec in specs:
        config = (
            [_write_alternative(part) for part in spec.parts] if spec.kind == "or" else spec.config
        )
        written.setdefault(spec.kind, []).append(config)
    return {kind: configs[0] if len(configs) == 1 else configs for kind, configs in written.items()}


def _write_alternative(part: CheckSpec) -> dict[str, Any]:
    return _write_check(part.parts if part.kind == "all" else [part])
