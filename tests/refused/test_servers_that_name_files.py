"""A server chooses the names of the files that it sends, not where on the user's disk they go."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.challenges.challenge_folders import folder_with
from tests.cli.tally_process import Tally
from tests.http.conftest import Server, run_server

from tallymark.challenges.challenge_folder import pack

HONEST = "honest.txt"
CHALLENGES = {
    "files": """
        name: files
        goal: Send it back.
        data: {public: [honest.txt]}
        submission: {format: files}
        evaluator: {type: script, script: judge.py}
    """,
    "duel": """
        name: duel
        goal: Attack.
        kind: versus
        submission: {format: files}
        versus: {categories: [leak], judge: {type: scorer, scorer: 'contains(values=["x"])'}}
    """,
}
JUDGE = "def evaluate(*_): return {'succeeded': True}"


class Liar(ThreadingHTTPServer):
    """Stands before an honest server and gives the honest file another name."""

    name = HONEST

    def __init__(self, honest: Server, attempt: str) -> None:
        self.attempt = attempt
        liar, key = self, honest.keys["ada"]

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {"Authorization": f"Bearer {key}"}
                if body:
                    headers["Content-Type"] = self.headers["Content-Type"]
                told = honest.client.request(self.command, self.path, content=body, headers=headers)
                wrong = told.content.replace(
                    json.dumps(HONEST).encode(), json.dumps(liar.name).encode()
                )
                self.send_response(told.status_code)
                self.send_header("Content-Type", told.headers["Content-Type"])
                self.send_header("Content-Length", str(len(wrong)))
                self.end_headers()
                self.wfile.write(wrong)

            do_GET = do_POST = answer  # noqa: N815 (its names there)

            def log_message(self, *_: Any) -> None:
                """Says nothing."""

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture(scope="module")
def liar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Liar]:
    folder = tmp_path_factory.mktemp("liar")
    with run_server(str(folder / "tally.db"), workers=1) as honest:
        for name, text in CHALLENGES.items():
            files = {HONEST: "x", "judge.py": JUDGE}
            packed = pack(folder_with(folder / name, text, files))
            kind = {"Content-Type": "application/octet-stream"}
            made = honest.v1(
                "alice", "POST", "/challenges?force=true", content=packed, headers=kind
            )
            assert made.status_code == 201, made.text
        entered = honest.v1("charlie", "POST", "/challenges/files/attempts", json={}).json()
        attempt = entered["attempt"]["id"]
        path = f"/attempts/{attempt}/submission"
        sent = honest.v1("charlie", "POST", path, json={"answer": {HONEST: "x"}})
        assert sent.status_code in {200, 202}, sent.text
        path = "/challenges/duel/sides/red"
        sent = honest.v1("charlie", "POST", path, json={"answer": {HONEST: "x"}})
        assert sent.status_code == 201, sent.text
        server = Liar(honest, attempt)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        server.server_close()
        thread.join()


COMMANDS = {
    "enter": "attempt enter files --agent bob --data got",
    "submission": "attempt submission {attempt} -o got",
    "versus": "versus submission duel 1 -o got",
}
NAMES = [
    "../outside.txt",
    "a/../../outside.txt",
    "{tmp}/outside.txt",
    "C:/outside.txt",
    "..\\outside.txt",
    "outside\0.txt",
    ".bashrc",
    "linked.txt",
    "linked/outside.txt",
]


def ask(tally: Tally, liar: Liar, name: str, command: str) -> Any:
    liar.name = name
    env = {"TALLY_SERVER": f"http://127.0.0.1:{liar.server_port}", "TALLY_KEY": "tly_" + "k" * 43}
    return tally(*COMMANDS[command].format(attempt=liar.attempt).split(), env=env)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_honest_name_is_written(tmp_path: Path, liar: Liar, command: str) -> None:
    done = ask(Tally(tmp_path), liar, HONEST, command)
    assert (done.returncode, (tmp_path / "got" / HONEST).read_text()) == (0, "x"), done


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", NAMES)
def test_no_name_leads_out_of_the_folder(
    tmp_path: Path, liar: Liar, command: str, name: str
) -> None:
    home, inside = tmp_path / "home", tmp_path / "home" / "work" / "got"
    inside.mkdir(parents=True)
    (home / "mine.txt").write_text("mine")
    (inside / "linked.txt").symlink_to(home / "mine.txt")
    (inside / "linked").symlink_to(home)
    before = sorted(os.walk(tmp_path))
    done = ask(Tally(inside.parent), liar, name.format(tmp=home), command)
    assert done.returncode == 3, done
    assert "not written" in done.stderr or "nothing is written" in done.stderr
    assert sorted(os.walk(tmp_path)) == before
    assert (home / "mine.txt").read_text() == "mine"
