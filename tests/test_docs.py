"""The documentation is correct: Python and shell blocks run, console blocks show the real output,
every command and option exists, and generated tables are up to date.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from scripts import api_reference
from scripts.docs_tables import TABLES, page_with_tables
from tests import hints, shell_blocks, tutorials
from tests.cli.tally_process import Tally
from tests.container_file import read_instructions
from tests.golden.stage import shared_zygote
from tests.golden.zygote import Call

from tallymark.challenges.challenge_file import load_challenge
from tallymark.suites.suite_file import load_suite

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tallymark"
STRICT = "import sys, warnings; sys.path[0] = ''; warnings.simplefilter('error')\n"
"""Like `python -W error -c`."""
RUN_HERE = {"adapters"}
"""Pages whose blocks use libraries that load slowly; they run in this process."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_RUN_ID = re.compile(r"\br[0-9a-z]{10}\b")
_BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> Sequence[object]:
    """Code blocks of a language, except files of tutorials, which their own commands use."""
    return [
        pytest.param(page, match[2], id=f"{page.stem}:{page_line(page, match.start())}")
        for page in PAGES
        for match in _BLOCK.finditer(page.read_text(encoding="utf-8"))
        if match[1] == language
        and (page not in tutorials.PAGES or match[0].startswith(f"```{language}\n"))
    ]


def page_line(page: Path, offset: int) -> int:
    return page.read_text(encoding="utf-8").count("\n", 0, offset) + 1


def shell_examples() -> Sequence[object]:
    """`$ tally ...` lines of console blocks, each with the output printed below it."""
    found = []
    for page in [each for each in PAGES if each not in tutorials.PAGES]:
        for match in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            if match[1] != "console":
                continue
            for command in re.split(r"^\$ ", match[2], flags=re.MULTILINE)[1:]:
                line, _, output = command.partition("\n")
                if line.startswith("tally "):
                    found.append(pytest.param(line, output, id=f"{page.stem}:{line[:50]}"))
    return found


@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_python_blocks_run(page: Path, code: str, tmp_path: Path) -> None:
    if page.stem in RUN_HERE:
        exec(compile(code, page.name, "exec"), {"__name__": "block"})
        return
    script = tmp_path / "block.py"
    script.write_text(f"{STRICT}{code}", encoding="utf-8")
    call = Call(["python", str(script)], str(ROOT), dict(os.environ), now=None)
    finished = shared_zygote()(call)
    assert finished.code == 0, f"{page.name}:\n{code}\n{finished.err}"


@pytest.mark.parametrize(("line", "output"), shell_examples())
def test_console_blocks_show_what_is_printed(line: str, output: str, tmp_path: Path) -> None:
    env = {"COLUMNS": "100", "NO_COLOR": "1", "TALLY_DB": str(tmp_path / "tally.db")}
    finished = Tally(ROOT)(*shlex.split(line)[1:], env=env)
    printed, shown = (_RUN_ID.sub("r…", text) for text in (finished.stdout, output))
    assert (printed + finished.stderr).strip() == shown.strip()


@pytest.mark.parametrize(
    "page", [each for each in PAGES if shell_blocks.find_lines(each)], ids=lambda page: page.stem
)
def test_shell_blocks_run(page: Path) -> None:
    for line, outcome in shell_blocks.play(page):
        assert outcome.code == 0, f"{line}\n{outcome.err}{outcome.out}"


def test_excluded_commands_are_still_in_the_docs() -> None:
    lines = [line for page in PAGES for line in shell_blocks.find_lines(page)]
    for start in (*shell_blocks.NOT_PLAYED, *shell_blocks.READERS_COMMANDS):
        assert any(line.startswith(start) for line in lines), start


def test_mentioned_commands_exist_and_parse() -> None:
    """In docs, messages and pages. Not a test for each: all sources are parsed to find them."""
    found = {
        *hints.in_docs(),
        *hints.in_examples(),
        *hints.in_sources(),
        *hints.in_templates(),
    }
    assert [problem for each in found if (problem := hints.find_problem(each))] == []


def typed_commands() -> list[str]:
    """Commands that messages and pages ask users to type, with placeholders filled in."""
    found = [*hints.in_sources(), *hints.in_templates()]
    filled = {hints.fill_in(each.words) for each in found if each.typed}
    run = [each for each in filled if not each.startswith(tuple(hints.ONLY_PARSED))]
    return sorted(each for each in run if hints.is_complete(shlex.split(each)))


def test_commands_that_are_only_parsed_are_still_mentioned() -> None:
    found = [hints.fill_in(each.words) for each in (*hints.in_sources(), *hints.in_templates())]
    for start in hints.ONLY_PARSED:
        assert any(words.startswith(start) for words in found), start


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    hints.prepare(folder)
    return folder


def test_hints_run_as_pasted(prepared: Path, tmp_path: Path) -> None:
    failed = []
    for number, line in enumerate(typed_commands()):
        here = tmp_path / str(number)
        shutil.copytree(prepared, here)
        for each in (*hints.BEFORE.get(" ".join(line.split()[:3]), ()), line):
            done = Tally(here)(*shlex.split(each)[1:], stdin="y\n")
            if done.returncode != 0:
                failed.append(f"{each}\n{done.stderr}{done.stdout}")
    assert failed == []


@pytest.mark.parametrize("page", tutorials.PAGES, ids=lambda page: page.stem)
def test_tutorials_show_the_real_output(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert tutorials.play(text) == text, "run `make docs`"


def test_the_terminal_picture_is_up_to_date() -> None:
    assert tutorials.PICTURE.read_text(encoding="utf-8") == tutorials.picture(), "run `make docs`"


def test_ci_files_use_the_commands_of_the_page() -> None:
    text = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    played = set(re.findall(r"^\$ (tally .+)$", text, re.MULTILINE))
    for name in (".github/workflows/evals.yml", ".gitlab-ci.yml"):
        [block] = re.findall(
            rf"^```yaml {re.escape(name)}\n(.*?)^```", text, re.MULTILINE | re.DOTALL
        )
        assert yaml.safe_load(block)
        assert set(re.findall(r"^[ -]+(tally .+)$", block, re.MULTILINE)) <= played


def test_every_environment_variable_is_documented() -> None:
    documented = set(
        re.findall(r"^\| `(TALLY_\w+)`", (ROOT / "docs/settings.md").read_text(), re.MULTILINE)
    )
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    used = {name for text in sources for name in re.findall(r"\bTALLY_[A-Z_]+\b", text)}
    assert documented == used - {"TALLY_TRIAL"}  # the sandbox tests whether a guest can see it


def test_troubleshooting_quotes_real_messages() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    said = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for quoted in re.findall(r"^\| `([^`]+)`", page, re.MULTILINE):
        words = quoted.partition(" at .tally")[0].rpartition(": ")[0] or quoted.partition(" at ")[0]
        assert words in said, quoted


def test_referenced_decisions_exist() -> None:
    known = {path.name[:4] for path in (ROOT / "docs" / "decisions").glob("*.md")}
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]:
        named = re.findall(r"decisions?[/ ](\d{4})", path.read_text(encoding="utf-8"))
        assert set(named) <= known, path.relative_to(ROOT)


def test_paths_on_the_map_exist() -> None:
    text = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
    found = re.findall(r"`([\w-]+/[\w/.-]*)`", text)
    assert len(found) > 20
    for path in found:
        below = ROOT if path.startswith(("tests/", "bench/", "scripts/", "examples/")) else SOURCE
        assert (below / path).exists() or (ROOT / path).exists(), path


@pytest.mark.parametrize("name", TABLES)
def test_generated_tables_are_up_to_date(name: str) -> None:
    page = ROOT / "docs" / TABLES[name][0]
    text = page.read_text(encoding="utf-8")
    assert f"<!-- {name}, made by `make docs` -->" in text
    assert page_with_tables(text) == text, "run `make docs`"


def test_examples_of_the_comparison_are_valid(tmp_path: Path) -> None:
    """Suites and challenges of the page load, with empty files where they name some."""
    (tmp_path / "capitals.csv").write_text("country,capital\nPeru,Lima\n", encoding="utf-8")
    for name in ("generate.py", "evaluate.py", "truth.json", "countries.json", "agent.py"):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    text = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    shown = []
    for name, body in re.findall(r"^```yaml ([^\n]+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        path = tmp_path / name.split()[0]
        if name == "suite.yaml":
            path.write_text(body, encoding="utf-8")
            assert load_suite(path).evals
            shown.append("suite")
        elif name.endswith("Tallymark"):
            path.write_text(body, encoding="utf-8")
            assert load_challenge(tmp_path).goal
            shown.append("challenge")
    assert shown == ["suite", "suite", "challenge", "challenge"]


def test_api_reference_is_up_to_date() -> None:
    assert api_reference.PAGE.read_text(encoding="utf-8") == api_reference.write_page(), (
        "run `make docs`"
    )


@pytest.mark.proof
@pytest.mark.parametrize(("page", "code"), blocks("py"))
def test_code_of_other_libraries_runs(page: Path, code: str, tmp_path: Path) -> None:
    """The code of other libraries on the comparison page was run, not only read."""
    script = tmp_path / "block.py"
    script.write_text(code, encoding="utf-8")
    env = os.environ | {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES"}
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{page.name}:\n{done.stderr}"


def test_the_container_file_copies_what_is_there() -> None:
    lines = read_instructions()
    known = {"FROM", "RUN", "COPY", "USER", "WORKDIR", "VOLUME", "ENV", "EXPOSE", "HEALTHCHECK"}
    assert {line[0] for line in lines} <= known | {"CMD", "ENTRYPOINT"}
    copied = [source for line in lines if line[0] == "COPY" for source in line[1:-1]]
    assert copied
    assert all((ROOT / source).exists() for source in copied)
    assert lines.index(["USER", "tally"]) < next(
        n for n, line in enumerate(lines) if line[0] == "CMD"
    )
