"""Where stories are played: folders, an environment and a clock of their own; the transcript."""

from __future__ import annotations

import atexit
import gzip
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.golden.corpus import Content, Step, Story
from tests.golden.masks import MASKS, MEASURED, Mask, Masker
from tests.golden.server import serving
from tests.golden.zygote import Call, Outcome, Zygote

from tallymark.store import open_store

ROOT = Path(__file__).parents[2]

STORE = ".tally/tally.db"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

WARM = (
    "tally run suites/support-desk.yaml --report report.html",
    "tally run suites/my-eval-suite.yaml -m http://127.0.0.1:9/ --retries 0 --limit 1",
    "tally validate suites/support-desk.yaml",
    "tally score traces -s word_count -s no_errors --formula success_pct -o scored.jsonl",
    "tally formula check success_pct",
    "tally challenge check challenges/prompt-race",
    "tally challenge check challenges/red-blue-guard",
    "tally challenge publish challenges/prompt-race",
    "tally ratings",
    "tally attempt report advanced-prompt-challenge --agent alice --metric cost=1",
    "tally leaderboard advanced-prompt-challenge",
    "tally rescore advanced-prompt-challenge --formula cost",
    "tally challenge publish challenges/red-blue-guard",
    "tally versus settle red-blue-guard",
    "tally traces list",
    "tally rules list",
    "tally admin check",
    "tally admin keys list",
    "tally compete nothing --program no-such-program",
    "tally show nothing --server nobody",
    "tally challenge publish nothing --server http://127.0.0.1:9",
)
"""Commands that between them load nearly all that the others do."""


@dataclass(frozen=True)
class Stage:
    """What stories need: somebody who runs their commands, a server's address, an empty store."""

    command: Callable[[Call], Outcome]
    server: str
    empty: Path
    masks: tuple[Mask, ...] = MASKS

    def play(self, story: Story, keep: dict[str, Path] | None = None) -> str:
        """The transcript of a story; files of its folder that are to be kept go to their places."""
        with tempfile.TemporaryDirectory(prefix="tally-") as made:
            here, home = (Path(made).resolve() / name for name in ("here", "home"))
            here.mkdir()
            home.mkdir()
            places = {str(here): "{here}", str(home): "{home}", str(ROOT): "{repo}"}
            places[self.server] = "{server}"
            masks = self.masks + MEASURED if story.measured else self.masks
            masker = Masker(places, tuple(m for m in masks if m.label not in story.unmasked))
            _lay(here, story.copy)
            if story.store:
                (here / STORE).parent.mkdir()
                shutil.copy(self.empty, here / STORE)
            _write(here, story.files, masker)
            said, now = f"▌ {story.name}\n", story.starts
            for step in story.steps:
                now += step.after
                _write(here, step.files, masker)
                argv = [masker.unmask(word) for word in shlex.split(step.run)]
                env = environment(home) | step.env
                done = self.command(Call(argv, str(here), env, step.stdin, now))
                said += masker.mask(_transcript(step, done, here))
            for name, place in (keep or {}).items():
                shutil.copy(here / name, place)
            return said


def load_zygote() -> Zygote:
    """One that has loaded what commands need."""
    with tempfile.TemporaryDirectory(prefix="tally-") as made:
        _lay(Path(made), ["examples/suites", "examples/challenges", "tests/fixtures/traces"])
        env = environment(Path(made))
        return Zygote(env, [Call(shlex.split(each), made, env) for each in WARM])


@cache
def shared_zygote() -> Zygote:
    """The one of this process: loading takes as long as many commands."""
    zygote = load_zygote()
    atexit.register(zygote.close)
    return zygote


@contextmanager
def opened(zygote: Zygote) -> Iterator[Stage]:
    """A stage, ready for stories."""
    with tempfile.TemporaryDirectory(prefix="tally-") as made, serving() as server:
        call = Call([], made, environment(Path(made)))
        yield Stage(zygote, server, _empty_store(call))


def _empty_store(call: Call) -> Path:
    """No command makes one and puts nothing into it."""
    path = Path(call.cwd, "empty.db")
    with open_store(str(path)) as store:
        store.prepare()
    return path


def environment(home: Path) -> dict[str, str]:
    """Small, and the same everywhere; nothing of the caller's gets in but where its code lies."""
    return {
        **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "COLUMNS": "80",
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "OPENBLAS_NUM_THREADS": "1",  # a process with threads cannot be forked
        "TOKENIZERS_PARALLELISM": "false",
    }


def _lay(folder: Path, names: list[str]) -> None:
    for name in names:
        source, target = ROOT / name, folder / Path(name).name
        if source.is_dir():
            shutil.copytree(source, target)
        elif source.suffix == ".gz":
            target.with_suffix("").write_bytes(_upgrade(source))
        else:
            shutil.copy(source, target)


@cache
def _upgrade(source: Path) -> bytes:
    """A stored database with the tables of today."""
    with tempfile.TemporaryDirectory(prefix="tally-") as made:
        path = Path(made) / "tally.db"
        path.write_bytes(gzip.decompress(source.read_bytes()))
        open_store(str(path), upgrade=True).close()
        return path.read_bytes()


def _write(folder: Path, files: dict[str, Content], masker: Masker) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_bytes(content, masker))


def _bytes(content: Content, masker: Masker) -> bytes:
    if isinstance(content, bytes):
        return content
    if isinstance(content, str):
        return masker.unmask(content).encode()
    return bytes(content["repeat"] * content["times"] + content.get("then", ""), "utf-8")


def _transcript(step: Step, done: Outcome, folder: Path) -> str:
    said = f"$ {step.run}\n{_ended(done.out)}"
    said += re.sub(r"^(?=.|\n)", "! ", _ended(done.err), flags=re.MULTILINE)
    for name in step.show:
        said += f"» {name}\n{_ended(_readable(folder / name))}"
    return f"{said}→ {done.code}\n"


def _ended(text: str) -> str:
    """A last line without its end says so; control characters are shown as escapes."""
    text = CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
    return text if not text or text.endswith("\n") else f"{text}⏎\n"


def _readable(path: Path) -> str:
    if not path.exists():
        return "(it was not written)"
    if path.suffix != ".parquet":
        return path.read_bytes().decode("utf-8", "backslashreplace")
    from pyarrow import parquet  # type: ignore[import-untyped]

    rows = parquet.read_table(path)
    lines = [json.dumps(row, ensure_ascii=False, default=str) for row in rows.to_pylist()]
    return f"{rows.schema.to_string(show_schema_metadata=False)}\n" + "\n".join(lines)
