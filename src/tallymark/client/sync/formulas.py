"""`Formulas`: formulas, checked and explained without a run."""

# Written by `make client` from client/aio/formulas.py: change that one.

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Unpack

from tallymark.client.exchange import CallOptions
from tallymark.client.sync.resource import Resource
from tallymark.wire import formulas as wire


class Formulas(Resource):
    """Formulas, checked and explained without a run."""

    def check(
        self, formula: str, names: Iterable[str] = (), **options: Unpack[CallOptions]
    ) -> wire.FormulaChecked:
        """What is wrong with it, or what its scores can be."""
        body = {"formula": formula, "names": list(names)}
        path = ("formula", "check")
        return self._ask(wire.FormulaChecked, "POST", *path, body=body, **options)

    def explain(
        self, formula: str, values: Mapping[str, float | None], **options: Unpack[CallOptions]
    ) -> wire.FormulaExplained:
        """The formula with values, and what each term contributes."""
        body = {"formula": formula, "values": dict(values)}
        path = ("formula", "explain")
        return self._ask(wire.FormulaExplained, "POST", *path, body=body, **options)
