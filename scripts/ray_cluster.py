"""A local Ray cluster for proofs, with nodes that can be killed.

    python -m scripts.ray_cluster CPUS [CPUS ...]    a head, and more nodes; says its address

For a line `kill` on its standard input it kills the last node, for `add` there is another one as
that was. It ends with its input.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

_STORE_BYTES = 150 * 1024 * 1024


class RayCluster:
    """A cluster that was started here."""

    def __init__(self, process: subprocess.Popen[str], given: IO[str], told: IO[str]) -> None:
        self.process = process
        self._given, self._told = given, told
        self.address = self._read("at ")

    def kill_node(self) -> None:
        """Kills the last node with all that runs on it; returns when it is dead."""
        self._tell("kill")

    def add_node(self) -> None:
        """Starts another instead of one that was killed; returns when it is there."""
        self._tell("add")

    def _tell(self, word: str) -> None:
        self._given.write(f"{word}\n")
        self._given.flush()
        self._read(f"done {word}")

    def _read(self, word: str) -> str:
        for line in self._told:
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise RuntimeError("the Ray cluster has ended")


@contextmanager
def open_cluster(*cpus: int) -> Iterator[RayCluster]:
    """A cluster of nodes with so many CPUs each."""
    words = [sys.executable, "-m", "scripts.ray_cluster", *map(str, cpus)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, stderr=subprocess.DEVNULL, **pipes) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("no pipes")
        try:
            yield RayCluster(process, process.stdin, process.stdout)
        finally:
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def serve(cpus: list[int]) -> None:
    """What the process does."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster  # noqa: PLC0415 (after the variable)

    told: dict[str, Any] = {"include_dashboard": False, "object_store_memory": _STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": cpus[0], **told})
    nodes: list[Any] = []

    def add(count: int) -> None:
        nodes.append(cluster.add_node(num_cpus=count, object_store_memory=_STORE_BYTES))
        cluster.wait_for_nodes()

    for each in cpus[1:]:
        add(each)
    _say(f"at {cluster.address}")
    for line in sys.stdin:
        if line.strip() == "kill":
            cluster.remove_node(nodes.pop(), allow_graceful=False)
        else:
            add(cpus[-1])
        _say(f"done {line.strip()}")
    cluster.shutdown()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve([int(each) for each in sys.argv[1:]])
