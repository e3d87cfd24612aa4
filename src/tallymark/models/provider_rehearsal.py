"""One request in play, so that nothing is left to load when a model is asked in earnest.

The providers' libraries load much of themselves with their first request and its answer, and a
clock that runs meanwhile measures that. Loads pydantic-ai.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx2
import msgspec
from pydantic_ai.direct import model_request

from tallymark.models.model import Message, Request
from tallymark.models.provider_steps import ProviderSteps, make_history
from tallymark.models.provider_transport import play

if TYPE_CHECKING:
    from pydantic_ai.models import Model

_QUESTION = Request(messages=(Message("user", "Are you there?"),))
_CHAT: dict[str, Any] = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Yes"}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5},
}
_RESPONSE: dict[str, Any] = {
    "id": "1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "m",
    "output": [
        {
            "type": "message",
            "id": "1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Yes", "annotations": []}],
        }
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 4,
        "output_tokens": 1,
        "total_tokens": 5,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    },
}
_MESSAGE: dict[str, Any] = {
    "id": "1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 4, "output_tokens": 1},
}
_EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": _MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Yes"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": _MESSAGE["usage"]},
    {"type": "message_stop"},
)


async def rehearse(model: Model) -> None:
    """Ask a model that sends through our transport; what goes wrong shows with a real request."""
    history = make_history(_QUESTION)
    with suppress(Exception), play(_answer):
        response = await model_request(model, history)
        ProviderSteps(None).keep_model_call(history, response, 0.0)


def _answer(request: httpx2.Request) -> httpx2.Response:
    if request.url.path.endswith("/messages"):
        events = "".join(
            f"event: {event['type']}\ndata: {msgspec.json.encode(event).decode()}\n\n"
            for event in _EVENTS
        )
        kind = {"Content-Type": "text/event-stream"}
        return httpx2.Response(200, text=events, headers=kind, request=request)
    answer = _RESPONSE if request.url.path.endswith("/responses") else _CHAT
    return httpx2.Response(200, json=answer, request=request)
