"""The built wheel, installed into an empty environment, gives a working `tally`."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
import venv
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import Distribution, distribution, distributions
from itertools import chain
from pathlib import Path

import pytest
from scripts.dependencies import BASE, find_dependencies
from tests.container_file import copy_sources
from tests.models.provider_server import ProviderServer

UNLOCKED = {
    "models": (
        "tallymark.models.compatible_provider",
        "tallymark.models.pydantic_ai_model",
        "tallymark.models.mcp_connection",
        "tallymark.models.provider",
        "tallymark.models.provider",
        "tallymark.models.provider_translation",
        "tallymark.models.provider_translation",
        "tallymark.models.provider_tools",
    ),
    "parquet": ("tallymark.parquet_rows",),
    "postgres": ("sqlalchemy.dialects.postgresql.psycopg", "psycopg"),
    "ray": ("ray",),
    "semantic": ("wordllama",),
    "server": ("tallymark.store.secret_key", "tallymark.traces.otlp_proto", "alembic", "uvloop"),
    "tracing": (
        "tallymark.suites.python_suites.otel_processor",
        "tallymark.traces.otlp_proto",
        "opentelemetry.sdk.trace",
    ),
}
"""What each extra makes importable: modules of ours, and libraries that are imported late."""
SERVER_ROOMS = ("connections", "http", "mcp", "server", "web")
"""What only `tallymark[server]` needs; some of their modules can be imported without it."""
MOST_DISTRIBUTIONS, MOST_BYTES = 42, 185e6
"""Of the base install, ourselves among them."""
BESIDE_OTHERS = (
    "tallymark.pytest_plugin",
    "tallymark.scorers.adapters.deepeval_case",
    "tallymark.scorers.adapters.inspect_state",
    "tallymark.scorers.adapters.pydantic_evals_context",
)
"""Modules that are only imported by, or after, a library that the user has."""


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    finished = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, f"{command}\n{finished.stdout}\n{finished.stderr}"
    return finished.stdout


def build_wheel(folder: Path) -> Path:
    copy_sources(folder)
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=folder)
    (wheel,) = folder.glob("*-py3-none-any.whl")  # no platform's own
    return wheel


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tally` from the wheel, in an environment that has only what the wheel asks for."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build_wheel(folder)
    venv.create(folder / "venv")
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    link(find_dependencies([BASE]), packages)
    python = folder / "venv" / "bin" / "python"
    # Without an index: what it asks for and was not linked, or in another version, is missing.
    run(sys.executable, "-m", "pip", "--python", python, "install", "-qq", "--no-index", wheel)
    return folder / "venv" / "bin" / "tally"


@pytest.fixture(scope="module")
def extras(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each extra with what it adds to the base install, for PYTHONPATH."""
    folder = tmp_path_factory.mktemp("extras")
    base = find_dependencies([BASE])
    for extra in UNLOCKED:
        link(find_dependencies([extra]).keys() - base.keys(), folder / extra)
    return folder


def link(names: Iterable[str], folder: Path) -> None:
    """Puts installed packages into another environment, and nothing that they do not bring."""
    shared = count_owners()
    for package in map(distribution, names):
        for file in list_files(package):
            top = file.partition("/")[0]
            part = file if shared[top] > 1 else top  # such as `google`, of several packages
            target = folder / part
            if not target.is_symlink():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(Path(str(package.locate_file(part))))


def list_files(package: Distribution) -> Iterator[str]:
    """What a package has beside others; `Distribution.files` takes a hundred times longer."""
    for row in csv.reader((package.read_text("RECORD") or "").splitlines()):
        if not row[0].startswith(".."):  # programs, which nobody calls here
            yield row[0]


@cache
def count_owners() -> Counter[str]:
    """How many packages have files in each folder."""
    return Counter(
        top
        for package in distributions()
        for top in {file.partition("/")[0] for file in list_files(package)}
    )


def test_it_checks_a_formula(tally: Path, tmp_path: Path) -> None:
    printed = run(tally, "formula", "check", "success_pct / total_cost", cwd=tmp_path)
    assert printed.startswith("valid    success_pct / total_cost")


def test_it_evaluates_columns(tally: Path, tmp_path: Path) -> None:
    code = (
        "from tallymark.formula import Formula;"
        "print(Formula.parse('success_pct / 2').evaluate_many({'success_pct': [1, 2]}).values)"
    )
    assert run(tally.parent / "python", "-c", code, cwd=tmp_path).strip() == "[0.5 1. ]"


def test_the_first_suite_runs_in_the_base_install(tally: Path, tmp_path: Path) -> None:
    run(tally, "init", "suite.yaml", cwd=tmp_path)
    assert "3 passed" in run(tally, "run", "suite.yaml", cwd=tmp_path)


def test_what_needs_an_extra_says_which_before_the_first_case(tally: Path, tmp_path: Path) -> None:
    suite = "evals: [{prompt: hi, checks: [semantic: A greeting]}]"
    (tmp_path / "suite.yaml").write_text(suite, encoding="utf-8")
    for command in (["validate"], ["run", "-m", "echo/x"]):
        done = subprocess.run(
            [tally, *command, "suite.yaml"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert f'--python {tally.parent}/python "tallymark[semantic]"' in done.stdout + done.stderr


def test_the_documentation_comes_with_it(tally: Path, tmp_path: Path) -> None:
    assert run(tally, "docs", "formulas", cwd=tmp_path).startswith("# ")
    code = (
        "from tallymark.web.docs_tree import load_docs; tree = load_docs();"
        "assert tree.pages['readme'].read.title == 'Tallymark';"
        "assert tree.decisions and 'home.png' in tree.pictures; print(tree.root)"
    )
    assert "site-packages" in run(tally.parent / "python", "-c", code, cwd=tmp_path)


def test_it_is_small(tally: Path) -> None:
    """Without pip and setuptools."""
    (packages,) = (tally.parents[1] / "lib").glob("python*/site-packages")
    counted = [
        path for path in packages.iterdir() if not re.match("pip|setuptools|pkg_", path.name)
    ]
    files = [
        file
        for each in map(Path.resolve, counted)
        for file in (each.rglob("*") if each.is_dir() else [each])
    ]
    assert sum(file.stat().st_size for file in files) < MOST_BYTES
    assert len(list(packages.glob("*.dist-info"))) <= MOST_DISTRIBUTIONS


def test_every_module_is_importable_with_what_its_install_declares(
    tally: Path, extras: Path, tmp_path: Path
) -> None:
    modules = list_modules(tally)
    served = list(filter(is_served, modules))
    found = find_broken(tally, tmp_path, [name for name in modules if name not in served])
    ours = {name for names in UNLOCKED.values() for name in names if name.startswith("tallymark.")}
    assert found.keys() == ours | set(BESIDE_OTHERS), found
    for extra, names in UNLOCKED.items():
        wanted = [*names, *served] if extra == "server" else names
        assert find_broken(tally, tmp_path, wanted, PYTHONPATH=str(extras / extra)) == {}, extra


def is_served(module: str) -> bool:
    return module.partition(".")[2].partition(".")[0] in SERVER_ROOMS


SUITE = """
metadata: {name: sums}
score: success_pct
evals:
  - {name: one, prompt: "1", checks: [{equals: "1"}]}
  - {name: two, prompt: "2", checks: [{match: "*2*"}, {max_tokens: 5}]}
"""
TRACE = """{"trace_id": "t1", "input": "2 + 2?", "output": "4", "spans": []}
"""
CORE = """
run suite.yaml -m echo/x --report report.html --report junit.xml
run suite.yaml -m echo/y --baseline latest
runs
show
show --json
validate suite.yaml
schema
score traces.jsonl --scorer word_count
load traces traces.jsonl
traces list
scorers
formula check success_pct/2
formula explain success_pct/2
challenge list
leaderboard --help
ratings
vars set name value
vars list
admin check
doctor --json
docs formulas
worker --once
--help
--version
"""
"""Commands that need nothing but the base install."""


def test_the_base_install_runs_every_command_that_serves_nothing(
    tally: Path, tmp_path: Path
) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE, encoding="utf-8")
    (tmp_path / "traces.jsonl").write_text(TRACE, encoding="utf-8")
    for line in CORE.split("\n")[1:-1]:
        done = try_tally(tally, tmp_path, *line.split())
        assert done.returncode in ((0, 3) if line.startswith("doctor") else (0,)), (line, done)


@pytest.mark.parametrize("command", ["serve", "view", "mcp", "compete sums --answer 4"])
def test_what_serves_names_the_extra(tally: Path, tmp_path: Path, command: str) -> None:
    done = try_tally(tally, tmp_path, *command.split())
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "needs starlette, which is not installed; install it with: " in done.stderr
    assert '"tallymark[server]"' in done.stderr
    assert not (tmp_path / ".tally").exists()


@pytest.mark.parametrize(
    ("command", "extra"),
    [("secrets set token --stdin", "server"), ("score spans.pb --scorer word_count", "tracing")],
)
def test_what_needs_an_extra_names_it(
    tally: Path, tmp_path: Path, command: str, extra: str
) -> None:
    (tmp_path / "spans.pb").write_bytes(read_protobuf())
    done = try_tally(tally, tmp_path, *command.split())
    assert done.returncode == 2
    assert f'"tallymark[{extra}]"' in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def read_protobuf() -> bytes:
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

    request = trace_service_pb2.ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id, span.name = b"t" * 16, b"s" * 8, "answer"
    return bytes(request.SerializeToString())


def try_tally(
    tally: Path, folder: Path, *words: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tally, *words],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        input="a value\n",
    )


def test_the_server_extra_serves(tally: Path, extras: Path, tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(extras / "server")}
    process = subprocess.Popen(
        [tally, "serve", "--port", "0"],
        cwd=tmp_path,
        env=os.environ | environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        lines, found = [], None
        try:
            for line in process.stderr:
                lines.append(line)
                if found := re.search(r"serves .* at (http://\S+)", line):
                    break
            assert found, lines
            for path in ("/healthz", "/metrics", "/openapi.json", "/docs", "/sign-in"):
                with urllib.request.urlopen(f"{found[1]}{path}", timeout=30) as answer:
                    assert answer.status == 200, path
        finally:
            process.terminate()
            process.stderr.read()


def list_modules(tally: Path) -> list[str]:
    """All that the wheel holds but scripts of alembic, which only it runs."""
    (packages,) = (tally.parents[1] / "lib").glob("python*/site-packages")
    parts = (
        path.relative_to(packages).with_suffix("").parts
        for path in (packages / "tallymark").rglob("*.py")
    )
    left_out = {"__main__", "examples", "migrations"}
    return sorted(
        ".".join(each).removesuffix(".__init__") for each in parts if not left_out & {*each}
    )


def find_broken(
    tally: Path, folder: Path, modules: Iterable[str], **environment: str
) -> dict[str, str]:
    """Modules that cannot be imported there, and why."""
    code = """
import importlib, json, sys
broken = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception as error:
        broken[name] = repr(error)
print(json.dumps(broken))
"""
    found: dict[str, str] = json.loads(
        run(tally.parent / "python", "-c", code, *modules, cwd=folder, **environment)
    )
    return found


def test_models_of_providers_answer_where_only_their_extra_is_installed(
    tally: Path, extras: Path, tmp_path: Path
) -> None:
    ask_providers(tally, tmp_path, PYTHONPATH=str(extras / "models"))


def ask_providers(tally: Path, folder: Path, **environment: str) -> None:
    """Runs a suite through the providers' own libraries, against a server that speaks for them."""
    suite = "evals: [{prompt: hello there, checks: [match: hello there]}]"
    (folder / "suite.yaml").write_text(suite, encoding="utf-8")
    models = ("openai/gpt-5-mini", "anthropic/claude-opus-5", "ollama/tiny")
    words = [word for model in models for word in ("-m", model)]
    with ProviderServer() as server:
        environment |= {
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": server.url,
            "OLLAMA_BASE_URL": f"{server.url}/v1",
        }
        printed = run(tally, "run", "suite.yaml", *words, cwd=folder, **environment)
        assert f"passed{' 1/1' * len(models)}" in " ".join(printed.split()), printed
        assert server.count["hello there"] == len(models)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("built"))


@pytest.mark.proof
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("extra", ["", *UNLOCKED])
def test_it_works_as_pip_installs_it(wheel: Path, version: str, extra: str, tmp_path: Path) -> None:
    """With all that a registry gives, in the pinned versions."""
    making = [f"python{version}", "-m", "venv", str(tmp_path / "venv")]
    if not shutil.which(making[0]) or subprocess.run(making, check=False).returncode != 0:
        pytest.skip("this Python is not installed")
    tally = tmp_path / "venv" / "bin" / "tally"
    wanted = f"{wheel}[{extra}]" if extra else wheel
    pins = Path(__file__).parents[1] / "constraints.txt"
    run(tally.parent / "pip", "install", "-qq", "-c", pins, wanted)
    modules = set(list_modules(tally)) - {*BESIDE_OTHERS, *chain(*UNLOCKED.values())}
    modules = {name for name in modules if extra == "server" or not is_served(name)}
    assert find_broken(tally, tmp_path, [*modules, *UNLOCKED.get(extra, ())]) == {}
    run(tally, "init", "first.yaml", cwd=tmp_path)
    assert "3 passed" in run(tally, "run", "first.yaml", cwd=tmp_path)
    if extra == "models":
        ask_providers(tally, tmp_path)


def test_no_package_but_ours_is_installed(tally: Path) -> None:
    (packages,) = (tally.parents[1] / "lib").glob("python*/site-packages")
    (installed,) = packages.glob("tallymark-*.dist-info")
    rows = csv.reader((installed / "RECORD").read_text("utf-8").splitlines())
    tops = {row[0].partition("/")[0] for row in rows if not row[0].startswith("..")}
    assert tops == {"tallymark", installed.name}
