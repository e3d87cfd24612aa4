"""The steps of the Containerfile, one by one in a fresh Debian, and then what it starts.

    python -m scripts.prove_container

For a machine that has no engine to build images: `debootstrap` makes the Debian, and `bwrap` gives
it a root of its own, in which user namespaces can be made. It needs root, Debian's archive and a
registry of packages. What only an engine does (layers, volumes, its own walls around all of it) is
not seen here.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "Containerfile"
RESOLVER, CERTIFICATES = "/etc/resolv.conf", "/run/certificates.pem"
TRIAL = """
{start} 2>/data/said &
for n in $(seq 300); do {health} 2>/dev/null && break; sleep 0.2; done
{health} && echo "healthy as $(id -un)"
python3 -c "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8321/readyz').read().decode())"
tally doctor
kill -TERM $!
wait $!
echo "ended with $?"
"""


@dataclass
class Image:
    """A folder that will be a root, and what the file says of those who run in it."""

    root: Path
    user: str = "root"
    folder: str = "/"
    env: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    health: str = ""
    start: list[str] = field(default_factory=list)

    def follow(self, word: str, rest: str) -> None:
        """Does one line."""
        if word == "FROM":
            release = rest.partition(":")[2].removesuffix("-slim")
            _call(["debootstrap", "--variant=minbase", release, str(self.root)])
        elif word == "RUN":
            self.run(rest)
        elif word == "COPY":
            *sources, target = rest.split()
            self._copy([ROOT / each for each in sources], target)
        elif word == "ENV":
            self.env |= dict(each.split("=", 1) for each in shlex.split(rest))
        elif word == "USER":
            self.user = rest
        elif word == "WORKDIR":
            self.folder = rest
        elif word == "HEALTHCHECK":
            self.health = shlex.join(json.loads(rest.partition("CMD ")[2]))
        elif word in ("ENTRYPOINT", "CMD"):
            self.start += json.loads(rest)
        elif word not in ("VOLUME", "EXPOSE"):
            raise ValueError(f"{word} is not known here")

    def run(self, command: str, *, alone: bool = False) -> str:
        """What a command says, as the user of the image; `alone` without a network."""
        words = ["bwrap", "--bind", str(self.root), "/", "--proc", "/proc", "--dev", "/dev"]
        words += ["--cap-add", "ALL", "--die-with-parent", "--unshare-pid", "--clearenv"]
        words += ["--unshare-net"] if alone else _share_network()
        words += ["--chdir", self.folder]
        for name, value in {"HOME": "/root", **self.env}.items():
            words += ["--setenv", name, value]
        if self.user != "root":
            words += ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--init-groups"]
            words += ["--bounding-set=-all", "--inh-caps=-all"]
        return _call([*words, "sh", "-c", command])

    def _copy(self, sources: list[Path], target: str) -> None:
        place = self.root / target.strip("/")
        if len(sources) == 1 and sources[0].is_dir():
            shutil.copytree(sources[0], place)
            return
        place.mkdir(parents=True, exist_ok=True)
        for each in sources:
            shutil.copy(each, place)


def _share_network() -> list[str]:
    """Where names are looked up, and the certificates of a network that has its own."""
    words = ["--ro-bind", RESOLVER, RESOLVER]
    if own := os.environ.get("SSL_CERT_FILE"):
        words += ["--ro-bind", own, CERTIFICATES, "--setenv", "PIP_CERT", CERTIFICATES]
    return words


def _call(words: list[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=1200)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(words)[-200:]}: {(done.stdout + done.stderr)[-1500:]}")
    return done.stdout


def read_lines(text: str) -> list[tuple[str, str]]:
    """Words and what follows them, without comments."""
    joined = text.replace("\\\n", " ")
    lines = [each.strip() for each in joined.splitlines()]
    told = (each.partition(" ") for each in lines if each and not each.startswith("#"))
    return [(word, rest.strip()) for word, _, rest in told]


def judge_container() -> tuple[bool, str]:
    """Whether the server of the file is healthy, and what it and `tally doctor` said."""
    if os.geteuid() or not shutil.which("debootstrap") or not shutil.which("bwrap"):
        return False, "Not tried: it needs root, debootstrap and bubblewrap.\n"
    with tempfile.TemporaryDirectory(prefix="tally-image-") as folder:
        Path(folder).chmod(0o755)
        image = Image(Path(folder) / "root")
        table = "| step | seconds |\n|---|---|\n"
        try:
            for word, rest in read_lines(FILE.read_text(encoding="utf-8")):
                began = time.monotonic()
                image.follow(word, rest)
                took = time.monotonic() - began
                table += f"| `{word} {rest[:60]}` | {took:.0f} |\n" if took > 1 else ""
            trial = TRIAL.format(start=shlex.join(image.start), health=image.health)
            said = image.run(trial, alone=True)
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            return False, f"{table}\n- {error}\n"
    holds = "healthy as tally" in said and "ended with 0" in said
    return holds, f"{table}\n```text\n{said.strip()}\n```\n"


def main() -> int:
    """Tells what was found; 1 when it does not hold."""
    holds, body = judge_container()
    sys.stdout.write(body)
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
