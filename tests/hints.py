"""Every `tally ...` command that docs, pages and messages ask users to type.

A hint at the end of a line, in backticks, in quotes of a template or after a colon is complete and
can be pasted. Elsewhere in a sentence, only the name of the command counts.
"""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from tests.cli.tally_process import Tally
from typer.main import get_command

from tallymark.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tallymark"
_NAMED = re.compile(rf"(?<![\w/.-])tally (?={'|'.join(sorted(COMMANDS))}\b)")
_ENDS = re.compile(
    r"[`\n;]|(?<!\.)\.(?= |$)|,(?= )| \(|\)$| && | # | \| |  | or: | goes on| and (?=tally )"
)
_TYPED = re.compile(r"((^|\n) *|[:`(] ?|&& )$")
"""Text before a command that can be pasted."""


_CALLED = {"versus submit": "my-versus", "attempt report": "my-reported", "rules": "polite"}
"""The challenge or rule of the prepared folder that a command is for."""
_FILES = {"attempt submit": "my-tests/solution.py"}
STANDS_FOR = {
    **dict.fromkeys(("AGENT", "NAME", "agent"), "bob"),
    **dict.fromkeys(
        (
            "CHALLENGE",
            "board",
            "challenge",
            "challenge.name",
            "name",
            "view.challenge.name|cut(60)",
        ),
        "{challenge}",
    ),
    **dict.fromkeys(("ATTEMPT", "attempt.id", "entered.attempt.id"), "a1"),
    **dict.fromkeys(("done.id", "done.attempt.id"), "a2"),
    **dict.fromkeys(("RUN", "large[0]", "record.id", "run", "run.id", "run.record.id"), "latest"),
    "case": " --case math",
    "shlex.quote(some[0].name)": "math",
    "shlex.quote(str(path))": "promptfooconfig.yaml",
    "started.records[0].id": "latest",
    "' '.join((each.id for each in records))": "latest latest",
    **dict.fromkeys(("desk.there", "there", "there or ''"), ""),
    **dict.fromkeys(("DIR", "folder"), "my-tests"),
    "FILE": "{file}",
    **dict.fromkeys(("args[0]", "records"), "traces.jsonl"),
    "path": "suite.yaml",
    "suite": "agent_eval.py",
    "options": "--answer my-tests",
    "words": "https://tally.example",
    "MODEL": "echo/me",
    "TENANT": "default",
    **dict.fromkeys(("ID", "N", "SUBMISSION"), "1"),
    **dict.fromkeys(("URL", "url", "self.client.connection.address"), "https://tally.example"),
    **dict.fromkeys(("host", "shown"), "127.0.0.1"),
    "listening": "8321",
    **dict.fromkeys(("found.id", "key.id"), "1"),
    **dict.fromkeys(("webhook", "webhook_id"), "1"),
    "made.name": "polite",
    "started.run.id": "latest",
    "made.key.id": "key_00000000",
    "budget": " --budget 0.5",
}
"""Values for placeholders in docs and expressions in messages, in the prepared folder."""


@dataclass(frozen=True)
class Hint:
    """A command and its place."""

    place: str
    words: str
    typed: bool
    """True if it can be pasted, False if a sentence only names it."""


@cache
def command_tree() -> Any:
    """All commands with their real options."""
    app = typer.Typer(name="tally")
    app.callback()(lambda: None)
    for name, listed in COMMANDS.items():
        module, _, attribute = listed.place.partition(":")
        found = getattr(import_module(f"tallymark.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return get_command(app)


def find_problem(hint: Hint) -> str | None:
    """The place, the command and what is wrong with it."""
    try:
        parse(hint)
    except Exception as problem:  # noqa: BLE001 (whatever the command would say)
        return f"{hint.place}: {hint.words}: {problem!r}"
    return None


def parse(hint: Hint) -> None:
    """Raises what the command would say; of one that is only named, its options must exist."""
    words = shlex.split(fill_in(hint.words).partition(" > ")[0])
    command, called, rest = command_tree(), words[:1], words[1:]
    while rest and getattr(command, "commands", None):
        if rest[0] not in command.commands:
            assert not hint.typed, f"{' '.join(called)} has no command {rest[0]!r}"
            return  # a sentence goes on: "what tally export wrote"
        called.append(rest[0])
        command, rest = command.commands[rest[0]], rest[1:]
    options = {word for word in rest if re.match("--?[a-z]", word)} - {"--help", "-h"}
    # `tally run --resume` names an option; with a value or an argument it is a command to type.
    if hint.typed and len(options) < len(rest) and not rest[-1].startswith("-"):
        command.make_context(called[-1], [*rest])
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    assert options <= known, f"{' '.join(called)} has no {', '.join(sorted(options - known))}"


def fill_in(words: str) -> str:
    """With something of the prepared folder for each placeholder; an unknown one is a KeyError."""
    filled = re.sub(r"<(.*?)>(?![^<]*>)", lambda found: STANDS_FOR[found[1]], words)
    filled = re.sub(r" \[.*?\](?=\.*$| )", "", filled)  # [--agent NAME] may be left out
    for name, value in STANDS_FOR.items():
        if name.isupper():
            filled = re.sub(rf"\b{name}\b(?!=)", value, filled)
    called = next((value for start, value in _CALLED.items() if start in filled), "my-tests")
    file = next((value for start, value in _FILES.items() if start in filled), "traces.jsonl")
    return filled.replace("{challenge}", called).replace("{file}", file)


def is_complete(words: list[str]) -> bool:
    """Whether something is given to it: the others only name a command, or an option of it."""
    command, rest = command_tree(), words[1:]
    while rest and getattr(command, "commands", None):
        command, rest = command.commands[rest[0]], rest[1:]
    return not all(word.startswith("-") for word in rest)


def find_hints(text: str, place: str) -> Iterator[Hint]:
    """The commands in a text."""
    for found in _NAMED.finditer(text):
        rest = text[found.start() :]
        end = _ENDS.search(rest)
        words = rest[: end.start()] if end else rest
        typed = bool(_TYPED.search(text[: found.start()]))
        yield Hint(place, words.strip(), typed)


def in_examples() -> Iterator[Hint]:
    """Commands of the demo and the tour; only their options are looked at."""
    for path in sorted((ROOT / "examples").glob("*.sh")):
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        for words in re.findall(r"\btally (?:[a-z]+ )+[^\n|;&$'\"()]*", text):
            yield Hint(path.name, words.strip(), typed=False)


@cache
def in_sources() -> tuple[Hint, ...]:
    """Commands in the texts of our own code; what is filled in is `<expression>`."""
    return tuple(_find_in_sources())


def _find_in_sources() -> Iterator[Hint]:
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "tally " not in text:  # a few files name commands; parsing all takes seconds
            continue
        tree = ast.parse(text)
        formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
        inner = {id(part) for node in formatted for part in node.values}
        place = path.relative_to(SOURCE).as_posix()
        for node in formatted:
            yield from find_hints("".join(map(_write_part, node.values)), place)
        for each in ast.walk(tree):
            if isinstance(each, ast.Constant) and id(each) not in inner:
                yield from find_hints(each.value if isinstance(each.value, str) else "", place)


def _write_part(part: ast.expr) -> str:
    """A piece of an f-string."""
    if isinstance(part, ast.FormattedValue):
        return f"<{ast.unparse(part.value)}>"
    return str(part.value) if isinstance(part, ast.Constant) else ""


def in_templates() -> Iterator[Hint]:
    """Commands on pages, most of them with a button that copies them."""
    for path in sorted((SOURCE / "web" / "templates").rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        text = re.sub(r'" ~ ([^"~]+) ~ "', r"<\1>", text)
        text = re.sub(r"{{ ([^{}\"]+) }}", r"<\1>", text)
        for quoted in re.findall(r'(?:"|<code>)(tally [^"]*?)(?:"|</code>)', text):
            for each in quoted.split(" && "):
                yield Hint(path.name, each, typed=True)


def in_docs() -> Iterator[Hint]:
    """Commands in backticks; blocks are played by themselves."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for words in re.findall(r"`(tally [a-z][^`\n]*)`", text):
            # Where several are told at once, `tally init | run`, the first one counts.
            yield Hint(path.name, re.split(r" \||, tally|  | # ", words)[0], typed=True)


ONLY_PARSED = {
    "tally serve": "goes on until it is stopped; tests/test_server.py starts it",
    "tally login": "needs a server and a key; tests/cli/test_login.py has both",
    "tally admin invitations create --server": "the same",
    "tally run --resume latest --server": "the same; tests/cli/test_both_ways.py",
    "tally admin keys rotate": "an id is drawn; tests/cli/test_admin.py",
    "tally admin invitations revoke": "the same",
    "tally webhooks rotate": "the same; tests/cli/contest_stories.py",
    "tally webhooks deliveries": "the same",
    "tally webhooks add": "looks its host up; tests/cli/contest_stories.py",
    "tally rescore my-tests --config": "KEY=VALUE stands for what a plugin takes",
}
"""How a command begins that is not run here, and why."""
BEFORE = {
    "tally agent reinstate": ["tally agent disqualify bob --reason TEXT"],
    "tally attempt unvoid": ["tally attempt void a2 --reason TEXT"],
    "tally challenge publish": ["tally challenge init deterministic my-challenge"],
    "tally rules backfill": ["tally rules add polite --formula cost"],
    "tally rules show": ["tally rules add polite --formula cost"],
}
"""What a command undoes, or goes on from."""


def prepare(folder: Path) -> None:
    """A folder with files, challenges, an open attempt, a scored one, and two runs.

    The latest run has cases that could not run, because its model was down.
    """
    tally = Tally(folder)
    lines = [
        "init",
        "run suite.yaml",
        "load traces traces.jsonl",
        *(f"challenge init {kind}" for kind in ("tests", "reported", "versus")),
        *(f"challenge publish my-{kind} --force" for kind in ("tests", "reported", "versus")),
        "attempt enter my-tests --agent bob",
        "attempt report my-reported --agent bob --metric succeeded=true --metric steps=2",
    ]
    (folder / "traces.jsonl").write_text(
        '{"id": "t-1", "input": "Where is it?", "output": "On its way."}\n', encoding="utf-8"
    )
    (folder / "promptfooconfig.yaml").write_text(
        "prompts: [Say hello.]\nproviders: [echo]\n"
        "tests: [{assert: [{type: contains, value: hello}]}]\n",
        encoding="utf-8",
    )
    shutil.copy(ROOT / "examples" / "agent_eval.py", folder)
    for line in lines:
        done = tally(*shlex.split(line))
        assert done.returncode == 0, f"{line}: {done.stderr}"
    (folder / "model.sh").write_text("[ -e model-is-up ] && cat\n", encoding="utf-8")
    assert tally("run", "suite.yaml", "-m", "cmd/sh model.sh").returncode == 3
    (folder / "model-is-up").touch()
