"""Run tutorials: a block with a file name writes that file, and each `$` line runs, in order.

`make docs` writes the output below each line. Ids and times are fixed, so a page changes only when
a command does.
"""

from __future__ import annotations

import re
import runpy
import shlex
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from scripts.terminal_svg import draw
from tests.golden.stage import environment, shared_zygote
from tests.golden.zygote import Call

from tallymark.server import serve_beside
from tallymark.service.keys import Invitations
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PICTURE = DOCS / "first-run.svg"
PAGES = [*sorted(DOCS.glob("tutorial-*.md")), DOCS / "ci.md"]
_BLOCK = re.compile(r"^(```(\w+)(?: ([^\n]+))?\n)(.*?)^```", re.MULTILINE | re.DOTALL)
_SERVER = "https://tally.example"
_STARTS = 1_768_467_600.0  # 2026-01-15 09:00 UTC
_RUN = re.compile(r"\br[0-9a-z]{10}\b")
_MEASURED = re.compile(r"( {2,}|\b)[\d.]+ ms\b")


def play(text: str) -> str:
    """Return the page with the current output. A failing command ends with `exit N`."""
    runs: dict[str, str] = {}
    now = _STARTS
    with tempfile.TemporaryDirectory(prefix="tally-") as made, ExitStack() as stack:
        here, home = Path(made).resolve() / "here", Path(made).resolve() / "home"
        here.mkdir()
        home.mkdir()
        names: list[tuple[str, str]] = []
        if f"$ tally login {_SERVER}" in text:
            names = stack.enter_context(_serve(Path(made), lambda: now))

        def run(line: str) -> str:
            nonlocal now
            now += 60
            real = line
            for shown, real_name in names:
                real = real.replace(shown, real_name)
            done = shared_zygote()(Call(shlex.split(real), str(here), environment(home), now=now))
            output = (done.err + done.out).replace(f"{here}/", "")
            for shown, real_name in names:
                output = output.replace(real_name, shown)
            for found in _RUN.findall(output):
                runs.setdefault(found, f"rnf2k7q0m{len(runs) + 10}")
            output = _RUN.sub(lambda found: runs[found[0]], output)
            output = _MEASURED.sub(_zero_time, output).strip("\n")
            ended = f"exit {done.code}" if done.code else ""
            return "\n".join(part for part in (f"$ {line}", output, ended) if part)

        def fill(block: re.Match[str]) -> str:
            opening, language, name, body = block.groups()
            if name:
                path = here / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(body, encoding="utf-8")
            elif language == "console":
                lines = re.findall(r"^\$ (.+)$", body, re.MULTILINE)
                body = "\n\n".join(map(run, lines)) + "\n"
            return f"{opening}{body}```"

        return _BLOCK.sub(fill, text)


@contextmanager
def _serve(folder: Path, clock: Callable[[], float]) -> Iterator[list[tuple[str, str]]]:
    """Start a server; yield its names on the page with the real ones.

    Another agent has solved log-detective before, and every attempt gets the same log.
    """
    challenges = ROOT / "examples" / "challenges"
    service = Service(ServiceSettings(db=f"{folder}/server.db", workers=1), clock=clock)
    service.app.store.prepare()
    services = service.tenant("default")
    competition = services.competition
    competition._draw = lambda: 7
    competition.publish(challenges / "log-detective")
    entry = competition.enter("log-detective", "watson")
    answer = runpy.run_path(str(challenges / "log-detective/reference.py"))["solve"](entry.data)
    competition.submit(entry.attempt.id, "watson", answer)
    code = str(Invitations(services).add("agent").code)
    with serve_beside(service) as url:
        host = urlsplit(url).netloc
        shown = urlsplit(_SERVER).netloc
        yield [
            (_SERVER, url),
            (shown, host),
            (shown, host.replace(":", "-")),
            ("tli_INVITATION", code),
        ]


def _zero_time(measured: re.Match[str]) -> str:
    """Replace a measured time by 0 ms of the same width."""
    return "0 ms".rjust(len(measured[0])) if measured[1] else "0 ms"


def picture() -> str:
    """Draw the terminal output of the README's suite."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [suite] = re.findall(r"^```yaml suite\.yaml\n.*?^```", readme, re.MULTILINE | re.DOTALL)
    played = play(f"{suite}\n```console\n$ tally run suite.yaml\n```")
    return draw(
        _BLOCK.findall(played)[1][3], "Output of tally run: the score, and which checks failed"
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    for page in PAGES:
        page.write_text(play(page.read_text(encoding="utf-8")), encoding="utf-8")
