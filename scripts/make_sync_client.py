"""Writes `client/sync/` from `client/aio/`, the same without event loops: `make client`.

A test compares what is there with what this would write.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "src" / "tallymark" / "client"
FILES = tuple(sorted(path.name for path in (CLIENT / "aio").glob("[a-z]*.py")))
NOTE = "# Written by `make client` from client/aio/{name}: change that one.\n"
_WORDS = (
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\b(_?)Async([A-Z])", r"\1\2"),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"\baclose\b", "close"),
    (r"\baread\b", "read"),
    (r"\baiter_lines\b", "iter_lines"),
    (r"\baiter_bytes\b", "iter_bytes"),
    (r"\bawait_within\b", "call_within"),
    (r"^import anyio\n", ""),
    (r"\banyio\.sleep\b", "time.sleep"),
    (r"tallymark\.client\.aio", "tallymark.client.sync"),
    (r"tallymark\.client\.async_resources", "tallymark.service.attempts"),
    (r"^from collections\.abc import", "import time\nfrom collections.abc import"),
)


def write_sync(name: str) -> str:
    """The text of a file of the other client."""
    text = (CLIENT / "aio" / name).read_text(encoding="utf-8")
    for pattern, word in _WORDS:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    if "time.sleep" not in text:
        text = text.replace("import time\n", "", 1)
    head, _, rest = text.partition("\n")
    text = f"{head}\n{rest}".replace(
        "\nfrom __future__", f"\n{NOTE.format(name=name)}\nfrom __future__", 1
    )
    ruff = [Path(sys.executable).parent / "ruff"]
    for words in (
        ["check", "--fix", "--unsafe-fixes", "-q", "--select", "I,UP028"],
        ["format", "-q"],
    ):
        done = subprocess.run(
            [*ruff, *words, "--stdin-filename", str(CLIENT / "sync" / name), "-"],
            input=text, capture_output=True, text=True, check=True,
        )  # fmt: skip
        text = done.stdout
    return text


def main() -> None:
    for name in FILES:
        (CLIENT / "sync" / name).write_text(write_sync(name), encoding="utf-8")


if __name__ == "__main__":
    main()
