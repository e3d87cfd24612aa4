"""What every kind of model must do, whatever it reaches.

A kind is set up as an agent that answers with the prompt, and that at three special prompts answers
with nothing, fails or hangs, where the kind can do that. `CHECKS` is the suite: each check takes
the kind and raises when it does not hold.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tallymark.errors import ModelError
from tallymark.models import Answer, Message, Model, Pace, Request, answer_with_retries
from tallymark.traces import Span

EMPTY = "answer with nothing"
FAIL = "fail now"
HANG = "hang for ever"
PLAIN = "What is 2 + 2?"
UNICODE = "Grüße, 日本語, 🎉, עברית, e\u0301, \u2028, \u202eright to left"
LINES = '  "quoted"\n\\n\ttab {"json": [1, 2]}  '
LONG = "acknowledgements responsibilities " * 150_000  # long words: few tokens to count
MANY = [f"question number {number}" for number in range(50)]
ANSWERED = [PLAIN, UNICODE, LINES, LONG, *MANY]


FULL = Answer(
    output="",
    latency=0.25,
    input_tokens=3,
    output_tokens=4,
    tokens_counted_by="local",
    cost=0.125,
    model="m",
    spans=(
        Span(span_id="1", span_type="tool", tool_name="add", tool_input='{"a":1}', error="no"),
        Span(span_id="2", span_type="generation", output="x", metadata={"k": [1, {"a": None}]}),
    ),
)
"""An answer with everything in it."""


@dataclass(frozen=True)
class Kind:
    """One kind of model, set up to be checked."""

    open: Callable[[], Model]
    busy: Callable[[], int] = lambda: 0
    """How many requests are at work on the other side."""


def request(prompt: str, epoch: int = 0) -> Request:
    return Request(messages=(Message("user", prompt),), epoch=epoch)


async def ask(kind: Kind, prompt: str) -> Answer:
    model = kind.open()
    try:
        return await model.answer(request(prompt))
    finally:
        await model.close()


async def until(state: Callable[[], bool]) -> None:
    """Waits for a state of something that has no events of its own."""
    deadline = time.monotonic() + 20
    while not state():
        assert time.monotonic() < deadline, "the state did not come"
        await asyncio.sleep(0.005)


def processes(mark: str) -> list[str]:
    """The names of the running programs whose environment holds the mark, our own not counted."""
    names = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                names.append((folder / "comm").read_text().strip())
        except OSError:  # ended meanwhile, or another user's
            continue
    return names


async def answers(kind: Kind) -> None:
    assert (await ask(kind, PLAIN)).output == PLAIN


async def keeps_every_character(kind: Kind) -> None:
    assert (await ask(kind, UNICODE)).output == UNICODE


async def keeps_lines_and_spaces(kind: Kind) -> None:
    assert (await ask(kind, LINES)).output == LINES


async def answers_with_5_mb(kind: Kind) -> None:
    assert len(LONG) > 5_000_000
    assert (await ask(kind, LONG)).output == LONG


async def may_answer_with_nothing(kind: Kind) -> None:
    answer = await ask(kind, EMPTY)
    assert answer.output == ""


async def reports_numbers_or_none(kind: Kind) -> None:
    answer = await ask(kind, PLAIN)
    assert answer.latency is None or 0 <= answer.latency < math.inf
    assert answer.cost is None or 0 <= answer.cost < math.inf
    known = answer.tokens_counted_by is not None
    assert (answer.input_tokens is not None) == (answer.output_tokens is not None) == known


async def fails_with_one_sentence(kind: Kind) -> None:
    with pytest.raises(ModelError) as caught:
        await ask(kind, FAIL)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


async def goes_on_after_a_failure(kind: Kind) -> None:
    model = kind.open()
    with pytest.raises(ModelError):
        await model.answer(request(FAIL))
    assert (await model.answer(request(PLAIN))).output == PLAIN
    await model.close()


async def closes_twice_and_unused(kind: Kind) -> None:
    model = kind.open()
    await model.close()
    await model.answer(request(PLAIN))
    await model.close()
    await model.close()


async def answers_50_at_once(kind: Kind) -> None:
    model = kind.open()
    answers = await asyncio.gather(*(model.answer(request(prompt)) for prompt in MANY))
    assert [answer.output for answer in answers] == MANY
    await model.close()


async def leaves_nothing_behind_when_cancelled(kind: Kind) -> None:
    model = kind.open()
    task = asyncio.create_task(model.answer(request(HANG)))
    await until(lambda: kind.busy() == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: kind.busy() == 0)
    assert (await model.answer(request(PLAIN))).output == PLAIN
    await model.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def can_be_given_up_on(kind: Kind) -> None:
    model = kind.open()
    await model.answer(request(PLAIN))
    with pytest.raises(ModelError, match=r"did not answer in 0\.1 s") as caught:
        await answer_with_retries(model, request(HANG), Pace(1), tries=1, timeout=0.1)
    assert caught.value.retryable
    await until(lambda: kind.busy() == 0)
    await model.close()


CHECKS: list[tuple[Callable[[Kind], Awaitable[None]], frozenset[str]]] = [
    (answers, frozenset()),
    (keeps_every_character, frozenset()),
    (keeps_lines_and_spaces, frozenset()),
    (answers_with_5_mb, frozenset()),
    (reports_numbers_or_none, frozenset()),
    (closes_twice_and_unused, frozenset()),
    (answers_50_at_once, frozenset()),
    (may_answer_with_nothing, frozenset({EMPTY})),
    (fails_with_one_sentence, frozenset({FAIL})),
    (goes_on_after_a_failure, frozenset({FAIL})),
    (leaves_nothing_behind_when_cancelled, frozenset({HANG})),
    (can_be_given_up_on, frozenset({HANG})),
]
"""Each check, and the special prompts that it needs."""
