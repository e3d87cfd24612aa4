"""Mutation testing: apply small mistakes to the code, each of which a test must find.

`tests/mutants.toml` lists them. Each is made in a copy of the package, never in the tree, and the
tests that it names are run on that copy, without any bytecode from elsewhere. A mutant is killed
when one of them fails, and only then: what cannot be imported, or hangs, proves nothing. Before
that, the same tests must pass on a copy without the mistake.

    python -m scripts.mutants [WORD ...]    all, or those whose names contain one of the words
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

TREE = Path(__file__).resolve().parents[1]
SOURCE = TREE / "src"
LIST = TREE / "tests" / "mutants.toml"
PATIENCE_S = 300
"""What takes longer hangs: the tests of a mutant take seconds."""

Verdict = Literal["killed", "survived", "no proof"]
TestRun: TypeAlias = tuple[int, str]
"""Pytest's exit status, and its word on the first test that failed."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of the code, what a user would lose by it, and the tests that find it."""

    name: str
    file: str
    """Below `src/tallymark`."""
    find: str
    replace: str
    why: str
    tests: tuple[str, ...]

    def mutate(self, source: Path = SOURCE) -> str:
        """The text of its file with the change made; ValueError where it does not fit once."""
        text = (source / "tallymark" / self.file).read_text(encoding="utf-8")
        if (found := text.count(self.find)) != 1:
            raise ValueError(f"the text to find is {found} times in {self.file}")
        return text.replace(self.find, self.replace)


@dataclass(frozen=True, slots=True)
class MutantTrial:
    """What became of a mutant: the first test that failed, or why none did."""

    mutant: Mutant
    verdict: Verdict
    said: str

    def __str__(self) -> str:
        return f"{self.verdict}: {self.mutant.name}: {self.said}"


def load_mutants(path: Path = LIST) -> list[Mutant]:
    """The list, in its order."""
    listed = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**{**each, "tests": tuple(each["tests"])}) for each in listed]


def try_mutants(
    mutants: Sequence[Mutant], tell: Callable[[MutantTrial], object]
) -> list[MutantTrial]:
    """Tries all of them, as many at a time as there are cores; `tell` hears of each, in order."""
    sets = sorted({mutant.tests for mutant in mutants})
    trials: list[MutantTrial] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool, _copy_source() as sound:
        # The same tests without any mistake, once for each set of them.
        runs = pool.map(lambda tests: _run_tests(sound, tests), sets)
        sound_runs = dict(zip(sets, runs, strict=True))
        for trial in pool.map(lambda each: _try_mutant(each, sound_runs[each.tests]), mutants):
            trials.append(trial)
            tell(trial)
    return trials


def _try_mutant(mutant: Mutant, sound_run: TestRun) -> MutantTrial:
    if sound_run[0] != 0:
        return MutantTrial(mutant, "no proof", f"its tests fail without it: {sound_run[1]}")
    with _copy_source() as source:
        try:
            text = mutant.mutate(source)
        except ValueError as error:
            return MutantTrial(mutant, "no proof", str(error))
        (source / "tallymark" / mutant.file).write_text(text, encoding="utf-8")
        status, said = _run_tests(source, mutant.tests)
    # Of pytest: 0 all passed, 1 some failed; whatever else says nothing of the change.
    verdicts: dict[int, Verdict] = {0: "survived", 1: "killed"}
    return MutantTrial(mutant, verdicts.get(status, "no proof"), said)


@contextmanager
def _copy_source() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tally-mutant-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        yield copy


def _run_tests(source: Path, tests: Sequence[str]) -> TestRun:
    environment = os.environ | {
        "PYTHONPATH": str(source),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(source.parent / "hypothesis"),
        # The plugins of all packages take longer to load than most of these tests to run.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    words = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider"]
    # With a seed, so that the same list always comes to the same.
    words += ["-p", "_hypothesis_pytestplugin", "--hypothesis-seed=0"]
    words += ["--hypothesis-profile=proof", *tests]
    try:
        done = subprocess.run(
            words,
            cwd=TREE,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        return -1, f"no end after {PATIENCE_S} s"
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line]
    told = [line for line in lines if line.startswith(("FAILED ", "ERROR"))]
    return done.returncode, (told or lines[-1:] or ["it printed nothing"])[0]


def main(words: Sequence[str]) -> int:
    """Tries those that are asked for; 0 when each is killed."""
    chosen = [m for m in load_mutants() if not words or any(word in m.name for word in words)]
    trials = try_mutants(chosen, lambda trial: sys.stdout.write(f"{trial}\n"))
    killed = sum(trial.verdict == "killed" for trial in trials)
    sys.stdout.write(f"{killed} of {len(trials)} killed\n")
    return 0 if trials and killed == len(trials) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
