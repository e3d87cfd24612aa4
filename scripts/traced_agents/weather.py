"""The agent that every library here watches: a model, one tool, and the model's answer.

It runs in an environment that holds the library and OpenAI's client, and nothing of Tallymark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

QUESTION = "How warm is it in Paris?"
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather now.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]
EXPORTS = os.environ.get("EXPORTS", f"{os.environ['RECORDER']}/v1/traces")


def weather(city: str) -> str:
    """The weather now."""
    if "BROKEN_TOOL" in os.environ:
        raise RuntimeError("the station is down")
    return f"12 degrees in {city}"


def make_client(kind: Callable[..., Any]) -> Any:
    """A client of the recorder's own model."""
    return kind(base_url=f"{os.environ['RECORDER']}/v1", api_key="none")


def answer(question: str, client: Any, tool: Callable[..., str] = weather) -> str:
    """What the model says in the end, with as many calls of the tool as it wishes."""
    messages: list[Any] = [
        {"role": "system", "content": "Answer in one sentence."},
        {"role": "user", "content": question},
    ]
    while True:
        said = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=TOOLS)
        message = said.choices[0].message
        if not message.tool_calls:
            return str(message.content)
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            told = tool(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": told})
