"""A field of simulated agents. They compete like real agents, through the same services.

Their skill, learning and luck are drawn from a seed: no model is involved, and every name contains
`sample`.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tallymark.challenges.attempt import Metrics
from tallymark.challenges.tracks import Track
from tallymark.documents.reader import read_plain
from tallymark.errors import TallymarkError
from tallymark.service.competition import Competition

BEANS, RACE, WORDS, GUARD = (
    "bean-counter",
    "advanced-prompt-challenge",
    "fewest-words",
    "red-blue-guard",
)
QUICK = ("bean-counter", "prompt-race", "fewest-words")
"""Folders of challenges without foreign code."""
CUP = Track(name="sample-cup", title="Sample cup", challenges=(BEANS, WORDS))
_DAYS = 10
_DAY = 86_400.0
_ALREADY_OPEN = 3


@dataclass
class Player:
    """A simulated agent."""

    name: str
    talent: float
    """Between 0 and 1, before it has learnt anything."""
    tried: int = 0

    @property
    def level(self) -> float:
        """Share of mistakes that each try corrects."""
        return 1 - (1 - self.talent) * 0.985**self.tried


class OpenAttempt(NamedTuple):
    """An attempt that its agent is still at, and when it will be done."""

    until: float
    player: Player
    attempt: str


@dataclass
class Table:
    """The clock by which the past is played."""

    now: float = 0.0
    seed: int = 0


def _make_players() -> list[Player]:
    talents = {
        "careful": 0.72, "bold": 0.5, "hasty": 0.25, "nimble": 0.66, "patient": 0.62,
        "frugal": 0.58, "curious": 0.55, "steady": 0.52, "brisk": 0.45, "keen": 0.4,
        "quiet": 0.34, "plain": 0.2,
    }  # fmt: skip
    return [Player(f"sample-{name}", talent) for name, talent in talents.items()]


@dataclass
class SampleField:
    """Plays days that have gone by, and then goes on, one turn at a time."""

    folder: Path
    """Start of the challenges."""
    has_sandbox: bool
    players: list[Player] = field(default_factory=_make_players)
    chance: random.Random = field(default_factory=lambda: random.Random(16))  # noqa: S311
    open: list[OpenAttempt] = field(default_factory=list)

    def list_folders(self) -> list[Path]:
        """The challenges that can be played here."""
        folders = sorted(each.parent for each in self.folder.glob("*/challenge.*"))
        return [each for each in folders if self.has_sandbox or each.name in QUICK]

    def play_past(self, competition: Competition, table: Table, now: float) -> None:
        """Publishes every challenge, and plays what has led up to now."""
        for each in self.list_folders():
            table.now = now - (_DAYS + 2) * _DAY
            competition.publish(each)
            if each.name not in QUICK:
                self._play_samples(competition, table, each)
        competition.store.tracks.put(CUP, at=table.now)
        for at, player, challenge in self._plan(now):
            table.now = at
            if challenge == BEANS:
                entered = competition.enter(BEANS, player.name).attempt
                table.now += self.chance.uniform(60, 700)
                self._submit(competition, OpenAttempt(0, player, entered.id))
            else:
                self._report(competition, challenge, player)
        for player in self.players[:_ALREADY_OPEN]:
            table.now = now - self.chance.uniform(20, 90)
            self._begin(competition, player, table.now)

    def _plan(self, now: float) -> list[tuple[float, Player, str]]:
        """Tries of agents over time: on most days, most of them."""
        found = [
            (now - day * _DAY - self.chance.uniform(1200, _DAY), player, challenge)
            for day in range(_DAYS)
            for player in self.players
            for challenge in (BEANS, RACE, WORDS)
            if self.chance.random() < 0.35
        ]
        return sorted(found, key=lambda each: each[0])

    def _play_samples(self, competition: Competition, table: Table, folder: Path) -> None:
        """The stored answers of a challenge, an hour apart, in the sandbox."""
        if folder.name == GUARD:
            arena = competition.arena(GUARD)
            for player, side, text in self.list_sides():
                arena.submit(player, side, text)
        for path in sorted(folder.glob("samples/*.yaml")):
            sample: dict[str, Any] = read_plain(path, "sample")
            table.now, table.seed = table.now + 3600, sample.get("seed", 0)
            entered = competition.enter(folder.name, sample["agent"]).attempt
            table.now += sample["elapsed_s"]
            competition.submit(entered.id, sample["agent"], sample["submission"])

    def list_sides(self) -> Iterable[tuple[str, Any, str]]:
        """Attackers and defenders with their submissions."""
        for path in sorted(self.folder.glob(f"{GUARD}/samples/*.txt")):
            side, _, player = path.stem.partition("-")
            yield f"sample-{player}", side, path.read_text(encoding="utf-8")

    def take_turn(self, competition: Competition, now: float | None = None) -> None:
        """Submit, enter or report; excluded agents do nothing."""
        now = time.time() if now is None else now
        try:
            self._take_turn(competition, now)
        except TallymarkError:
            return

    def _take_turn(self, competition: Competition, now: float) -> None:
        due = next((each for each in self.open if each.until <= now), None)
        if due is not None:
            self.open.remove(due)
            self._submit(competition, due)
            return
        busy = {each.player.name for each in self.open}
        player = self.chance.choice([each for each in self.players if each.name not in busy])
        kind = self.chance.random()
        if self.has_sandbox and kind < 0.06:
            sides = list(self.list_sides())
            (name, side, _), (_, _, text) = self.chance.choice(sides), self.chance.choice(sides)
            competition.arena(GUARD).submit(name, side, text)
        elif kind < 0.45 and len(busy) < len(self.players) / 2:
            self._begin(competition, player, now)
        else:
            self._report(competition, self.chance.choice((RACE, WORDS)), player)

    def _begin(self, competition: Competition, player: Player, now: float) -> None:
        entered = competition.enter(BEANS, player.name).attempt
        self.open.append(OpenAttempt(now + self.chance.uniform(15, 120), player, entered.id))

    def _submit(self, competition: Competition, done: OpenAttempt) -> None:
        truth = json.loads((self.folder / BEANS / "truth.json").read_text(encoding="utf-8"))
        level = self._draw_level(done.player)
        layers = [
            beans if self.chance.random() < level else beans + self.chance.choice((-2, -1, 1, 2))
            for beans in truth["layers"]
        ]
        answer = {"layers": layers, "total": sum(layers), "volume_ml": sum(layers) / 2}
        competition.submit(done.attempt, done.player.name, answer)

    def _report(self, competition: Competition, challenge: str, player: Player) -> None:
        level, luck = self._draw_level(player), self.chance.uniform(0.8, 1.2)
        metrics = Metrics(
            succeeded=self.chance.random() < 0.55 + 0.45 * level,
            rating=round(min(10.0, 3 + 6.5 * level * luck), 1),
            elapsed_ms=round(2000 + 40_000 * (1 - level) * luck),
            tokens_total=round(180 + 2600 * (1 - level) * luck),
        )
        competition.report(challenge, player.name, metrics)

    def _draw_level(self, player: Player) -> float:
        player.tried += 1
        return min(0.99, max(0.05, player.level + self.chance.gauss(0, 0.07)))
