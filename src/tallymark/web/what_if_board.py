"""Rules to try on a board (what-if): the form, the rule in the URL, and its effect."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

import msgspec
from msgspec import UnsetType

from tallymark.challenges.attempt_formula import formula_names
from tallymark.challenges.strategies import Standing
from tallymark.dimensions.breakdown import result_of
from tallymark.errors import InvalidInput, NeedsJob, NotFound
from tallymark.service.boards import WhatIfBoard
from tallymark.service.what_if import WhatIfRule, change_rule
from tallymark.web.board_rows import BoardRow, list_board, list_dimensions, write_value
from tallymark.web.formula_tree import Mistake, describe_mistake
from tallymark.web.page import Moved

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tallymark.challenges.challenge import Challenge as Definition
    from tallymark.challenges.challenge import PublicChallenge
    from tallymark.service.challenges import Challenge
    from tallymark.web.page_request import PageRequest

_SHOWN = 100
_COST = 2
"""Rate limit units of a what-if request."""
_FIELD = "w."
"""Prefix of weight fields in the form without script."""
_MOST_RAW = 1000.0
_STEPS = 1000
"""Weights are thousandths, which add up exactly."""
_FIRST_FORMULAS = {
    "fastest": "-elapsed_ms",
    "fewest_tokens": "-tokens_total",
    "highest_rating": "rating",
}
"""Initial formula by strategy."""

Mode = Literal["formula", "weights"]


class WeightSlider(msgspec.Struct, frozen=True, kw_only=True):
    """Official and tried weight of a dimension."""

    key: str
    label: str
    color: str
    again: bool
    official: float
    weight: float
    raw: float
    """Slider position from 0 to 100; the weight is its share of all sliders."""


class RuleForm(msgspec.Struct, frozen=True, kw_only=True):
    """The form to try a rule, starting from the official one."""

    mode: Mode
    formula: str
    official: str
    """The official rule as a formula."""
    sliders: list[WeightSlider]
    names: list[str]
    plugin: bool
    """True if a plugin scores; it must run again for a new config."""

    @property
    def weights(self) -> str:
        """Weights as a query value."""
        return write_weights({each.key: each.raw for each in self.sliders})


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The board under a tried rule, or the mistakes in the rule."""

    mode: Mode
    rule: str
    """Query string with which an attempt explains its score."""
    mistakes: list[Mistake] = []
    needs_job: bool = False
    board: WhatIfBoard | None = None
    around: list[Standing] = []
    """Places around the visitor's agent, unless among the first."""

    @property
    def items(self) -> list[Standing]:
        return [] if self.board is None else self.board.items

    @property
    def notes(self) -> list[Mistake]:
        """Lint findings of the formula."""
        return [
            Mistake(
                message=each["message"],
                hint=each["hint"],
                column=each["column"],
                caret=None,
                level=each["level"],
            )
            for each in ([] if self.board is None else self.board.findings)
        ]

    @property
    def moving(self) -> int:
        return 0 if self.board is None else self.board.up + self.board.down

    def make_rows(
        self, challenge: Challenge, standings: Sequence[Standing], marked: Collection[str]
    ) -> list[BoardRow]:
        """Make rows under the tried rule, with official values."""
        if self.board is None:
            return []
        new = msgspec.structs.replace(challenge, scoring=self.board.scoring)
        shown = [
            msgspec.structs.replace(each, result=_find_result(self.mode, each.score))
            for each in standings
        ]
        rows = list_board(new, shown, self.board.names, marked)
        return [
            msgspec.structs.replace(row, official=write_value(challenge, row.standing.official))
            if row.standing.before and not isinstance(row.standing.official, UnsetType)
            else row
            for row in rows
        ]


def write_weights(raw: Mapping[str, float]) -> str:
    """Write weights as Write weights as `correctness:35,speed:15`."""
    return ",".join(f"{key}:{value:g}" for key, value in raw.items())


def send_on_plain_form(request: PageRequest) -> None:
    """Redirect the form without script, which has a field for each weight."""
    sent = {
        key.removeprefix(_FIELD): value for key, value in request.query if key.startswith(_FIELD)
    }
    if sent:
        left = dict.fromkeys((f"{_FIELD}{key}" for key in sent), None)
        weights = ",".join(f"{key}:{value}" for key, value in sent.items())
        raise Moved(request.link(**left, weights=weights, formula=None))


def make_form(request: PageRequest, challenge: Challenge) -> RuleForm:
    """Make the form as filled in by the URL."""
    scoring = challenge.scoring
    dimensions = list_dimensions(challenge) if scoring.plugin is None else []
    raw = {each.key: round(each.weight * 100, 1) for each in dimensions}
    if request.get("weights"):
        with suppress(InvalidInput):  # try_rule reports what is wrong with them
            raw = dict.fromkeys(raw, 0.0) | _read_raw(request.get("weights"))
    shares = _share_out(raw)
    usual = "total" if scoring.dimensions else _FIRST_FORMULAS.get(scoring.strategy, "succeeded")
    official = scoring.formula or usual
    chosen: Mode = "formula" if request.get("formula") or not dimensions else "weights"
    keys = [each.key for each in scoring.dimensions]
    return RuleForm(
        mode=chosen,
        formula=request.get("formula") or official,
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
        names=sorted(formula_names(keys, tuple(challenge.metrics))),
        plugin=scoring.plugin is not None,
    )


def try_rule(request: PageRequest, challenge: Challenge, around: str | None) -> WhatIf | None:
    """Apply the rule in the URL to a challenge; None if there is none."""
    texts = {name: request.get(name) for name in ("formula", "weights", "config")}
    if not any(texts.values()):
        return None
    mode: Mode = "weights" if texts["weights"] else "formula"
    if not request.service.own:
        request.service.limits.check(request.caller, "read", _COST)
    try:
        rule = msgspec.structs.asdict(_read_rule(challenge, texts))
        found = request.tally.boards.what_if(
            challenge.name, **rule, around=around, limit=_SHOWN, live=not request.public
        )
    except NotFound:
        raise
    except InvalidInput as error:
        mistakes = [describe_mistake(each) for each in error.problems]
        return WhatIf(mode=mode, rule="", mistakes=mistakes, needs_job=isinstance(error, NeedsJob))
    here = any(each.agent == around for each in found.items)
    near = [] if here else (found.around or [])
    return WhatIf(mode=mode, rule=_write_rule(texts), board=found, around=near)


def change_by_address(request: PageRequest, challenge: Definition) -> Definition | None:
    """Return the challenge with the formula or weights in the URL; None if it has neither."""
    texts = {name: request.get(name) for name in ("formula", "weights")}
    if not any(texts.values()):
        return None
    return change_rule(challenge, _read_rule(challenge, texts))


def _write_rule(texts: Mapping[str, str]) -> str:
    """Write the tried rule as a query string."""
    name = next(name for name in ("formula", "config", "weights") if texts[name])
    return urlencode({name: texts[name]})


def _read_rule(challenge: PublicChallenge, texts: Mapping[str, str]) -> WhatIfRule:
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
    # Each must have a weight, so use the smallest.
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
        raise InvalidInput("all weights are 0", hint="give one dimension a weight above 0")
    return found


def _share_out(raw: Mapping[str, float]) -> dict[str, float]:
    """Normalise to shares in thousandths that sum to 1, by largest remainders."""
    total = math.fsum(raw.values())
    if not total:
        return dict.fromkeys(raw, 0.0)
    exact = {key: value / total * _STEPS for key, value in raw.items()}
    steps = {key: math.floor(value) for key, value in exact.items()}
    left = _STEPS - sum(steps.values())
    for key in sorted(exact, key=lambda each: steps[each] - exact[each])[:left]:
        steps[key] += 1
    return {key: count / _STEPS for key, count in steps.items()}


def _find_result(mode: Mode, score: float | None) -> str | None:
    """Return the result of a score; formulas have none."""
    if mode == "formula" or score is None:
        return None
    return result_of(int(score))
