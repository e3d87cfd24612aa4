"""Proofs that take too long for `make test`; results go to `bench/proof.md`.

A proof is a function that gives a section, and a row in `PROOFS`.

    python -m scripts.proof [NAME ...]    all of them, or some: the others keep their sections
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

from scripts.fuzz import judge_fuzz
from scripts.mutants import TREE, MutantTrial, load_mutants, try_mutants
from scripts.prove_backup import judge_backups
from scripts.prove_engine import PROOFS as ENGINE_PROOFS
from scripts.prove_engine import Size as EngineSize
from scripts.prove_engine import judge_engines
from scripts.prove_exporters import judge_exporters
from scripts.prove_flood import judge_flood
from scripts.prove_network_faults import judge_faults
from scripts.prove_pages import judge_pages
from scripts.prove_parquet import ENGINES as TABLE_ENGINES
from scripts.prove_parquet import judge_tables
from scripts.prove_rules import judge_rules
from scripts.prove_server import judge_server
from scripts.prove_what_if import judge_what_if
from scripts.record_traces import tell_recordings
from scripts.simulate_ratings import judge_ratings
from scripts.simulate_score_intervals import tell_alarms, tell_coverage, tell_power
from scripts.simulate_trace_intervals import tell_trace_coverage
from scripts.soak import AT_LENGTH, DATABASES, judge_soak

PAGE = TREE / "bench" / "proof.md"
_API_TESTS = "tests/test_server.py"
_VERDICTS = {True: "holds", False: "DOES NOT HOLD", None: "WAS NOT TRIED"}
PACKAGES = ("tallymark", "numpy", "sqlalchemy", "pytest", "hypothesis")


@dataclass(frozen=True, slots=True)
class ProofSection:
    """What a proof found, in Markdown; one that does not hold fails the whole."""

    title: str
    holds: bool | None
    """None is that it could not be tried here."""
    body: str


def prove_mutants() -> ProofSection:
    """Every mistake of tests/mutants.toml is found by the tests that it names."""
    trials = try_mutants(load_mutants(), lambda trial: sys.stdout.write(f"{trial}\n"))
    killed = [trial for trial in trials if trial.verdict == "killed"]
    body = (
        f"Of {len(trials)} small mistakes put into the code (`tests/mutants.toml`), "
        f"{len(killed)} are found by the tests that they name.\n\n"
        "| room | mistakes | found |\n|---|---|---|\n"
    )
    made, found = (Counter(map(_get_room, each)) for each in (trials, killed))
    body += "".join(f"| `{room}` | {made[room]} | {found[room]} |\n" for room in sorted(made))
    left = [trial for trial in trials if trial.verdict != "killed"]
    body += "".join(f"\n- {trial}" for trial in left) + ("\n" if left else "")
    return ProofSection("Mutants", bool(trials) and not left, body)


def prove_thoroughly() -> ProofSection:
    """Every law on all of its examples, and the tests that `make test` leaves out."""
    said = (
        "What `make test` leaves out: tests with the marker `proof`, which go by a clock or kill "
        "again and again, and every law on all of its examples instead of a fifth."
    )
    words = ("--hypothesis-profile=proof", "-m", "proof or hypothesis", f"--ignore={_API_TESTS}")
    return _try_tests("Slow tests", said, *words)


def prove_api() -> ProofSection:
    """Whatever is asked, the API answers as its document says, and never with a failure."""
    said = (
        "Schemathesis in all its phases, as every role, 50 examples an operation: no 5xx, and no "
        "answer that the document does not allow. And 1,000 mutations of every body: each is "
        "done, or refused in "
        "words. One test for the first, one a body for the second."
    )
    return _try_tests("API", said, "-m", "proof", _API_TESTS)


def prove_ordinary_user() -> ProofSection:
    """Who is not root has the same walls, warm plugins and commands."""
    said = "Walls, plugins and commands that run strangers' code, for a user who is not root."
    return _try("Ordinary user", said, "scripts/run_tests_unprivileged.py", "--whole")


def _try_tests(title: str, said: str, *words: str) -> ProofSection:
    return _try(title, said, "-m", "pytest", "-n", "2", "-q", "-rf", "--tb=short", *words)


def _try(title: str, said: str, *words: str) -> ProofSection:
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=TREE, stdout=subprocess.PIPE, text=True, check=False)
    sys.stdout.write(done.stdout)
    holds = done.returncode == 0 and has_passed(done.stdout)
    return ProofSection(title, holds, tell_tests(said, done.stdout))


def has_passed(output: str) -> bool:
    """Whether any test did: where all were left out, nothing was shown."""
    *_, last = ["", *output.splitlines()]
    return re.search(r"\b[1-9]\d* passed\b", last) is not None


def tell_tests(said: str, output: str) -> str:
    """What tests were about, how many passed, and which failed."""
    lines = output.splitlines()
    failed = "".join(f"- `{line}`\n" for line in lines if line.startswith("FAILED "))
    return f"{said}\n\n{lines[-1] if lines else 'It said nothing'}.\n\n{failed}"


def prove_fuzz() -> ProofSection:
    """Whatever strangers send, parsers give a value or a sentence, in bounded time."""
    return ProofSection("Fuzz", *judge_fuzz())


def prove_ratings() -> ProofSection:
    """Intervals of ratings hold the truth, and nobody gains by losing or by choosing."""
    return ProofSection("Ratings", *judge_ratings())


def prove_scores() -> ProofSection:
    """Intervals hold the truth, gates do not cry wolf, and find what there is to find."""
    holds, body = True, ""
    for told, tell, runs in (
        ("How often the 95 % interval of a score holds the truth, in %", tell_coverage, 300),
        ("How often a run of the same agent is called worse, in %", tell_alarms, 600),
        ("How often a run that is worse is found, in %", tell_power, 300),
    ):
        held, table = tell(runs)
        holds = holds and held
        body += f"{told}, over {runs} runs a cell:\n\n{table}\n"
    return ProofSection("Scores", holds, body)


def prove_recordings() -> ProofSection:
    """What tracing libraries write today is read."""
    holds, table = tell_recordings()
    said = "One agent, watched by each library in its newest version, in an environment of its own:"
    return ProofSection("Recorded traces", holds, f"{said}\n\n{table}")


def prove_engine(name: str) -> ProofSection:
    """Whatever is lost on the way, every engine comes to the same, and Ray costs little more."""
    return ProofSection(f"Engines: {name}", *judge_engines(names=[name]))


def prove_backups() -> ProofSection:
    """A backup under load comes back whole, and one that is cut, killed or full leaves nothing."""
    return ProofSection("Backups", *judge_backups())


def prove_exporters() -> ProofSection:
    """What real exporters send to a running server is what it shows."""
    return ProofSection("Exporters", *judge_exporters())


def prove_server() -> ProofSection:
    """A server that is killed, stopped, doubled and listened to loses nothing."""
    return ProofSection("Server", *judge_server())


def prove_faults() -> ProofSection:
    """Over a network that fails, nothing is done twice, nothing is lost, and errors are told."""
    return ProofSection("Faults of the network", *judge_faults())


def prove_flood() -> ProofSection:
    """A hostile client costs twenty honest ones no request, no result and little time."""
    return ProofSection("Flood", *judge_flood())


def prove_pages() -> ProofSection:
    """Pages in Chromium: how soon, how heavy, who sees what, by how few links, and axe."""
    return ProofSection("Pages", *judge_pages())


def prove_tables(engine: str) -> ProofSection:
    """An engine reads what `tally export` writes as it is, and what it writes is loaded."""
    return ProofSection(f"Tables: {engine}", *judge_tables(names=[engine]))


def prove_traces() -> ProofSection:
    """Intervals of means over sessions of production traces hold the truth."""
    runs = 1000
    holds, table = tell_trace_coverage(runs)
    said = (
        "How often the 95 % interval of a mean over traces holds the truth, and that of the "
        f"difference of two such means holds 0, in %, over {runs:,} draws a cell:"
    )
    return ProofSection("Traces", holds, f"{said}\n\n{table}")


def prove_what_if() -> ProofSection:
    """A keystroke re-ranks a board of a million attempts before one notices."""
    return ProofSection("What-if in a browser", *judge_what_if())


def prove_rules() -> ProofSection:
    """Rules whose servers, workers and database are killed under ingest score all of it once."""
    return ProofSection("Rules", *judge_rules())


def prove_soak() -> ProofSection:
    """Load on all doors while everything fails at random: nothing is lost, nothing is twice."""
    return ProofSection("Soak", *judge_soak())


def prove_soak_at_length(database: str) -> ProofSection:
    """The same for half an hour on one database, with a million attempts beforehand."""
    return ProofSection(f"Soak, half an hour on {database}", *judge_soak(AT_LENGTH, [database]))


def prove_million() -> ProofSection:
    """A million attempts rescored by a plugin: the same by every engine, whatever is killed."""
    size = replace(EngineSize(), attempts=1_000_000)
    return ProofSection("Soak, a million on every engine", *judge_engines(size, ["attempts"]))


def _get_room(trial: MutantTrial) -> str:
    return f"{Path(trial.mutant.file).parent.as_posix()}/"


PROOFS: dict[str, Callable[[], ProofSection]] = {
    "api": prove_api,
    "backups": prove_backups,
    **{f"engine-{name}": partial(prove_engine, name) for name in ENGINE_PROOFS},
    "exporters": prove_exporters,
    "faults": prove_faults,
    "flood": prove_flood,
    "fuzz": prove_fuzz,
    "mutants": prove_mutants,
    "ordinary-user": prove_ordinary_user,
    "pages": prove_pages,
    "ratings": prove_ratings,
    "recordings": prove_recordings,
    "rules": prove_rules,
    "slow": prove_thoroughly,
    "scores": prove_scores,
    "server": prove_server,
    "soak": prove_soak,
    **{f"tables-{engine}": partial(prove_tables, engine) for engine in TABLE_ENGINES},
    "traces": prove_traces,
    "what-if": prove_what_if,
}
"""By name, in the order in which they are made and told."""
LONG: dict[str, Callable[[], ProofSection]] = {
    **{f"soak-{each}": partial(prove_soak_at_length, each) for each in DATABASES},
    "soak-million": prove_million,
}
"""What is made only when it is named: `make soak`."""


def main(names: Sequence[str]) -> int:
    """0 when all that were asked for hold."""
    proofs = PROOFS | LONG
    if unknown := [name for name in names if name not in proofs]:
        sys.stderr.write(f"there is no proof {unknown[0]!r}; there are {', '.join(proofs)}\n")
        return 2
    failed = False
    for name in names or PROOFS:
        start = time.monotonic()
        section = proofs[name]()
        failed = failed or section.holds is False
        # One by one: what is cut off has kept what it found.
        before = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
        page = write_page([(section, time.monotonic() - start)], before)
        PAGE.write_text(page, encoding="utf-8")
        sys.stdout.write(f"\n{section.title}: it {_VERDICTS[section.holds]}\n\n{section.body}\n")
        sys.stdout.flush()
    return int(failed)


def write_page(told: Sequence[tuple[ProofSection, float]], before: str = "") -> str:
    """The page: with what, then each proof with its day and seconds; new ones replace older."""
    python = ".".join(map(str, sys.version_info[:3]))
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    # What stands before the first section says with what the last proofs were made.
    sections = {part.partition("\n")[0]: part.strip() for part in before.split("\n## ")[1:]}
    for section, seconds in told:
        made = f"It {_VERDICTS[section.holds]}. {datetime.now(UTC):%Y-%m-%d}, {seconds:.0f} s."
        sections[section.title] = f"{section.title}\n\n{made}\n\n{section.body.strip()}"
    lines = ["# What `make proof` found", f"Last with Python {python}, {versions}."]
    return "\n\n".join([*lines, *(f"## {sections[each]}" for each in sorted(sections))]) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
