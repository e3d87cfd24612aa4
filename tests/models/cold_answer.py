"""A model's first answer in a process that has asked nothing yet, and what was loaded meanwhile.

`python cold_answer.py REFERENCE [load] [mcp]` prints one JSON document: what was imported while the
model answered, and what was imported or opened between any two looks at the clock.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from tallymark.models import McpServer, Message, Model, Request, open_model
from tallymark.models.model import Loadable

SUMS = McpServer(
    command=sys.executable, arguments=(str(Path(__file__).with_name("sums_server.py")),)
)


class Watch:
    """Notes what is loaded; the clock that it gives to the models says when they looked at it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.looks: list[int] = []
        self.on = False

    def hook(self, event: str, given: tuple[Any, ...]) -> None:
        if self.on and event in ("import", "open") and isinstance(given[0], str):  # not pipes
            self.events.append(f"{event} {given[0]}")

    def clock(self) -> float:
        if self.on:
            self.looks.append(len(self.events))
        return time.perf_counter()

    def give_clock(self) -> None:
        for name, module in sys.modules.items():
            if name.startswith("tallymark.models.") and hasattr(module, "perf_counter"):
                module.perf_counter = self.clock  # type: ignore[attr-defined]


def open_given() -> Model:
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    from tallymark.models.pydantic_ai_model import PydanticAiModel

    return PydanticAiModel(FunctionModel(lambda *_: ModelResponse(parts=[TextPart("Hello.")])))


async def answer(reference: str, wanted: list[str]) -> dict[str, Any]:
    model = open_given() if reference == "given" else open_model(reference)
    if "load" in wanted and isinstance(model, Loadable):
        model.load()
    servers = (SUMS,) if "mcp" in wanted else ()
    request = Request(messages=(Message("user", "What is 2 + 2?"),), mcp_servers=servers)
    watch = Watch()
    sys.addaudithook(watch.hook)
    watch.give_clock()
    watch.on = True
    said = await model.answer(request)
    watch.on = False
    await model.close()
    looks = watch.looks
    return {
        "output": said.output,
        "imported": [event for event in watch.events if event.startswith("import")],
        "between": [watch.events[start:end] for start, end in pairwise(looks)],
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(answer(sys.argv[1], sys.argv[2:]))))  # noqa: T201 (its output)
