"""`cmd/…`: a program that reads the prompt on standard input and writes the answer.

It runs in the suite's folder. `TALLY_MESSAGES` names a file with the whole conversation as JSON,
for programs that want more than the prompt.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import tempfile
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, BinaryIO, cast

import msgspec

from tallymark.errors import InvalidInput, ModelError
from tallymark.models.model import Answer
from tallymark.models.model_answers import finish_answer
from tallymark.models.model_failures import one_line
from tallymark.models.token_count import load_tokenizer

if TYPE_CHECKING:
    from tallymark.models.model import Request
    from tallymark.models.model_kinds import ModelReference


class CommandModel:
    """Starts the program once for every request, in a process group of its own."""

    def __init__(self, reference: ModelReference, words: list[str]) -> None:
        self.name = reference.text
        self._words = words
        self._folder = reference.folder
        self._pricing = reference.pricing

    def load(self) -> None:
        """Load the tokenizer: no program counts its tokens."""
        load_tokenizer()

    async def answer(self, request: Request) -> Answer:
        """The program's output. On cancellation the program and all it started are killed."""
        if request.mcp_servers:
            raise ModelError(
                f"{self.name} cannot be given MCP servers", hint="leave mcp_server out"
            )
        # It has no name, only a descriptor that the program inherits: nothing is left behind.
        with tempfile.TemporaryFile() as conversation:
            conversation.write(msgspec.json.encode(request.messages))
            conversation.seek(0)
            began = perf_counter()
            program = await self._start(conversation)
            code = await program.finish(request.prompt.encode())
            seconds = perf_counter() - began
        if code:
            raise self._make_failure(code, program.errors)
        text = program.output.decode(errors="replace").removesuffix("\n")
        draft = Answer(output=text, latency=seconds)
        return await finish_answer(request, draft, self._pricing)

    async def close(self) -> None:
        """Nothing is held between requests."""

    async def _start(self, conversation: BinaryIO) -> _RunningCommand:
        number = conversation.fileno()
        try:
            _, program = await asyncio.get_running_loop().subprocess_exec(
                _RunningCommand,
                *self._words,
                cwd=self._folder,
                env=os.environ | {"TALLY_MESSAGES": f"/dev/fd/{number}"},
                pass_fds=(number,),
                start_new_session=True,
            )
        except OSError as error:
            raise ModelError(f"{self._words[0]} cannot be started: {error.strerror}") from None
        return program

    def _make_failure(self, code: int, errors: bytearray) -> ModelError:
        lines = errors.decode(errors="replace").strip().splitlines()
        ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return ModelError(
            f"{self._words[0]} {ended}" + (f": {one_line(lines[-1])}" if lines else "")
        )


def open_command(reference: ModelReference) -> CommandModel:
    """The words are split as a shell would, but no shell is involved."""
    try:
        words = shlex.split(reference.rest)
    except ValueError as error:
        raise InvalidInput(f"{reference.text!r} cannot be read: {error}") from None
    if not words:
        raise InvalidInput(f"{reference.text!r} names no program")
    return CommandModel(reference, words)


class _RunningCommand(asyncio.SubprocessProtocol):
    """A running program, and what it has written so far."""

    def __init__(self) -> None:
        self.output = bytearray()
        self.errors = bytearray()
        self._ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        (self.output if fd == 1 else self.errors).extend(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (never any)
        """The program has ended and its pipes are closed."""
        if not self._ended.done():  # cancelled when the loop is closing
            self._ended.set_result(None)

    async def finish(self, prompt: bytes) -> int:
        """Send the prompt, wait for the end, and return the exit code."""
        stdin = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        stdin.write(prompt)
        stdin.write_eof()
        try:
            # Shielded, since it is awaited again below even if this task is cancelled.
            await asyncio.shield(self._ended)
        except asyncio.CancelledError:
            with suppress(ProcessLookupError):
                os.killpg(self._transport.get_pid(), signal.SIGKILL)
            raise
        finally:
            self._transport.close()  # a child that left the group may hold on to the pipes
            await self._ended
        return self._transport.get_returncode() or 0
