"""The what-if bar of a board: the form, the rule that an address asks for, and what it would do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

import msgspec

from tallymark.challenges.attempt_formula import formula_names
from tallymark.challenges.strategies import Standing
from tallymark.dimensions.breakdown import result_of
from tallymark.errors import InvalidInput, NeedsJob, NotFound
from tallymark.service.what_if import WhatIfBoard, WhatIfRule, WhatIfStanding, change_rule
from tallymark.web.board_rows import BoardRow, list_board, list_dimensions, write_value
from tallymark.web.page import Moved
from tallymark.web.pages.formula import Mistake, describe_mistake
from tallymark.web.visit import Visit

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge

_SHOWN = 100
_COST = 2
"""Of the requests that a visitor has: it is more work than to show a page."""
_FIELD = "w."
"""Before the names of dimensions in the form that is sent without script."""
_MOST_RAW = 1000.0
_STEPS = 1000
"""Weights are thousandths: totals by few decimals are added quickly and exactly."""
_FIRST_FORMULAS = {
    "fastest": "-elapsed_ms",
    "fewest_tokens": "-tokens_total",
    "highest_rating": "rating",
}
"""What a board is ordered by, as a formula to begin with."""

Mode = Literal["formula", "weights"]


class WeightSlider(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of a dimension: as it is, and as it would be."""

    key: str
    label: str
    color: str
    again: bool
    official: float
    weight: float
    raw: float
    """Where the slider stands, from 0 to 100; the weight is its share of all of them."""


class RuleForm(msgspec.Struct, frozen=True, kw_only=True):
    """What can be tried, beginning with the rule as it is."""

    mode: Mode
    formula: str
    official: str
    """The rule as it is, as a formula."""
    sliders: list[WeightSlider]
    names: list[str]
    plugin: bool
    """Whether a plugin scores, which must run again for another config."""

    @property
    def weights(self) -> str:
        """As an address has them."""
        return write_weights({each.key: each.raw for each in self.sliders})


class WhatIfRow(msgspec.Struct, frozen=True, kw_only=True):
    """A place by the other rule, and the one that counts."""

    row: BoardRow
    before: int | None
    moved: int | None
    official: str


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """What another rule would do; where it cannot be read, why."""

    mode: Mode
    rule: str
    """As a part of an address, by which an attempt explains its score."""
    mistakes: list[Mistake]
    needs_job: bool
    notes: list[Mistake]
    agents: int
    attempts: int
    undefined: int
    up: int
    down: int
    rows: list[WhatIfRow]
    around: list[WhatIfRow]

    @property
    def moving(self) -> int:
        return self.up + self.down

    @property
    def leader(self) -> WhatIfRow | None:
        return self.rows[0] if self.rows else None

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each place."""
        for each in self.rows:
            yield {
                "rank": each.row.rank,
                "agent": each.row.agent,
                "name": each.row.name,
                "score": each.row.score,
                "attempt": each.row.attempt,
                "official_rank": each.before,
                "moved": each.moved,
            }


def write_weights(raw: Mapping[str, float]) -> str:
    """`correctness:35,speed:15`."""
    return ",".join(f"{key}:{value:g}" for key, value in raw.items())


def send_on_plain_form(visit: Visit) -> None:
    """What was sent without script has a field for each weight: it has a better address."""
    sent = {key.removeprefix(_FIELD): value for key, value in visit.query if key.startswith(_FIELD)}
    if sent:
        left = dict.fromkeys((f"{_FIELD}{key}" for key in sent), None)
        weights = ",".join(f"{key}:{value}" for key, value in sent.items())
        raise Moved(visit.link(**left, weights=weights, formula=None))


def make_form(visit: Visit, challenge: Challenge) -> RuleForm:
    """The form as the address fills it in."""
    scoring = challenge.scoring
    dimensions = list_dimensions(challenge) if scoring.plugin is None else []
    raw = {each.key: round(each.weight * 100, 1) for each in dimensions}
    if visit.get("weights"):
        with suppress(InvalidInput):  # what is wrong with them is said where they are tried
            raw = dict.fromkeys(raw, 0.0) | _read_raw(visit.get("weights"))
    shares = _share_out(raw)
    usual = "total" if scoring.dimensions else _FIRST_FORMULAS.get(scoring.strategy, "succeeded")
    official = scoring.formula or usual
    chosen: Mode = "formula" if visit.get("formula") or not dimensions else "weights"
    keys = [each.key for each in scoring.dimensions]
    own = challenge.evaluator.options.get("metrics", ())
    return RuleForm(
        mode=chosen,
        formula=visit.get("formula") or official,
        official=official,
        sliders=[
            WeightSlider(
                key=each.key,
                label=each.label,
                color=each.color,
                again=each.again,
                official=each.weight,
                weight=shares.get(each.key, 0.0),
                raw=raw[each.key],
            )
            for each in dimensions
        ],
        names=sorted(formula_names(keys, own)),
        plugin=scoring.plugin is not None,
    )


def try_rule(visit: Visit, name: str, around: str | None) -> WhatIf | None:
    """Apply the rule in the address to a challenge; None if the address has none."""
    texts = {name: visit.get(name) for name in ("formula", "weights", "config")}
    if not any(texts.values()):
        return None
    challenge = visit.find_challenge(name).challenge
    if challenge.kind == "versus":
        return None
    mode: Mode = "weights" if texts["weights"] else "formula"
    if not visit.service.own:
        visit.service.limits.check(visit.caller, "read", _COST)
    try:
        rule = _read_rule(challenge, texts)
        address = _write_rule(texts)
        found = visit.service.what_if.ask(
            visit.app.store, challenge.name, rule, public=visit.public, around=around, limit=_SHOWN
        )
    except NotFound:
        raise
    except InvalidInput as error:
        mistakes = [describe_mistake(each) for each in error.problems]
        return WhatIf(
            mode=mode, rule="", mistakes=mistakes, needs_job=isinstance(error, NeedsJob), notes=[],
            agents=0, attempts=0, undefined=0, up=0, down=0, rows=[], around=[],
        )  # fmt: skip
    return _describe(visit, challenge, mode, address, change_rule(challenge, rule), found)


def change_by_address(visit: Visit, challenge: Challenge) -> Challenge | None:
    """The challenge by the formula or the weights of the address; None where it has neither."""
    texts = {name: visit.get(name) for name in ("formula", "weights")}
    if not any(texts.values()):
        return None
    return change_rule(challenge, _read_rule(challenge, texts))


def _write_rule(texts: Mapping[str, str]) -> str:
    """The one that counts, as an address has it."""
    name = next(name for name in ("formula", "config", "weights") if texts[name])
    return urlencode({name: texts[name]})


def _read_rule(challenge: Challenge, texts: Mapping[str, str]) -> WhatIfRule:
    if texts["formula"]:
        return WhatIfRule(formula=texts["formula"])
    if texts.get("config"):
        try:
            return WhatIfRule(config=msgspec.json.decode(texts["config"], type=dict[str, Any]))
        except msgspec.DecodeError:
            raise InvalidInput("config is no JSON object", hint='as {"undefined": 0}') from None
    raw = _read_raw(texts["weights"])
    shares = _share_out(raw)
    known = len(challenge.scoring.dimensions)
    used = {key: share for key, share in shares.items() if share > 0.0}
    if challenge.scoring.formula is None and (len(used) >= 2 or len(shares) < known):
        return WhatIfRule(weights=used)
    # Where each must have one: as little as can be.
    return WhatIfRule(weights=_share_out({key: max(share, 0.001) for key, share in shares.items()}))


def _read_raw(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in text.split(","):
        key, _, number = part.rpartition(":")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not key.strip() or not 0.0 <= value <= _MOST_RAW:
            raise InvalidInput(
                f"weights cannot be read at {part[:40]!r}",
                hint="write them as correctness:35,speed:15",
            )
        found[key.strip()] = value
    if not any(found.values()):
        raise InvalidInput("all weights are 0", hint="give one dimension more")
    return found


def _share_out(raw: Mapping[str, float]) -> dict[str, float]:
    """Shares in thousandths whose sum is 1: what is left goes to the largest remainders."""
    total = math.fsum(raw.values())
    if not total:
        return dict.fromkeys(raw, 0.0)
    exact = {key: value / total * _STEPS for key, value in raw.items()}
    steps = {key: math.floor(value) for key, value in exact.items()}
    left = _STEPS - sum(steps.values())
    for key in sorted(exact, key=lambda each: steps[each] - exact[each])[:left]:
        steps[key] += 1
    return {key: count / _STEPS for key, count in steps.items()}


def _describe(
    visit: Visit,
    challenge: Challenge,
    mode: Mode,
    address: str,
    new: Challenge,
    found: WhatIfBoard,
) -> WhatIf:
    items = [*found.items, *(found.around or ())]
    store = visit.app.store
    numbers = store.figures.numbers({each.attempt for each in items}, public=visit.public)
    values = store.figures.values_of(
        challenge.name, {each.agent for each in items}, public=visit.public
    )

    def list_rows(standings: Iterable[WhatIfStanding]) -> list[WhatIfRow]:
        shown = list(standings)
        rows = list_board(
            visit,
            new,
            [
                Standing(
                    rank=each.rank,
                    agent=each.agent,
                    attempt=each.attempt,
                    value=each.value,
                    score=each.score,
                    submitted_at=numbers[each.attempt].submitted_at,
                    tries=0,
                    trajectory_level=numbers[each.attempt].level,
                )
                for each in shown
            ],
            numbers=numbers,
        )
        return [
            WhatIfRow(
                row=msgspec.structs.replace(row, result=_find_result(mode, row.score)),
                before=each.before,
                moved=each.moved,
                official=write_value(challenge, values[each.agent]) if each.agent in values else "",
            )
            for row, each in zip(rows, shown, strict=True)
        ]

    here = {each.agent for each in found.items}
    me = visit.get("around") or visit.visitor.agent
    return WhatIf(
        mode=mode,
        rule=address,
        mistakes=[],
        needs_job=False,
        notes=[
            Mistake(
                message=each["message"],
                hint=each["hint"],
                column=each["column"],
                caret=None,
                level=each["level"],
            )
            for each in found.findings
        ],
        agents=found.agents,
        attempts=found.attempts,
        undefined=found.undefined,
        up=found.up,
        down=found.down,
        rows=list_rows(found.items),
        around=[] if me in here else list_rows(found.around or ()),
    )


def _find_result(mode: Mode, score: float | None) -> str | None:
    """By weights a score is won, drawn or lost as on the board; by a formula there is no such."""
    if mode == "formula" or score is None:
        return None
    return result_of(int(score))
