"""What commands ask about rules, as the documents that `--json` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import msgspec

from tallymark.desk.answers import read_told
from tallymark.errors import InvalidInput
from tallymark.service.rule_definitions import read_rule, refuse_other_name, write_rule
from tallymark.service.rules import BackfillPreview, describe_backfill, describe_version

if TYPE_CHECKING:
    from tallymark.client.sync.client import Client
    from tallymark.engine.engine_choice import EngineChoice
    from tallymark.service.app import App
    from tallymark.service.rules import RuleService

Document: TypeAlias = dict[str, Any]
RuleAct = Literal["pause", "resume", "archive"]


class RuleDesk(Protocol):
    """What scores traces as they come. A rule is a document, or a file of one."""

    def add(self, name: str, rule: Document | Path) -> Document:
        """Makes a rule."""

    def edit(self, name: str, rule: Document | Path) -> Document:
        """Makes a version of one."""

    def list(self) -> Sequence[Document]:
        """By name."""

    def get(self, name: str) -> Document:
        """One with its versions, backfills and days."""

    def act(self, act: RuleAct, name: str) -> Document:
        """Pauses, resumes or ends it."""

    def decisions(
        self, name: str, *, decision: str | None, trace: str | None, limit: int
    ) -> Sequence[Document]:
        """What it decided, newest first."""

    def preview_backfill(self, name: str, since: float, until: float) -> BackfillPreview:
        """What a backfill would come to."""

    def start_backfill(self, name: str, since: float, until: float) -> Document:
        """Queues one."""

    def do_backfills(self, choice: EngineChoice, job: str) -> None:
        """Does those that are queued, also the one of this job if it was set aside."""

    def try_out(self, file: Path) -> Document:
        """What a rule would make of the newest traces."""


@dataclass(frozen=True)
class LocalRules:
    """In a database."""

    app: App

    @property
    def _service(self) -> RuleService:
        from tallymark.service.remote_suites import RemoteRules  # noqa: PLC0415 (models load slowly)
        from tallymark.service.rules import RuleService  # noqa: PLC0415

        return RuleService(self.app.store, RemoteRules.from_environment(), own=True)

    def add(self, name: str, rule: Document | Path) -> Document:
        """Makes a rule."""
        return self._service.add(rule, name=name).to_dict()

    def edit(self, name: str, rule: Document | Path) -> Document:
        """Makes a version of one."""
        return self._service.edit(name, rule).to_dict()

    def list(self) -> Sequence[Document]:
        """By name."""
        return [each.to_dict() for each in self._service.list()]

    def get(self, name: str) -> Document:
        """One with its versions, backfills and days."""
        service = self._service
        return service.get(name).to_dict() | {
            "versions": [describe_version(each) for each in service.versions(name)],
            "backfills": [describe_backfill(each) for each in service.backfills(name)],
            "days": msgspec.to_builtins(service.spending(name)),
        }

    def act(self, act: RuleAct, name: str) -> Document:
        """Pauses, resumes or ends it."""
        self.app.store.require()
        done: Document = getattr(self._service, act)(name).to_dict()
        return done

    def decisions(
        self, name: str, *, decision: str | None, trace: str | None, limit: int
    ) -> Sequence[Document]:
        """What it decided, newest first."""
        found = self._service.decisions(name, decision=decision, trace=trace, limit=limit)
        told = msgspec.to_builtins(found)
        return [{key: each[key] for key in each if key != "place"} for each in told]

    def preview_backfill(self, name: str, since: float, until: float) -> BackfillPreview:
        """What a backfill would come to."""
        return self._service.preview_backfill(name, since, until)

    def start_backfill(self, name: str, since: float, until: float) -> Document:
        """Queues one."""
        return describe_backfill(self._service.start_backfill(name, since, until))

    def do_backfills(self, choice: EngineChoice, job: str) -> None:
        """Does those that are queued, also the one of this job if it was set aside."""
        from tallymark.service.rule_blocks import do_backfills  # noqa: PLC0415 (scorers are heavy)

        do_backfills(self.app, choice, job)

    def try_out(self, file: Path) -> Document:
        """What a rule would make of the newest traces."""
        return self._service.try_out(file).to_dict()


@dataclass(frozen=True)
class RemoteRules:
    """At a server."""

    client: Client

    def add(self, name: str, rule: Document | Path) -> Document:
        """Makes a rule."""
        called, said = _read_file(name, rule)
        if not called:
            raise InvalidInput("the rule has no name", hint="give it one with the key 'name'")
        return _tell(self.client.rules.add(called, said))

    def edit(self, name: str, rule: Document | Path) -> Document:
        """Makes a version of one."""
        return _tell(self.client.rules.edit(name, _read_file(name, rule)[1]))

    def list(self) -> Sequence[Document]:
        """By name."""
        return [_tell(each) for each in self.client.rules.list()]

    def get(self, name: str) -> Document:
        """One with its versions, backfills and days."""
        return _tell(self.client.rules.get(name))

    def act(self, act: RuleAct, name: str) -> Document:
        """Pauses, resumes or ends it."""
        rules = self.client.rules
        do = {"pause": rules.pause, "resume": rules.resume, "archive": rules.remove}
        return _tell(do[act](name))

    def decisions(
        self, name: str, *, decision: str | None, trace: str | None, limit: int
    ) -> Sequence[Document]:
        """What it decided, newest first."""
        found = self.client.rules.decisions(name, decision=decision, trace=trace, limit=limit)
        return [_tell(each) for each in found]

    def preview_backfill(self, name: str, since: float, until: float) -> BackfillPreview:
        """What a backfill would come to."""
        told: Any = self.client.rules.backfill(name, since, until, preview=True).preview
        return read_told(told, BackfillPreview)

    def start_backfill(self, name: str, since: float, until: float) -> Document:
        """Queues one."""
        return _tell(self.client.rules.backfill(name, since, until).backfill)

    def do_backfills(self, choice: EngineChoice, job: str) -> None:
        """Nothing: the server's workers do them."""

    def try_out(self, file: Path) -> Document:
        """What a rule would make of the newest traces."""
        name, said = read_rule(file, folder=None)
        rule = write_rule(said) | ({"name": name} if name else {})
        return _tell(self.client.rules.try_out(rule))


def _read_file(name: str, rule: Document | Path) -> tuple[str, Document]:
    """The name and what a file says, read here: its mistakes have places here."""
    if not isinstance(rule, Path):
        return name, rule
    named, said = read_rule(rule, folder=None)
    refuse_other_name(named, name)
    return name or named, write_rule(said)


def _tell(told: Any) -> Document:
    document: Document = told.model_dump(exclude_unset=True)
    return document
