"""Page of all rules, with the form for a new one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import msgspec

from tallymark.errors import InvalidInput
from tallymark.service.rules import Rule
from tallymark.web.page import Outcome, Page, View
from tallymark.web.page_request import PageRequest

KINDS = ("scorer", "formula", "judge")
_NUMBERS = ("rate", "cap_count", "cap_cost", "quiet")


def name_kind(definition: Mapping[str, Any]) -> str:
    """Return the key that a rule scores by."""
    return next((kind for kind in (*KINDS, "composite") if definition.get(kind)), "")


class RulesView(View, frozen=True, kw_only=True):
    """Every rule, and the form for a new one."""

    rules: list[Rule]
    may_change: bool
    name_kind: ClassVar = staticmethod(name_kind)

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """Return the rules for exports."""
        for each in self.rules:
            yield {
                name: getattr(each, name)
                for name in ("name", "state", "version", "spent", "trouble")
            } | msgspec.structs.asdict(each.counts)


def gather(request: PageRequest) -> RulesView:
    return RulesView(
        title="Rules",
        rules=list(request.tally.rules.list()),
        may_change=request.visitor.may_organise,
    )


def read_definition(request: PageRequest) -> dict[str, Any]:
    """Read a rule from the form; the service checks it."""
    form = request.form
    kind = form.get("kind")
    if kind not in KINDS:
        raise InvalidInput("choose how the rule scores", hint=f"one of {', '.join(KINDS)}")
    says: Any = form.require("says", f"the {kind} is empty")
    if kind == "judge":
        says = {"rubric": says, "model": form.require("model", "a judge needs a model")}
    given: dict[str, Any] = {kind: says}
    if form.get("filter"):
        given["filter"] = form.get("filter")
    for name in _NUMBERS:
        if text := form.get(name):
            given[name] = _read_number(name, text)
    return given


def _read_number(name: str, text: str) -> float | int:
    try:
        found = float(text)
    except ValueError:
        raise InvalidInput(f"{name} is no number: {text[:40]!r}") from None
    return int(found) if name == "cap_count" and found.is_integer() else found


def add(request: PageRequest) -> Outcome:
    name = request.form.require("name", "the rule has no name")
    made = request.tally.rules.add({**read_definition(request), "name": name})
    return Outcome(f"/rules/{made.name}")


PAGE = Page("/rules", "rules.html", gather, actions={"add": add})
