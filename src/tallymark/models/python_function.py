"""`python/module:function` and `python/file.py:function`: any agent that Python can call.

Its first parameter gets the prompt; parameters named `messages`, `settings`, `mcp_servers` and
`epoch` get those. It may be async. It returns text, a mapping that `model_answers` reads, or
a `Trace`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.abandonable_calls import call_in_thread
from tallymark.errors import InvalidInput, ModelError
from tallymark.importing import (
    describe_filling,
    find_raising_line,
    import_object,
    is_async,
    match_parameters,
)
from tallymark.models.model import Answer
from tallymark.models.model_answers import (
    WrongShape,
    draft_answer,
    draft_answer_from_trace,
    finish_answer,
)
from tallymark.models.model_failures import one_line
from tallymark.models.token_count import load_tokenizer
from tallymark.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.models.model import Request
    from tallymark.models.model_kinds import ModelReference
    from tallymark.models.token_prices import Pricing

_NAMED = ("messages", "settings", "mcp_servers", "epoch")


class PythonFunctionModel:
    """A function that answers. One that is not async runs in a thread."""

    def __init__(
        self, name: str, function: Callable[..., Any], pricing: Pricing | None = None
    ) -> None:
        self.name = name
        self._function = function
        self._pricing = pricing
        self._prompt_first, self._filled = match_parameters(name, function, "prompt", _NAMED)
        if not (self._prompt_first or {"prompt", "messages"} & set(self._filled.values())):
            raise InvalidInput(f"{name} takes no prompt", hint=describe_filling("prompt", _NAMED))

    def load(self) -> None:
        """Load the tokenizer: most functions do not count their tokens."""
        load_tokenizer()

    async def answer(self, request: Request) -> Answer:
        """The function's return; an exception is a ModelError."""
        if request.mcp_servers and "mcp_servers" not in self._filled:
            raise ModelError(
                f"{self.name} cannot be given MCP servers",
                hint="add a parameter mcp_servers to the function, or leave mcp_server out",
            )
        first = (request.prompt,) if self._prompt_first else ()
        others = {name: _choose_argument(what, request) for name, what in self._filled.items()}
        call = partial(self._function, *first, **others)
        try:
            result, seconds = await self._make_call(call)
        except ModelError:
            raise
        except (Exception, SystemExit) as error:
            raise ModelError(
                f"{self.name} raised {type(error).__name__}: {one_line(error)}"
                f"{find_raising_line(error)}"
            ) from error
        return await finish_answer(request, self._draft(result, seconds), self._pricing)

    async def close(self) -> None:
        """Do nothing: no connection is open."""

    async def _make_call(self, call: Callable[[], Any]) -> tuple[Any, float]:
        """The function's return and its seconds, in a thread of its own if it is not async."""
        if is_async(self._function):
            began = perf_counter()
            return await call(), perf_counter() - began

        def time_call() -> tuple[Any, float]:
            began = perf_counter()
            return call(), perf_counter() - began

        result, seconds = await call_in_thread(time_call)
        if inspect.isawaitable(result):
            began = perf_counter()
            return await result, seconds + perf_counter() - began
        return result, seconds

    def _draft(self, result: Any, latency: float) -> Answer:
        try:
            if isinstance(result, str):
                return Answer(output=result, latency=latency)
            if isinstance(result, Trace):
                return draft_answer_from_trace(result, latency)
            if isinstance(result, Mapping):
                return draft_answer(result, latency)
        except WrongShape as error:
            raise ModelError(f"{self.name} returned a wrong value: {error}") from None
        raise ModelError(
            f"{self.name} returned a value of type {type(result).__name__}",
            hint="return text, a mapping with output, or a Trace",
        )


def open_function(reference: ModelReference) -> PythonFunctionModel:
    """Import the function at once, so that a wrong name shows before anything runs."""
    home, colon, name = reference.rest.rpartition(":")
    if not colon or not home or not name:
        raise InvalidInput(
            f"{reference.text!r} names no function",
            hint="write python/module:function or python/file.py:function",
        )
    function = import_object(home, name, folder=reference.folder)
    if not callable(function):
        raise InvalidInput(f"{name!r} in {home} is not a function")
    return PythonFunctionModel(reference.text, function, reference.pricing)


def _choose_argument(what: str, request: Request) -> Any:
    match what:
        case "messages":
            return [msgspec.to_builtins(message) for message in request.messages]
        case "settings":
            return dict(request.settings)
        case "mcp_servers":
            return list(request.mcp_servers)
        case "epoch":
            return request.epoch
        case _:
            return request.prompt
