"""Rules: what scores traces as they come, and what it decided and spent?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tallymark.errors import InvalidInput
from tallymark.web.page import Outcome, Page
from tallymark.web.view import View
from tallymark.web.visit import Visit

KINDS = ("scorer", "formula", "judge")
_NUMBERS = ("rate", "cap_count", "cap_cost", "quiet")


class RulesView(View, frozen=True, kw_only=True):
    """Every rule, and the form for another."""

    rules: list[dict[str, Any]]
    may_change: bool

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each rule."""
        for each in self.rules:
            plain = {name: each[name] for name in ("name", "state", "version", "spent", "trouble")}
            yield plain | each["counts"]


def gather(visit: Visit) -> RulesView:
    """All rules by name."""
    visit.visitor.require_runs()
    found = visit.services.rules.list() if visit.app.store.exists else []
    told = [each.to_dict() for each in found]
    return RulesView(
        title="Rules",
        rules=[each | {"kind": name_kind(each["definition"])} for each in told],
        may_change=visit.visitor.may_organise,
    )


def name_kind(definition: Mapping[str, Any]) -> str:
    """What a rule scores by."""
    return next((kind for kind in (*KINDS, "composite") if definition.get(kind)), "")


def read_definition(visit: Visit) -> dict[str, Any]:
    """A rule as the form was filled in; what it says is checked by the service."""
    form = visit.form
    kind = form.get("kind")
    if kind not in KINDS:
        raise InvalidInput("it is not said what scores", hint=f"choose {', '.join(KINDS)}")
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


def add(visit: Visit) -> Outcome:
    """A new rule, which scores from now on."""
    visit.visitor.require_organiser()
    given = read_definition(visit)
    name = visit.form.require("name", "the rule has no name")
    made = visit.services.rules.add(given, name=name, owner=visit.caller.owner or "")
    return Outcome(f"/rules/{made.rule.name}")


PAGE = Page("/rules", "rules.html", gather, actions={"add": add})
