"""`Scores`: what people say of cases."""

# Written by `make client` from client/aio/scores.py: change that one.

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from tallymark.client.exchange import CallOptions, leave_out_none
from tallymark.client.sync.resource import Resource
from tallymark.wire import scores as wire


class Scores(Resource):
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
    ) -> Iterator[wire.Score]:
        """What people said, newest first."""
        params = {"run": run, "case": case, "name": name, "author": author}
        return self._page(wire.Score, "scores", limit=limit, params=params, **options)

    def give(  # noqa: PLR0913 (what can be said of a case)
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
        return (self._ask(wire.OneScore, "POST", "scores", body=body, **options)).score

    def change(
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
        return (asked).score

    def withdraw(self, score: str, **options: Unpack[CallOptions]) -> wire.Score:
        """Takes back what you said."""
        return (self._ask(wire.OneScore, "DELETE", "scores", score, **options)).score
