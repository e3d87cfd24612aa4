"""What commands ask about boards, ratings, and the agents on them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tallymark.challenges.strategies import Standing
from tallymark.desk.answers import read_told
from tallymark.errors import NotAllowed

if TYPE_CHECKING:
    from tallymark.challenges.versus.pairings import Side
    from tallymark.challenges.versus.standings import VersusStanding
    from tallymark.client import Client
    from tallymark.service.app import App


class BoardPart(NamedTuple):
    """Some places of a board, and how many there are."""

    lines: list[Standing]
    size: int


class BoardDesk(Protocol):
    """Boards; `live` is past a freeze, for organisers."""

    def top(self, challenge: str, *, limit: int, offset: int, live: bool) -> BoardPart:
        """From the first down."""

    def around(self, challenge: str, agent: str, *, each: int, live: bool) -> BoardPart:
        """The places around an agent; none where it has none."""

    def versus(self, challenge: str, side: Side, *, live: bool) -> list[VersusStanding]:
        """The players of a side, all of them."""

    def ratings(self, *, k: int, live: bool) -> dict[str, Any]:
        """Strengths of agents and difficulties of challenges, as `RatingTable.to_dict` has it."""

    def names(self, agents: Iterable[str]) -> dict[str, str]:
        """The names of those that are shown by others than their handles."""


@dataclass(frozen=True)
class LocalBoards:
    """Boards in a database."""

    app: App

    def top(self, challenge: str, *, limit: int, offset: int, live: bool) -> BoardPart:
        """From the first down."""
        boards, public = self.app.store.boards, not live
        found = boards.top(challenge, limit=limit, offset=offset, public=public)
        return BoardPart(found, boards.size(challenge, public=public))

    def around(self, challenge: str, agent: str, *, each: int, live: bool) -> BoardPart:
        """The places around an agent."""
        boards, public = self.app.store.boards, not live
        found = boards.around(challenge, agent, each=each, public=public)
        return BoardPart(found, boards.size(challenge, public=public))

    def versus(self, challenge: str, side: Side, *, live: bool) -> list[VersusStanding]:
        """The players of a side, all of them."""
        with closing(self.app.competition()) as competition:
            return competition.arena(challenge).standings(side, public=not live)

    def ratings(self, *, k: int, live: bool) -> dict[str, Any]:
        """Strengths of agents and difficulties of challenges."""
        from tallymark.service.ratings import read_ratings  # noqa: PLC0415 (numpy loads slowly)

        return read_ratings(self.app.store, at=time.time(), k=k, public=not live).to_dict()

    def names(self, agents: Iterable[str]) -> dict[str, str]:
        """The names of those that are shown by others than their handles."""
        return self.app.store.agents.names(agents)


@dataclass(frozen=True)
class RemoteBoards:
    """Boards of a server."""

    client: Client

    def top(self, challenge: str, *, limit: int, offset: int, live: bool) -> BoardPart:
        """From the first down."""
        size = self.client.challenges.board(challenge, limit=1, live=live).agents
        found = self.client.challenges.standings(challenge, limit=offset + limit, live=live)
        return BoardPart([read_told(each, Standing) for each in found][offset:], size)

    def around(self, challenge: str, agent: str, *, each: int, live: bool) -> BoardPart:
        """The places around an agent."""
        board = self.client.challenges.board(challenge, around=agent, each=each, live=live)
        return BoardPart([read_told(line, Standing) for line in board.items], board.agents)

    def versus(self, challenge: str, side: Side, *, live: bool) -> list[VersusStanding]:
        """The players of a side, all of them."""
        found = self.client.challenges.standings(challenge, side=side, live=live)
        from tallymark.challenges.versus.standings import VersusStanding  # noqa: PLC0415 (numpy)

        return [read_told(each, VersusStanding) for each in found]

    def ratings(self, *, k: int, live: bool) -> dict[str, Any]:
        """Strengths of agents and difficulties of challenges."""
        return self.client.ratings(k=k, live=live).model_dump(exclude_unset=True)

    def names(self, agents: Iterable[str]) -> dict[str, str]:
        """The names of those that are shown by others than their handles."""
        wanted = set(agents)
        found = {}
        with suppress(NotAllowed):  # who has no key sees handles
            found = {each.handle: each.name for each in self.client.agents.list(named=True)}
        return {handle: name for handle, name in found.items() if handle in wanted}
