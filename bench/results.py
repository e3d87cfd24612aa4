"""What benches found, as numbers (`results.json`) and as a page (`results.md`).

Both keep what was found before of benches that were not run, so that some can be run alone.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

from bench.measurement import OURS, Bench, Found

FOLDER = Path(__file__).parent
PACKAGES = (
    "tallymark",
    "numpy",
    "sqlalchemy",
    "arena-rank",
    "cel-python",
    "common-expression-language",
    "deepeval",
    "evalica",
    "inspect-ai",
    "numexpr",
    "openskill",
    "pydantic-evals",
    "simpleeval",
)
PROMPTFOO = Path(sys.prefix, "node", "node_modules", "promptfoo", "package.json")
WORSE = 1.15
"""A ratio that grew by more than this since the last results is shown: less is within the noise."""

HOW_TO_READ = f"""\
Our cost, and its ratio to the cost of each peer in the same run; below 1 we are cheaper. Costs are
CPU time unless stated otherwise, and the median of rounds in which all take turns. `worse` marks a
ratio that grew by more than {WORSE - 1:.0%} since the previous results. Promises apply to the
largest size.
"""

Row: TypeAlias = dict[str, Any]
"""A bench as it is kept: what was measured, what was promised and how that ended."""


def list_modules() -> list[str]:
    """Those that declare benches, by name without `bench_`."""
    return sorted(
        path.stem.removeprefix("bench_")
        for path in FOLDER.glob("bench_*.py")
        if "\nBENCHES = " in path.read_text("utf-8")
    )


def describe_machine() -> dict[str, str]:
    """Cores, memory, kernel, Python, and how busy it is."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GB",
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f} before",
    }


def list_versions() -> dict[str, str]:
    """Of us and the peers that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    if PROMPTFOO.is_file():
        found["promptfoo"] = json.loads(PROMPTFOO.read_text("utf-8"))["version"]
    return found


def make_row(bench: Bench, found: Found, before: Row | None) -> Row:
    """A bench with its numbers, and where a ratio is worse than it was."""
    promises = []
    for promise in bench.promises:
        value = found.get_value(promise, bench.sizes[-1])
        kept = None if value is None else value <= promise.limit
        promises.append(
            {
                "against": promise.against,
                "limit": promise.limit,
                "value": value,
                "kept": kept,
            }
        )
    return {
        "name": bench.name,
        "claim": bench.claim,
        "of": bench.of,
        "each": bench.each,
        "unit": bench.unit,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "growth": found.growth,
        "costs": {str(size): each for size, each in found.costs.items()},
        "ratios": {str(size): each for size, each in found.ratios.items()},
        "skipped": found.skipped,
        "promises": promises,
        "worse": find_worse(found, before),
    }


def find_worse(found: Found, before: Row | None) -> dict[str, dict[str, float]]:
    """By size and side: what the ratio was, where it has grown by more than the noise."""
    worse: dict[str, dict[str, float]] = {}
    for size, ratios in found.ratios.items():
        last = (before or {}).get("ratios", {}).get(str(size), {})
        for side, ratio in ratios.items():
            if side in last and ratio > WORSE * last[side]:
                worse.setdefault(str(size), {})[side] = last[side]
    return worse


def is_broken(row: Row) -> bool:
    """Whether it did not run, or has a promise that is not known to be kept."""
    return "error" in row or any(_is_open(row, each) for each in row["promises"])


def _is_open(row: Row, promise: Mapping[str, Any]) -> bool:
    """Whether it is broken, or about what was not there; a quick look measures none."""
    quick = len(row["costs"]) == 1
    return promise["kept"] is False or (promise["kept"] is None and not quick)


def format_cost(value: float, unit: str) -> str:
    """Three digits; seconds in the unit that suits them."""
    if unit != "s":
        return f"{value:,.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"
    for scale, name in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * scale >= 1:
            return f"{value * scale:.3g} {name}"
    return f"{value * 1e9:.3g} ns"


def tell_promise(promise: Mapping[str, Any], unit: str) -> str:
    """One line: what it is, what it should be, and whether it is."""
    against, value = promise["against"], promise["value"]
    limit, found = (
        ("-" if each is None else f"{each:.3g}" if against else format_cost(each, unit))
        for each in (promise["limit"], value)
    )
    what = f"{found} of {against}" if against else found
    word = {None: "not measured", True: "kept", False: "**BROKEN**"}[promise["kept"]]
    return f"{word}: {what}, at most {limit}"


def tell_row(row: Row) -> str:
    """A section: the claim, a table of sizes, the growth, the promises."""
    lines = [f"### {row['name']}", "", row["claim"], ""]
    if "error" in row:
        return "\n".join([*lines, f"**DID NOT RUN**: {row['error']}", ""])
    sides = [name for name in next(iter(row["costs"].values())) if name != OURS]
    ours = f"{OURS}, for one {row['each']}" if row["each"] else OURS
    lines.append("| " + " | ".join([row["of"], ours, *(f"of {side}" for side in sides)]) + " |")
    lines.append("|" + "---:|" * (len(sides) + 2))
    for size, costs in row["costs"].items():
        cells = [f"{int(size):,}", format_cost(costs[OURS], row["unit"])]
        cells += [_tell_ratio(row, size, side) for side in sides]
        lines.append("| " + " | ".join(cells) + " |")
    growth = "unknown" if row["growth"] is None else f"{row['growth']:.2f}"
    lines += ["", f"It grows with {row['of']} to the power of {growth}. {row['date']}.", ""]
    lines += [f"- {tell_promise(each, row['unit'])}" for each in row["promises"]]
    lines += [f"- skipped: {side}: {why}" for side, why in row["skipped"].items()]
    return "\n".join(lines).rstrip() + "\n"


def _tell_ratio(row: Row, size: str, side: str) -> str:
    ratio = row["ratios"][size].get(side)
    if ratio is None:
        return "-"
    last = row["worse"].get(size, {}).get(side)
    return f"{ratio:.3g}" if last is None else f"{ratio:.3g} **worse, was {last:.3g}**"


def tell_page(kept: Row) -> str:
    """The whole page."""
    rows: dict[str, list[Row]] = kept["benches"]
    machine = ", ".join(f"{name} {value}" for name, value in kept["machine"].items())
    versions = ", ".join(f"{name} {value}" for name, value in kept["versions"].items())
    parts = [
        "# What `make bench` found\n",
        f"Last on {kept['date']}: {machine}.\n",
        f"Versions: {versions}.\n",
        HOW_TO_READ,
        tell_summary(rows),
    ]
    if missing := [name for name in list_modules() if name not in rows]:
        parts.append(f"Not measured on this machine yet: {', '.join(missing)}.\n")
    for module, benches in sorted(rows.items()):
        parts.append(f"## {module}\n\n`bench/bench_{module}.py`\n")
        parts += map(tell_row, benches)
    return "\n".join(parts)


def tell_summary(rows: Mapping[str, list[Row]]) -> str:
    """How many promises are kept, and each that is not."""
    every = [row for benches in rows.values() for row in benches]
    verdicts = [each["kept"] for row in every for each in row.get("promises", ())]
    lines = [f"{verdicts.count(True)} of {len(verdicts)} promises are kept.", ""]
    lines += [f"- {line}" for line in list_broken(rows)]
    return "\n".join(lines).rstrip() + "\n"


def list_broken(rows: Mapping[str, list[Row]]) -> Iterator[str]:
    """A line for each promise that is not kept, each bench that did not run, each ratio worse."""
    for module, benches in sorted(rows.items()):
        for row in benches:
            name = f"{module}, {row['name']}"
            if "error" in row:
                yield f"{name}: **DID NOT RUN**: {row['error']}"
                continue
            for promise in row["promises"]:
                if _is_open(row, promise):
                    yield f"{name}: {tell_promise(promise, row['unit'])}"
            for size, sides in row["worse"].items():
                for side, last in sides.items():
                    now = row["ratios"][size][side]
                    yield f"{name}: worse at {int(size):,}: {now:.3g} of {side}, was {last:.3g}"


def load_results(folder: Path = FOLDER) -> Row:
    """What was found before; nothing of it where there is no such file."""
    path = folder / "results.json"
    found: Row = json.loads(path.read_text("utf-8")) if path.is_file() else {"benches": {}}
    return found


def keep_results(kept: Row, folder: Path = FOLDER) -> None:
    """Writes both files."""
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    (folder / "results.json").write_text(text + "\n", "utf-8")
    (folder / "results.md").write_text(tell_page(kept), "utf-8")
