"""The model that judges: any model that `-m` accepts, shared by threads and event loops."""

from __future__ import annotations

from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from weakref import WeakSet

from msgspec.structs import replace

from tallymark.errors import InvalidInput, ModelError, ScorerError
from tallymark.event_loops import LoopLocal
from tallymark.judging.judge_dialogue import JudgeMemory
from tallymark.models import Pace, Request, answer_with_retries
from tallymark.models.egress_policy import find_egress
from tallymark.models.model import Loadable
from tallymark.models.model_kinds import ModelReference, open_model
from tallymark.scoring.score import show_value
from tallymark.scoring.scorer_options import check_url, read_api_key

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from tallymark.judging.judge_dialogue import OpenAnswers
    from tallymark.models import Answer, Message, Model
    from tallymark.models.egress_policy import EgressPolicy
    from tallymark.models.model import Redact

_AT_ONCE = 64
_FILE_KINDS = frozenset({"python", "cmd", "replay"})
"""Models that are made of files, and are others when those change."""


class JudgeModel:
    """A model that judges. It may be shared by threads and event loops."""

    memory: JudgeMemory | None = None
    """Stored verdicts, for contests, in which the same question must always have the same one."""
    settings: Mapping[str, Any] = MappingProxyType({})
    """Settings of every request, such as `max_tokens`; those of a single request override them."""
    careful = False
    """True for callers that count money and retry later: no request that may have been charged is
    repeated here, and no long pause is waited for."""

    def __init__(self, model: Model, *, at_once: int = _AT_ONCE) -> None:
        self.name = model.name
        self.model = model
        self._lines = LoopLocal(lambda: _JudgeLine(model, Pace(at_once)))
        with _opening:
            OPEN_JUDGES.add(self)

    async def ask(
        self,
        messages: tuple[Message, ...],
        *,
        seconds: float,
        tries: int = 3,
        settings: Mapping[str, Any] | None = None,
    ) -> Answer:
        """The answer, or a ModelError after `tries`; `seconds` is the limit of each try."""
        line = self._lines.get()
        await line.open()
        request = Request(messages=messages, settings={**self.settings, **(settings or {})})
        answer, _ = await answer_with_retries(
            self.model, request, line.pace, tries=tries, timeout=seconds, careful=self.careful
        )
        return replace(answer, model=self.name) if answer.model is None else answer


OPEN_JUDGES: WeakSet[JudgeModel] = WeakSet()
"""All judges of this process."""
_opening = Lock()


def load_judges() -> None:
    """Load the libraries of all judges before any time is measured."""
    with _opening:
        models = [judge.model for judge in OPEN_JUDGES]
    for model in models:
        if isinstance(model, Loadable):
            model.load()


class _JudgeLine:
    """A judge's connections in one event loop, closed when the loop ends."""

    def __init__(self, model: Model, pace: Pace) -> None:
        self.pace = pace
        self._model = model
        self._closer: AsyncGenerator[None] | None = None

    async def open(self) -> None:
        if self._closer is None:
            self._closer = self._close_at_end()
            await anext(self._closer)

    async def _close_at_end(self) -> AsyncGenerator[None]:
        # Before a loop ends, it finishes all generators that were begun in it.
        try:
            yield
        finally:
            await self._model.close()


def open_judge(  # noqa: PLR0913 (as for a model, and how an address is asked)
    reference: str,
    *,
    folder: str | Path | None = None,
    record: str | Path | None = None,
    cache: str | Path | None = None,
    redact: Redact | None = None,
    model_name: str | None = None,
    api_key_env: str | None = None,
    at_once: int = _AT_ONCE,
    egress: EgressPolicy | None = None,
    pricing: Mapping[str, Any] | None = None,
) -> JudgeModel:
    """Open the judge that a reference names; refuse one that cannot be reached.

    The base address of an OpenAI-compatible API may come with the name of its model, and with the
    environment variable of its key: then no other key is sent there. `egress` limits what a
    tenant's judge may use, `pricing` has token prices for models that no table has.
    """
    key = None
    egress = find_egress(egress, reference)
    if "://" in reference and (model_name is not None or api_key_env is not None):
        check_url(reference, "llm_judge")
        reference = _name_model_at(reference, model_name)
        known = None if egress is None else egress.keys
        key = read_api_key(api_key_env, "llm_judge", known) or ""
    try:
        model = open_model(
            reference,
            folder=folder,
            record=record,
            cache=cache,
            key=key,
            redact=redact,
            egress=egress,
            pricing=pricing,
        )
    except (
        ModelError
    ) as error:  # a missing key or package is refused like a wrong name, before anything runs
        raise InvalidInput(error.problems) from error
    return JudgeModel(model, at_once=at_once)


def open_memory(
    open_answers: OpenAnswers | None,
    reference: str,
    *,
    version: str,
    settings: Mapping[str, Any] | None = None,
) -> JudgeMemory | None:
    """Open a judge's earlier verdicts; `version` is that of the files a local model is made of."""
    if open_answers is None:
        return None
    local = ModelReference.parse(reference).kind in _FILE_KINDS
    return JudgeMemory(open_answers(), reference, version if local else "", settings or {})


def accept_judge(model: Any) -> JudgeModel:
    """A judge that is open already, or one for a model of pydantic-ai that the user made."""
    if isinstance(model, JudgeModel):
        return model
    if not (hasattr(model, "request") and hasattr(model, "model_id")):
        raise ScorerError(f"llm_judge: {show_value(model)} is not a pydantic-ai model")
    from tallymark.models.pydantic_ai_model import PydanticAiModel  # noqa: PLC0415 (heavy)

    return JudgeModel(PydanticAiModel(model))


def _name_model_at(address: str, name: str | None) -> str:
    """The address with the model's name as `-m` takes it; without a name, it stays as it is."""
    if name is None:
        return address
    base = address.rstrip("/")
    if not base.endswith(("/v1", "/chat/completions")):
        base += "/chat/completions"
    return f"{base}#{quote(name)}"
