"""How what is judged on this machine is judged; a server has its own ways."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallymark.errors import InvalidInput

if TYPE_CHECKING:
    from tallymark.engine.engine_choice import EngineChoice
    from tallymark.service.app import App
    from tallymark.service.competition import Competition


@dataclass(frozen=True, kw_only=True)
class JudgedHere:
    """By which model, and behind which walls."""

    insecure_local: bool = False
    judge_model: str | None = None
    engine: EngineChoice | None = None
    """Where much is scored again; None is this process."""

    @contextmanager
    def open(self, app: App) -> Iterator[Competition]:
        """Challenges and attempts over a database."""
        given = {"insecure_local": self.insecure_local, "judge_model": self.judge_model}
        with closing(app.competition(**given)) as competition:  # type: ignore[arg-type]
            yield competition


def refuse_judged_here(how: JudgedHere) -> None:
    """At a server, neither can be chosen."""
    for flag, given in (("--insecure-local", how.insecure_local), ("--judge", how.judge_model)):
        if given:
            hint = "leave it out, or work on a database: --db"
            raise InvalidInput(
                f"{flag} is not for a server, which judges in its own way", hint=hint
            )
