"""Refusals without a Ray cluster; `test_conformance.py` has the rest."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tallymark.engine import ray_engine
from tallymark.errors import WorkFailed


@contextmanager
def listening(answer: bytes) -> Iterator[str]:
    """Listen at an address that gives this answer once."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            link, _ = server.accept()
            with link:
                link.recv(1000)
                link.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"-ERR\r\n", b""])
def test_somebody_else_who_listens_is_told_from_ray(answer: bytes) -> None:
    with listening(answer) as address, pytest.raises(ConnectionError, match="is not Ray"):
        ray_engine._require_listener(address)


def test_the_settings_of_http_2_will_do() -> None:
    with listening(b"\0\0\x06\4" + bytes(11)) as address:
        ray_engine._require_listener(address)


def test_a_dead_process_of_rays_that_was_started_here_is_told() -> None:
    dead: list[tuple[str, object]] = [("log_monitor", None)]
    node = SimpleNamespace(all_processes={"raylet": []}, dead_processes=lambda: dead)
    ray_engine._require_node(node)
    dead.append(("raylet", None))
    with pytest.raises(WorkFailed, match=r"Ray has died .* run the same command again"):
        ray_engine._require_node(node)


def test_a_dead_process_of_rays_that_another_started_is_told(tmp_path: Path) -> None:
    path = tmp_path / "raylet"
    node = SimpleNamespace(all_processes={}, raylet_socket_name=str(path))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        ray_engine._require_node(node)
    with pytest.raises(WorkFailed, match="Ray has died"):
        ray_engine._require_node(node)
    path.unlink()
    with pytest.raises(WorkFailed, match="Ray has died"):
        ray_engine._require_node(node)
