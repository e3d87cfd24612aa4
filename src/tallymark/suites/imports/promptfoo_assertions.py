"""Converts promptfoo's assertions to checks with the same meaning.

If no check has exactly the same meaning, a regular expression does. Judges and embeddings differ
from promptfoo's: such checks are imported with a note.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from tallymark.errors import InvalidInput
from tallymark.scoring import load_scorer
from tallymark.suites.imports import text_patterns as patterns
from tallymark.suites.imports.imported_suite import Check, ImportedSuite, NotCarried, merge_checks
from tallymark.suites.imports.promptfoo_templates import Render, write_as_javascript
from tallymark.traces.lenient_json import as_mapping

_MOST_COMBINED = 8
_OTHER_JUDGE = "your own judge (metadata.judge) may find otherwise"
_CSV_ASSERTION = re.compile(r"(not-)?([a-z][a-z-]*)(?:\((\d+(?:\.\d+)?)\))?(?::([\s\S]*))?")
_OTHER_KINDS = (
    *("answer-relevance", "bleu", "classifier", "contains-html", "contains-json", "contains-sql"),
    *("contains-xml", "context-faithfulness", "context-recall", "context-relevance", "factuality"),
    *("finish-reason", "g-eval", "gleu", "guardrails", "is-html", "is-refusal", "is-sql", "is-xml"),
    *("is-valid-function-call", "is-valid-openai-function-call", "is-valid-openai-tools-call"),
    *(
        "javascript",
        "meteor",
        "model-graded-factuality",
        "moderation",
        "perplexity",
        "pi",
        "python",
    ),
    *(
        "perplexity-score",
        "rouge-n",
        "ruby",
        "search-rubric",
        "select-best",
        "webhook",
        "word-count",
    ),
)
"""Assertions without an equivalent check."""
_KEYS = (
    *("type", "value", "threshold", "weight", "metric", "provider", "rubricPrompt"),
    *("description", "reason"),
)
_KEYS_OF_SET = ("type", "assert", "threshold", "weight", "metric", "description")
_LISTS = ("contains-all", "contains-any", "icontains-all", "icontains-any")


@dataclass(frozen=True)
class TestContext:
    """Context for reading the assertions of one test."""

    render: Render
    made: ImportedSuite
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of the test and of the default test."""
    carry_judge: Callable[[Any], str | None] = lambda _: None
    """From a provider to the model that judges; None for the judge of the suite."""

    def carry(self, given: list[Any], threshold: Any) -> list[Check]:
        """The checks of a test; with a threshold, those that are part of the weighted score."""
        if not given:
            return []
        if not isinstance(threshold, int | float) or isinstance(threshold, bool):
            return [check for each in given for check in self._carry_or_tell(each)]
        # What weighs nothing cannot change the verdict, whether there is a check like it or not.
        weighed = [each for each in given if not _weighs_nothing(each)]
        try:
            parts = [(self._carry_one(each), _weigh(each)) for each in weighed]
            return _combine(parts, float(threshold))
        except NotCarried as why:
            what = f"the assertions under the threshold {threshold}"
            return self.made.leave_out_check(given, what, why)

    def _carry_or_tell(self, assertion: Any) -> list[Check]:
        kind = assertion.get("type") if isinstance(assertion, dict) else assertion
        if _weighs_nothing(assertion):
            self.made.leave_out(assertion, f"the assertion {kind} of weight 0: it cannot fail")
            return []
        if as_mapping(assertion).get("weight", 1) != 1:
            why = "without a threshold they change no verdict"
            self.made.leave_out(None, f"the weights of assertions: {why}")
        try:
            return self._carry_one(assertion)
        except NotCarried as why:
            return self.made.leave_out_check(assertion, f"the assertion {kind}", why)

    def _carry_one(self, assertion: Any) -> list[Check]:
        if not isinstance(assertion, dict) or not isinstance(assertion.get("type"), str):
            raise NotCarried("it has no type")
        if "metric" in assertion:
            why = "they change no verdict"
            self.made.leave_out(None, f"the named scores (`metric`) of assertions: {why}")
        if "transform" in assertion:
            raise NotCarried("its transform is a program")
        is_set = assertion["type"] == "assert-set"
        known = _KEYS_OF_SET if is_set else _KEYS
        if unknown := [key for key in assertion if key not in known]:
            raise NotCarried(f"there is nothing like its {unknown[0]}")
        if is_set:
            return self.carry(list_assertions(assertion.get("assert")), assertion.get("threshold"))
        kind = assertion["type"].removeprefix("not-")
        carry = _KINDS.get(kind)
        if carry is None:
            raise NotCarried("there is no check like it")
        if isinstance(assertion.get("value"), str) and assertion["value"].startswith("file://"):
            raise NotCarried(f"its value is in {assertion['value']}")
        if note := _NOTES.get(kind):
            self.made.leave_out(assertion, f"the verdict of {kind}: {note}")
        return carry(_Assertion(assertion, self))


def list_assertions(given: Any) -> list[Any]:
    """The assertions in `assert`: a list or a single one."""
    return given if isinstance(given, list) else [] if given is None else [given]


def _weighs_nothing(assertion: Any) -> bool:
    """True for an assertion that always passes in promptfoo."""
    given = as_mapping(assertion)
    return given.get("weight") == 0 and given.get("type") != "assert-set"


class _Assertion:
    """One assertion, its value with the variables filled in."""

    def __init__(self, given: dict[str, Any], context: TestContext) -> None:
        self.inverse = given["type"].startswith("not-")
        self.raw = given.get("value")
        self.render = context.render
        self.threshold = given.get("threshold")
        self.given, self.context = given, context

    @property
    def text(self) -> str:
        """The value as JavaScript writes it."""
        text = "" if isinstance(self.raw, dict | list) else write_as_javascript(self.raw)
        if not (filled := self.render(text)):
            raise NotCarried("it has no text to compare with")
        return filled

    @property
    def texts(self) -> list[str]:
        """The values of a list, which may be one text with commas."""
        if isinstance(self.raw, list):
            return [self.render(write_as_javascript(each)) for each in self.raw]
        return [each.strip() for each in next(csv.reader([self.text], skipinitialspace=True))]

    @property
    def amount(self) -> float:
        """The threshold as a number."""
        if isinstance(self.threshold, bool) or not isinstance(self.threshold, int | float):
            raise NotCarried("it has no threshold")
        return self.threshold

    def refuse_inverse(self) -> None:
        if self.inverse:
            raise NotCarried("there is no check for its opposite")

    def search(self, *needed: str) -> list[Check]:
        """All of these patterns are found; of an inverse assertion, not all."""
        if self.inverse:
            return [{"regex": patterns.not_all(needed)}]
        return [{"regex": needed[0] if len(needed) == 1 else list(needed)}]


def _equals(given: _Assertion) -> list[Check]:
    if isinstance(given.raw, dict | list):
        given.refuse_inverse()
        return _fits_schema({"const": given.raw})
    return given.search(patterns.equals(given.text)) if given.inverse else [{"equals": given.text}]


def _contains(given: _Assertion) -> list[Check]:
    return [{"not_contains" if given.inverse else "contains": given.text}]


def _contains_all(given: _Assertion, *, ignore_case: bool = False) -> list[Check]:
    if not given.texts:
        raise NotCarried("it has no text to compare with")
    if not (ignore_case or given.inverse):
        return [{"contains": given.texts}]
    return given.search(*(patterns.found(each, ignore_case=ignore_case) for each in given.texts))


def _regex(given: _Assertion) -> list[Check]:
    pattern = patterns.translate_javascript(given.text)
    if pattern is None:
        raise NotCarried(f"Python has no regular expression like {given.text}")
    return given.search(pattern)


def _is_json(given: _Assertion) -> list[Check]:
    given.refuse_inverse()
    if given.raw is not None and not isinstance(given.raw, dict):
        raise NotCarried("its schema is a text")
    if "'format':" in repr(given.raw):
        raise NotCarried("its schema has a format, which is not checked here")
    return _fits_schema(given.raw or {})


def _fits_schema(schema: dict[str, Any]) -> list[Check]:
    # promptfoo's validator reads a schema without a draft as draft 7.
    dated = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
    try:
        load_scorer("json_schema", schema=dated)
    except InvalidInput as error:
        raise NotCarried(str(error)) from None
    # Not the check `json_schema`: that one looks into code blocks too.
    return [{"scorer": {"use": "json_schema", "options": {"schema": dated}, "threshold": 1}}]


def _cost(given: _Assertion) -> list[Check]:
    given.refuse_inverse()
    return [{"max_cost": given.amount}]


def _latency(given: _Assertion) -> list[Check]:
    given.refuse_inverse()
    if given.amount <= 0:
        raise NotCarried("no answer is that quick")
    return [{"max_latency": given.amount / 1000}]


def _levenshtein(given: _Assertion) -> list[Check]:
    edits = 5 if given.threshold is None else given.amount
    return given.search(patterns.within_edits(given.text, int(edits)))


def _similar(given: _Assertion) -> list[Check]:
    given.refuse_inverse()
    threshold = 0.75 if given.threshold is None else given.amount
    return [{"semantic": {"expected": given.text, "threshold": threshold}}]


def _rubric(given: _Assertion) -> list[Check]:
    given.refuse_inverse()
    if "rubricPrompt" in given.given or given.context.options.get("rubricPrompt"):
        raise NotCarried("its rubricPrompt asks the judge in words of its own")
    criteria: Check = {"criteria": given.text}
    if given.threshold is not None:
        criteria["threshold"] = given.amount
    named = given.given.get("provider", given.context.options.get("provider"))
    if model := given.context.carry_judge(named):
        criteria["model"] = model
    return [{"llm_judge": criteria}]


_KINDS: dict[str, Callable[[_Assertion], list[Check]]] = {
    "equals": _equals,
    "contains": _contains,
    "icontains": lambda given: given.search(patterns.found(given.text, ignore_case=True)),
    "contains-all": _contains_all,
    "icontains-all": lambda given: _contains_all(given, ignore_case=True),
    "contains-any": lambda given: given.search(patterns.found_any(given.texts)),
    "icontains-any": lambda given: given.search(patterns.found_any(given.texts, ignore_case=True)),
    "starts-with": lambda given: given.search(patterns.starts_with(given.text)),
    "ends-with": lambda given: given.search(patterns.ends_with(given.text)),
    "regex": _regex,
    "is-json": _is_json,
    "cost": _cost,
    "latency": _latency,
    "levenshtein": _levenshtein,
    "similar": _similar,
    "llm-rubric": _rubric,
    "model-graded-closedqa": _rubric,
}
_NOTES = {
    "similar": "another embedding may find otherwise",
    "llm-rubric": _OTHER_JUDGE,
    "model-graded-closedqa": _OTHER_JUDGE,
}


def _weigh(assertion: dict[str, Any]) -> float:
    """Weight under a threshold."""
    if assertion["type"] == "assert-set" or assertion["type"].removeprefix("not-") in _NOTES:
        raise NotCarried(f"{assertion['type']} is no plain yes or no")
    weight = assertion.get("weight", 1)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or weight < 0:
        raise NotCarried(f"the weight {weight!r}")
    return float(weight)


def _combine(parts: list[tuple[list[Check], float]], threshold: float) -> list[Check]:
    """At least one of the smallest groups of assertions whose weight is enough."""
    total = sum(weight for _, weight in parts)
    if threshold <= 0:
        return []
    if len(parts) > _MOST_COMBINED:
        raise NotCarried(f"they are more than {_MOST_COMBINED}")

    def is_enough(chosen: Iterable[int]) -> bool:
        return total > 0 and sum(parts[i][1] for i in chosen) / total >= threshold

    groups: list[tuple[int, ...]] = []
    for size in range(1, len(parts) + 1):
        for chosen in combinations(range(len(parts)), size):
            if is_enough(chosen) and not any(set(group) <= set(chosen) for group in groups):
                groups.append(chosen)
    if not groups:
        return [{"regex": patterns.NEVER}]
    merged = [merge_checks([check for i in group for check in parts[i][0]]) for group in groups]
    return merged if len(merged) == 1 else [{"or": merged}]


def read_csv_assertion(text: str) -> dict[str, Any]:
    """An assertion as a cell of a column `__expected` writes it."""
    for start, kind in (
        ("javascript:", "javascript"),
        ("fn:", "javascript"),
        ("eval:", "javascript"),
        ("python:", "python"),
        ("grade:", "llm-rubric"),
        ("llm-rubric:", "llm-rubric"),
    ):
        if text.startswith(start):
            return {"type": kind, "value": text.removeprefix(start)}
    if text.startswith("file://"):
        return {"type": "python" if ".py" in text else "javascript", "value": text}
    found = _CSV_ASSERTION.fullmatch(text)
    if found is None or found[2] not in (*_KINDS, *_OTHER_KINDS):
        return {"type": "equals", "value": text}
    inverse, kind, threshold, value = found.groups()
    value = None if value is None else value.strip()
    read: dict[str, Any] = {"type": (inverse or "") + kind, "value": value}
    if kind in _LISTS and value is not None:
        read["value"] = [each.strip() for each in value.split(",")]
    if kind in ("cost", "latency", "levenshtein", "similar"):
        read["threshold"] = float(threshold or (0.8 if kind == "similar" else 0.75))
    return read
