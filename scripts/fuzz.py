"""Coverage-guided fuzzing of every parser of untrusted bytes, starting from its corpus.

    python -m scripts.fuzz [--seconds 30] [NAME ...]

Each parser runs in its own process, in which Atheris mutates inputs to reach new code. Inputs that
violate the law of `scripts/fuzz_parsers.py` are saved in `tests/corpus/NAME/`, named after the
failure, and fail in `make test` until they are fixed. Inputs that only reach new code are dropped.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from scripts.fuzz_parsers import PARSERS, SECONDS, TREE, LawBroken, Parser

_MOST_MB = 3_000
_LONGEST = 16_384
_INSTRUMENTED = ["tallymark"]


class _Attempts:
    """Counts what was tried, and keeps the first input of each way in which the law is broken."""

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.tried = self.values = 0
        self.found: dict[str, str] = {}

    def try_on(self, data: bytes) -> None:
        """What the fuzzer calls."""
        self.tried += 1
        start = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            self.values += self.parser.try_on(data)
        except Exception as error:  # noqa: BLE001 (that nothing else comes is what is tried)
            self._keep(data, error)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if time.process_time() - start > SECONDS:
            self._keep(data, TimeoutError("it took too long"))

    def _keep(self, data: bytes, error: Exception) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [each for each in frames if "/tallymark/" in each.filename] or list(frames)
        where = f"{Path(ours[-1].filename).stem}-{ours[-1].name}" if ours else "nowhere"
        kind = f"{type(error).__name__}-in-{where}"
        if kind in self.found:
            return
        mark = hashlib.sha256(data).hexdigest()[:8]
        path = TREE / "tests" / "corpus" / self.parser.name / f"{kind}-{mark}"
        path.write_bytes(data)
        self.found[kind] = f"{path.relative_to(TREE)}: {type(error).__name__}: {error}"[:300]


def _stop_slow(_: int, __: Any) -> NoReturn:
    raise LawBroken(f"it takes longer than {SECONDS:.0f} s")


def fuzz_one(name: str, seconds: int) -> NoReturn:
    """Fuzzes in this process, which ends with it."""
    import atheris  # type: ignore[import-untyped]  # noqa: PLC0415 (on Linux alone)

    signal.signal(signal.SIGVTALRM, _stop_slow)
    attempts = _Attempts(PARSERS[name])
    with atheris.instrument_imports(include=_INSTRUMENTED):
        for path in PARSERS[name].files:
            attempts.try_on(path.read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        words = [
            *("fuzz", folder, str(TREE / "tests" / "corpus" / name)),
            *(f"-max_total_time={seconds}", f"-max_len={_LONGEST}", f"-rss_limit_mb={_MOST_MB}"),
            *(f"-timeout={SECONDS * 6:.0f}", "-print_final_stats=0", "-verbosity=0"),
            f"-artifact_prefix={TREE}/tests/corpus/{name}/",
        ]
        end = time.monotonic() + seconds

        def try_on(data: bytes) -> None:
            attempts.try_on(data)
            if time.monotonic() > end:
                _tell(attempts)

        atheris.Setup(words, try_on, internal_libfuzzer=True)
        atheris.Fuzz()
    _tell(attempts)


def _tell(attempts: _Attempts) -> NoReturn:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    lines = [
        f"{attempts.parser.name} {attempts.tried} {attempts.values} {peak}",
        *attempts.found.values(),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
    os._exit(0)  # libFuzzer would tell its own story of the end


def fuzz(names: list[str], seconds: int) -> tuple[bool, str]:
    """Whether all parsers keep the law, and a table in Markdown."""
    rows, problems = [], []
    for name in names:
        words = [sys.executable, "-m", "scripts.fuzz", "--one", name, "--seconds", str(seconds)]
        limit = seconds * 4 + 300
        done = subprocess.run(
            words, cwd=TREE, capture_output=True, text=True, timeout=limit, check=False
        )
        told = done.stdout.splitlines()
        if done.returncode or not told:
            problems.append(f"{name} ended with {done.returncode}: {done.stderr[-600:]}")
            continue
        _, tried, values, peak = told[0].split()
        rows.append(f"| {name} | {int(tried):,} | {int(values):,} | {peak} | {len(told) - 1} |\n")
        problems += told[1:]
    head = "| parser | inputs | became a value | peak MB | broke the law |\n|---|---|---|---|---|\n"
    said = "".join(f"\n- {each}" for each in problems)
    return not problems, head + "".join(rows) + said


def judge_fuzz(seconds: int = 30) -> tuple[bool, str]:
    """For `make proof`."""
    holds, table = fuzz(list(PARSERS), seconds)
    said = (
        f"Each parser of strangers' bytes on mutations of `tests/corpus/`, {seconds} s each, guided"
        " by the code that they reach: a value or one of our errors, in bounded time and memory."
    )
    return holds, f"{said}\n\n{table}"


def main() -> int:
    """0 when nothing was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", choices=[[], *PARSERS])
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--one", choices=list(PARSERS))
    given = parser.parse_args()
    if given.one:
        fuzz_one(given.one, given.seconds)
    holds, said = fuzz(given.names or list(PARSERS), given.seconds)
    sys.stdout.write(f"{said}\n")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
