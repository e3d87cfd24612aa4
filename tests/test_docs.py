"""Docs cannot lie: every Python block runs, every `$ tally` line shows what tally prints, and the
tables of evaluators, checks, scorers, formats and reports are what these say of themselves.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
from scripts.docs_tables import TABLES, page_with_tables
from tests.cli.tally_process import Tally
from tests.golden.stage import shared_zygote
from tests.golden.zygote import Call

ROOT = Path(__file__).parents[1]
STRICT = "import sys, warnings; sys.path[0] = ''; warnings.simplefilter('error')\n"
"""As `python -W error -c`."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_RUN_ID = re.compile(r"\br[0-9a-z]{10}(?=, )")
_BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> Sequence[object]:
    return [
        pytest.param(page, match[2], id=f"{page.stem}:{page_line(page, match.start())}")
        for page in PAGES
        for match in _BLOCK.finditer(page.read_text(encoding="utf-8"))
        if match[1] == language
    ]


def page_line(page: Path, offset: int) -> int:
    return page.read_text(encoding="utf-8").count("\n", 0, offset) + 1


def shell_examples() -> Sequence[object]:
    """`$ tally ...` lines of console blocks, each with the output printed below it."""
    found = []
    for page in PAGES:
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


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_up_to_date(name: str) -> None:
    page = ROOT / "docs" / TABLES[name][0]
    text = page.read_text(encoding="utf-8")
    assert f"<!-- {name}, made by `make docs` -->" in text
    assert page_with_tables(text) == text, "run `make docs`"


def test_links_lead_somewhere() -> None:
    for page in [*PAGES, *sorted((ROOT / "docs" / "decisions").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if not target.startswith(("http://", "https://")):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
