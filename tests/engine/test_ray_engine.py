"""Where no Ray cluster is, that is said at once; what it does is in `test_conformance.py`."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tallymark.engine import ray_engine


@contextmanager
def listening(answer: bytes) -> Iterator[str]:
    """An address where somebody answers so, once."""
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
