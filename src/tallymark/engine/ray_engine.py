"""`RayEngine`: blocks of work as tasks of a Ray cluster, or of one that is started here.

Ray decides where a task runs. What a lost worker or node costs is decided here, as it is for
processes: Ray's own retries are off, so that a block's losses are counted once.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import tempfile
import uuid
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Self

from tallymark.engine.engine import (
    BlockDone,
    BlockEnd,
    BlockFailed,
    BlockLost,
    Engine,
    PackedWork,
    WorkBench,
    describe_error,
)
from tallymark.errors import WorkFailed
from tallymark.text import shorten_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tallymark.engine.engine import Work, WorkerPool

_BLOCKS_EACH = 2
"""Tasks per worker: a running one, and one that is ready when it ends."""
_STORE_BYTES = 256 * 1024 * 1024
"""Object store of a cluster started here: blocks and results are small and few."""
_PATIENCE = 5.0
_LOOK_EVERY = 1.0
"""Seconds between checks that Ray is still running."""
_NOBODY = (errno.ECONNREFUSED, errno.ENOENT)
_SETTINGS, _FRAME_HEAD = b"\4", 9
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + bytes(5)
"""Preface of an HTTP/2 client, which Ray speaks; a server answers with its settings."""
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no usage reports
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_LOOK = "look at it with `ray status`, or leave the address out to start one here"
_ASKS = "it asks for a token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN where ~/.ray has none"
_bench = WorkBench()
"""Name of a Ray worker process that runs our blocks."""


class RayEngine(Engine):
    """Tasks in a Ray cluster, or in one on this machine that ends with the engine."""

    def __init__(self, address: str | None, workers: int | None) -> None:
        import ray  # noqa: PLC0415 (heavy, and an extra: `choose_engine` has looked for it)
        import ray.exceptions  # noqa: PLC0415
        import ray.util  # noqa: PLC0415

        self._ray: Any = ray
        self._started = not self._ray.is_initialized()
        if self._started:
            self._connect(address, workers)
        slots = int(self._ray.cluster_resources().get("CPU", 0))
        super().__init__(workers or max(1, slots))
        here = self._ray.util.get_node_ip_address()
        alive = [each for each in self._ray.nodes() if each["Alive"]]
        self.shares_files = all(each["NodeManagerAddress"] == here for each in alive)
        self._task = self._ray.remote(num_cpus=1, max_retries=0, retry_exceptions=False)(_do_block)

    def _connect(self, address: str | None, workers: int | None) -> None:
        for name, value in _QUIET.items():
            os.environ.setdefault(name, value)
        # We report what happens to workers; Ray's log threads would write into our output.
        logging.getLogger("ray").setLevel(logging.CRITICAL)
        self._ray._private.worker.print_to_stdstream = lambda *_, **__: None  # noqa: SLF001
        here: dict[str, Any] = {
            "num_cpus": workers or os.cpu_count(),
            "include_dashboard": False,
            "object_store_memory": _STORE_BYTES,
        }
        quiet = {"log_to_driver": False, "configure_logging": False}
        with nullcontext(bytes) if address is None else _catch_stderr() as told:
            try:
                if address is not None:
                    _require_listener(address)
                # "local" starts one of its own, even where another runs on this machine.
                self._ray.init(address or "local", **({} if address else here), **quiet)
            except (OSError, RuntimeError, ValueError, self._ray.exceptions.RayError) as error:
                said = shorten_line(str(error), 200)
                if address is None:
                    raise WorkFailed(f"Ray cannot be started here: {said}") from None
                raise WorkFailed(
                    f"no Ray cluster can be reached at {address}: {said}",
                    hint=_ASKS if b"Unauthenticated" in told() else _LOOK,
                ) from None

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        if self._started:
            self._ray.shutdown()

    def _open_pool(self, work: Work[Any, Any]) -> AbstractContextManager[WorkerPool]:
        return _RayCrew(self._ray, self._task, work, _BLOCKS_EACH * self.workers)


class _RayCrew:
    """The tasks of one `map`."""

    def __init__(self, ray: Any, task: Any, work: Work[Any, Any], most: int) -> None:
        self._ray = ray
        self._task = task
        self._token = uuid.uuid4().hex
        self._work = ray.put(PackedWork.pack(work))
        self._most = most
        self._under_way: dict[Any, int] = {}
        self._node: Any = ray._private.worker._global_node  # noqa: SLF001 (it tells nobody else)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for reference in self._under_way:
            with suppress(Exception):
                self._ray.cancel(reference, force=True)

    @property
    def has_room(self) -> bool:
        return len(self._under_way) < self._most

    def begin(self, number: int, block: Any) -> None:
        with self._speak_first():
            # Inside a list, the work is fetched only by processes that do not have it.
            reference = self._task.remote(self._token, [self._work], block)
        self._under_way[reference] = number

    def wait(self) -> list[tuple[int, BlockEnd]]:
        waited = list(self._under_way)
        ready: list[Any] = []
        while not ready:
            with self._speak_first():
                ready, _ = self._ray.wait(waited, num_returns=1, timeout=_LOOK_EVERY)
        with self._speak_first():
            more, _ = self._ray.wait(waited, num_returns=len(waited), timeout=0)
            found = dict.fromkeys((*ready, *more))
            return [(self._under_way.pop(each), self._end(each)) for each in found]

    @contextmanager
    def _speak_first(self) -> Iterator[None]:
        """Report a dead node before Ray does, whose core would end this process."""
        try:
            _require_node(self._node)
            yield
        except OSError:  # it has died just now
            _require_node(self._node)
            raise

    def _end(self, reference: Any) -> BlockEnd:
        failures = self._ray.exceptions
        try:
            kind, said = self._ray.get(reference)
        except failures.RayTaskError as error:  # raised outside of our own care
            return BlockFailed(describe_error(error.cause))
        except failures.RayError as error:
            gone = (failures.NodeDiedError, failures.ObjectLostError, failures.OwnerDiedError)
            how = shorten_line(str(error), 200)
            return BlockLost(f"was lost by Ray: {how}", blamed=not isinstance(error, gone))
        return BlockDone(said) if kind == "done" else BlockFailed(said)


def _do_block(token: str, work: list[Any], block: Any) -> tuple[str, Any]:
    """Run a block in a Ray worker process."""
    try:
        if not _bench.is_ready(token):
            import ray  # noqa: PLC0415 (heavy, and loaded here already)

            _bench.open(token, ray.get(work[0]))
        return "done", _bench.do(block)
    except BaseException as error:  # noqa: BLE001 (it is reported, and the next block may succeed)
        return "failed", describe_error(error)


def _require_node(node: Any) -> None:
    """Raise WorkFailed if Ray's process on this machine is gone."""
    if node.all_processes:
        alive = "raylet" not in {kind for kind, _ in node.dead_processes()}
    else:
        with socket.socket(socket.AF_UNIX) as link:
            alive = link.connect_ex(node.raylet_socket_name) not in _NOBODY
    if not alive:
        raise WorkFailed(
            "Ray has died on this machine: its process (raylet) is gone",
            hint="finished work is stored; run the same command again to continue, or for a suite:"
            " tally run --resume latest",
        )


@contextmanager
def _catch_stderr() -> Iterator[Callable[[], bytes]]:
    """Collect standard error: Ray's core writes a line a second while it cannot connect."""
    with tempfile.TemporaryFile() as caught:

        def read() -> bytes:
            caught.seek(0)
            return caught.read()

        shown = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            yield read
        finally:
            os.dup2(shown, 2)
            os.close(shown)


def _require_listener(address: str) -> None:
    """Raise ConnectionError if Ray does not listen there; Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdecimal():  # else a word that Ray knows, such as auto
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _PATIENCE) as link:
                link.sendall(_HELLO)
                answer = link.recv(_FRAME_HEAD)
        except OverflowError:
            raise ConnectionError("there is no such port") from None
        # An encrypted connection can be checked only by Ray itself.
        if answer[3:4] != _SETTINGS and os.environ.get("RAY_USE_TLS", "0") == "0":
            raise ConnectionError("what listens there is not Ray")
