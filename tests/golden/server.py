"""What stories ask over HTTP: an agent, an OpenAI-compatible model, and answers that are none."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def answer(path: str, asked: dict[str, Any]) -> tuple[int, str]:
    """The status and the body for a request."""
    if found := re.search(r"/status/(\d+)", path):
        return int(found[1]), json.dumps({"error": {"message": f"it is {found[1]}"}})
    if path == "/plain":
        return 200, json.dumps({"output": f"You said: {asked['prompt']}", "cost": 0.001})
    if path == "/facts":
        return 200, json.dumps({"accuracy": 0.75, "explanation": "three of four", "claims": []})
    if path.endswith("/chat/completions"):
        return 200, json.dumps(_completion(asked))
    return 200, {"/text": "just text", "/empty": "{}"}.get(path, "")


def _completion(asked: dict[str, Any]) -> dict[str, Any]:
    """A model that repeats what it is told, and a judge that likes to be called dear."""
    said = str(asked["messages"][-1]["content"])
    if "It is kind" in said:
        choice = "met" if "dear" in said else "not met"
        said = json.dumps({"reasoning": "I read it.", "choice": choice})
        said = "I cannot say." if "Confusing" in str(asked) else said
    return {
        "id": "c-1",
        "object": "chat.completion",
        "created": 0,
        "model": asked.get("model", "tiny"),
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": said},
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        status, body = answer(self.path, json.loads(self.rfile.read(length) or b"{}"))
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (its name there)
        """Nothing: stories show what the caller saw."""


@contextmanager
def serving() -> Iterator[str]:
    """Its address. The port has five digits, so that lines break where they broke before."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
