"""A server in a process of its own: killed it loses nothing, told to end it ends.

`make proof PROOF=server` does the same often, and under more load.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from scripts.prove_server import Size, listen_and_stop, prove_kills
from scripts.server_process import set_up, start_server

from tallymark.store import open_store


def test_what_was_answered_before_a_kill_is_there_once(tmp_path: Path) -> None:
    found = prove_kills(str(tmp_path / "tally.db"), Size(times=1, least=40))
    assert found.startswith("killed 1 times")


def test_listeners_do_not_keep_it_from_ending(tmp_path: Path) -> None:
    db = str(tmp_path / "tally.db")
    with open_store(db) as store:
        set_up(store)
    server = start_server(db, workers=1)
    asyncio.run(listen_and_stop(server, 5))
    assert server.process.returncode == 0, server.last_words
