"""`AsyncScores`: what people say of cases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from tallymark.client.aio.resource import AsyncResource
from tallymark.client.exchange import CallOptions, leave_out_none
from tallymark.wire import scores as wire


class AsyncScores(AsyncResource):
    """What people say of cases."""

    def list(
        self,
        *,
        run: str | None = None,
        case: str | None = None,
        name: str | None = None,
        author: str | None = None,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncIterator[wire.Score]:
        """What people said, newest first."""
        params = {"run": run, "case": case, "name": name, "author": author}
        return self._page(wire.Score, "scores", limit=limit, params=params, **options)

    async def give(  # noqa: PLR0913 (what can be said of a case)
        self,
        run: str,
        case: str,
        *,
        value: float | None = None,
        label: str | None = None,
        comment: str | None = None,
        name: str | None = None,
        epoch: int | None = None,
        **options: Unpack[CallOptions],
    ) -> wire.Score:
        """Scores a case yourself; said again under the same name, it takes the last one's place."""
        words = leave_out_none(value=value, label=label, comment=comment, name=name, epoch=epoch)
        body = {"run": run, "case": case, **words}
        return (await self._ask(wire.OneScore, "POST", "scores", body=body, **options)).score

    async def change(
        self,
        score: str,
        *,
        value: float | None = None,
        label: str | None = None,
        comment: str | None = None,
        **options: Unpack[CallOptions],
    ) -> wire.Score:
        """Says otherwise what you said."""
        body = leave_out_none(value=value, label=label, comment=comment)
        asked = self._ask(wire.OneScore, "PATCH", "scores", score, body=body, **options)
        return (await asked).score

    async def withdraw(self, score: str, **options: Unpack[CallOptions]) -> wire.Score:
        """Takes back what you said."""
        return (await self._ask(wire.OneScore, "DELETE", "scores", score, **options)).score
