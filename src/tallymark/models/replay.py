"""`replay/NAME`: answers from a JSONL file, recorded from a real model or written as samples.

Each line holds `prompt` (or `messages`) and what `model_answers` reads, and may hold `latency`
in seconds, `epoch`, `tokens_counted_by`, or `error` instead of an output. Several lines for one
prompt answer in turn by epoch; after the last, it repeats. Lines that differ only in
their system messages (several rubrics about one answer) are distinguished by those; a request with
another system message gets the last of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import InvalidInput, ModelError, Place, Problem, suggest
from tallymark.models.model import Answer
from tallymark.models.model_answers import WrongShape, draft_answer, finish_answer, read_amount
from tallymark.models.model_failures import one_line
from tallymark.models.token_count import load_tokenizer
from tallymark.text import shorten_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallymark.models.model import Request
    from tallymark.models.model_kinds import ModelReference
    from tallymark.models.token_prices import Pricing

_KEYS = {
    *("prompt", "messages", "epoch", "output", "text", "response", "error", "model", "latency"),
    *("usage", "input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "cost"),
    *("tokens_counted_by", "tool_calls", "spans"),
}
_SHOWN_PROBLEMS = 20
_COMPARED_PROMPTS = 1000

UserTurns = tuple[str, ...]
"""The user's messages in order, which identify a recorded conversation."""
AnswersByEpoch = dict[int, "Answer | str"]


class ReplayModel:
    """Answers a conversation from the file, without a delay of its own."""

    def __init__(self, name: str, path: Path, pricing: Pricing | None = None) -> None:
        self.name = name
        self._path = path
        self._pricing = pricing
        self._answers: dict[UserTurns, AnswersByEpoch] = {}
        self._by_system: dict[tuple[str, UserTurns], AnswersByEpoch] = {}
        """Answers of lines with system messages, by those and the user's messages."""
        self._counted = True
        """False when some answer comes without its tokens."""
        self._read()

    def load(self) -> None:
        """Load the tokenizer, if needed, before other models are measured."""
        if not self._counted:
            load_tokenizer()

    async def answer(self, request: Request) -> Answer:
        """The recorded answer, with its recorded latency."""
        turns = tuple(m.content for m in request.messages if m.role == "user")
        recorded = self._answers.get(turns)
        if self._by_system:
            system = "\n".join(m.content for m in request.messages if m.role == "system")
            recorded = self._by_system.get((system, turns), recorded)
        if recorded is None:
            raise self._make_missing_error(turns)
        epochs = [epoch for epoch in recorded if epoch <= request.epoch]
        found = recorded[max(epochs, default=min(recorded))]
        if isinstance(found, str):
            raise ModelError(found)
        return await finish_answer(request, found, self._pricing)

    async def close(self) -> None:
        """Do nothing: no connection is open."""

    def _read(self) -> None:
        """Read the file, and report all broken lines together."""
        problems: list[Problem] = []
        try:
            lines = self._path.read_bytes().split(b"\n")
        except OSError as error:
            raise InvalidInput(f"{self._path} cannot be read: {error.strerror}") from None
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                self._keep(_read_line(line))
            except WrongShape as error:
                problems.append(Problem(str(error), Place(str(self._path), number)))
        if problems:
            raise InvalidInput(problems[:_SHOWN_PROBLEMS])
        if not self._answers:
            raise InvalidInput(f"{self._path} holds no answers")

    def _keep(self, line: _ReplayLine) -> None:
        places = [self._answers.setdefault(line.turns, {})]
        if line.system:
            places.append(self._by_system.setdefault((line.system, line.turns), {}))
        self._counted &= isinstance(line.answer, str) or None not in (
            line.answer.input_tokens,
            line.answer.output_tokens,
        )
        for known in places:
            known[len(known) if line.epoch is None else line.epoch] = line.answer

    def _make_missing_error(self, turns: UserTurns) -> ModelError:
        asked = turns[-1] if turns else ""
        near = _find_most_alike(asked, (recorded[-1] for recorded in self._answers if recorded))
        if near == asked:
            hint = "the last message is recorded, but after other messages"
        elif near is not None:
            hint = f"the nearest that has one is {_quote_prompt(near)}"
        else:
            hint = None
        return ModelError(f"{self._path.name} has no answer to {_quote_prompt(asked)}", hint=hint)


class _ReplayLine(msgspec.Struct, frozen=True):
    turns: UserTurns
    system: str
    epoch: int | None
    answer: Answer | str


def open_replay(reference: ModelReference) -> ReplayModel:
    """NAME is a path, or the name of a file in the suite's folder or its `answers` folder."""
    name, folder = reference.rest, reference.folder
    places = [
        Path(name),
        folder / name,
        folder / f"{name}.jsonl",
        folder / "answers" / f"{name}.jsonl",
    ]
    for path in places:
        if path.is_file():
            return ReplayModel(reference.text, path, reference.pricing)
    files = [*folder.glob("*.jsonl"), *folder.glob("answers/*.jsonl")]
    near = suggest(name, sorted(path.stem for path in files))
    # A name that was typed with its ending gets no second one.
    likely = places[1:2] if Path(name).suffix == ".jsonl" else places[2:]
    looked = f"looked for {' and '.join(map(str, likely))}"
    raise InvalidInput(
        f"there are no answers {name!r} to replay",
        hint=f"did you mean {near!r}?" if near else looked,
    )


def _read_line(line: bytes) -> _ReplayLine:
    try:
        data = msgspec.json.decode(line.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WrongShape(f"the line is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise WrongShape("the line must be an object with prompt and output")
    for key in data:
        if key not in _KEYS and not key.startswith("x-"):
            near = suggest(key, _KEYS)
            raise WrongShape(f"unknown key {key!r}" + (f"; did you mean {near!r}?" if near else ""))
    epoch = data.get("epoch")
    if epoch is not None and (isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 0):
        raise WrongShape(f"epoch must be a whole number of at least 0, not {epoch!r:.40}")
    turns, system = _read_turns(data)
    return _ReplayLine(turns, system, epoch, _read_answer(data))


def _read_answer(data: Mapping[str, Any]) -> Answer | str:
    error = data.get("error")
    if error is not None:
        return one_line(error)
    draft = draft_answer(data, read_amount(data, "latency"))
    counted_by = data.get("tokens_counted_by", draft.tokens_counted_by)
    if counted_by not in ("provider", "local", None):
        raise WrongShape(f"tokens_counted_by must be 'provider' or 'local', not {counted_by!r:.40}")
    return msgspec.structs.replace(draft, tokens_counted_by=counted_by)


def _read_turns(data: Mapping[str, Any]) -> tuple[UserTurns, str]:
    """The user's messages, and the system's as one text."""
    prompt, messages = data.get("prompt"), data.get("messages")
    if isinstance(prompt, str) and messages is None:
        return (prompt,), ""
    if prompt is not None or not isinstance(messages, list):
        raise WrongShape("the line needs prompt (text) or messages (a list), and not both")
    texts: dict[Any, list[str]] = {"user": [], "system": []}
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("content"), str):
            raise WrongShape(f"messages[{index}] needs role and content")
        if message.get("role") in ("user", "system"):
            texts[message["role"]].append(message["content"])
    return tuple(texts["user"]), "\n".join(texts["system"])


def _find_most_alike(text: str, others: Iterable[str]) -> str | None:
    """The text that shares the most words, as a part of both texts' words."""
    words = set(text.casefold().split())

    def shared(other: str) -> float:
        theirs = set(other.casefold().split())
        return len(words & theirs) / (len(words | theirs) or 1)

    candidates = [other for _, other in zip(range(_COMPARED_PROMPTS), others, strict=False)]
    best = max(candidates, key=shared, default=None)
    return best if best is not None and (best == text or shared(best) > 0) else None


def _quote_prompt(prompt: str) -> str:
    return repr(shorten_line(prompt, 80))
