"""`AsyncFormulas`: formulas, checked and explained without a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Unpack

from tallymark.client.aio.resource import AsyncResource
from tallymark.client.exchange import CallOptions
from tallymark.wire import formulas as wire


class AsyncFormulas(AsyncResource):
    """Formulas, checked and explained without a run."""

    async def check(
        self, formula: str, names: Iterable[str] = (), **options: Unpack[CallOptions]
    ) -> wire.FormulaChecked:
        """What is wrong with it, or what its scores can be."""
        body = {"formula": formula, "names": list(names)}
        path = ("formula", "check")
        return await self._ask(wire.FormulaChecked, "POST", *path, body=body, **options)

    async def explain(
        self, formula: str, values: Mapping[str, float | None], **options: Unpack[CallOptions]
    ) -> wire.FormulaExplained:
        """The formula with values, and what each term contributes."""
        body = {"formula": formula, "values": dict(values)}
        path = ("formula", "explain")
        return await self._ask(wire.FormulaExplained, "POST", *path, body=body, **options)
