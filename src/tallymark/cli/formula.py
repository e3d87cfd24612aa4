"""`tally formula check` and `tally formula explain`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand

from tallymark.cli.options import CommandGroup, Json
from tallymark.cli.streams import print_json, read_text
from tallymark.errors import FormulaError, InvalidInput
from tallymark.formula import MORE_METRICS, RUN_METRICS, Formula, Names
from tallymark.text import say, wrap_lines

app = typer.Typer(cls=CommandGroup, no_args_is_help=True)

_OPTION = re.compile("--[a-z][a-z-]*(=|$)")


class _FormulaCommand(TyperCommand):
    """A formula may start with a minus, as `-success_pct`, and is no option then."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        names = {name for each in self.params for name in (*each.opts, *each.secondary_opts)}
        names |= {*ctx.help_option_names}
        for at, word in enumerate(args):
            if word == "--":  # an explicit end of the options
                break
            before = args[at - 1] if at else ""
            value = before in names and not before.endswith(("json", "-h", "--help"))
            option = word in names or word == "-" or _OPTION.match(word)
            if word.startswith("-") and not option and not value:
                return super().parse_args(ctx, [*args[:at], *args[at + 1 :], "--", word])
        return super().parse_args(ctx, args)


FormulaArgument = Annotated[
    str | None, typer.Argument(metavar="FORMULA", help="The formula, or - to read it from stdin.")
]
FileOption = Annotated[
    Path | None, typer.Option("--file", "-f", help="Read the formula from a file.")
]
EvalsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="Eval of your suite: declares NAME, NAME_latency and NAME_cost. Repeatable.",
    ),
]


@app.command(cls=_FormulaCommand)
def check(
    formula: FormulaArgument = None,
    file: FileOption = None,
    name: EvalsOption = None,
    as_json: Json = False,
) -> None:
    """Check a formula: report mistakes, or the range of its scores."""
    text = _read_formula(formula, file)
    with _telling_problems(text, as_json=as_json):
        parsed = Formula.parse(text, Names.of_run(name or ()))
    report = parsed.lint()
    if as_json:
        print_json(
            {"valid": True, "formula": str(parsed), "names": list(parsed.names)} | report.to_dict()
        )
        return
    say(f"valid    {parsed}")
    say(f"uses     {', '.join(parsed.names) or 'no names'}")
    for finding in report.findings:
        place = finding.place
        caret = place.caret() if place is not None else None
        say(*wrap_lines(f"{finding.level:<8} {finding}", indent=9))
        if caret is not None:
            say("         " + caret.replace("\n", "\n         "))


@app.command(cls=_FormulaCommand)
def explain(
    formula: FormulaArgument = None,
    file: FileOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Value of a name. Repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Explain a score: the formula with values, and each term's share."""
    values = dict(_parse_setting(each) for each in settings or ())
    text = _read_formula(formula, file)
    with _telling_problems(text, as_json=as_json):
        explanation = Formula.parse(text, [*RUN_METRICS, *MORE_METRICS, *values]).explain(values)
    if as_json:
        print_json(explanation.to_dict())
    else:
        say(explanation.render())


@contextmanager
def _telling_problems(text: str, *, as_json: bool) -> Iterator[None]:
    """Print the problems of a formula as JSON if `as_json` is set."""
    try:
        yield
    except FormulaError as error:
        if not as_json:
            raise
        problems = [problem.to_dict() for problem in error.problems]
        print_json({"valid": False, "formula": text, "problems": problems})
        raise typer.Exit(error.exit_code) from None


def _read_formula(given: str | None, file: Path | None) -> str:
    if (given is None) == (file is None):
        raise InvalidInput(
            "give one formula", hint='as in: tally formula check "success_pct / total_cost"'
        )
    return (given if given not in (None, "-") else read_text(file)) or ""


def _parse_setting(text: str) -> tuple[str, float | None]:
    name, _, value = text.partition("=")
    try:
        return name.strip(), None if value.strip() == "null" else float(value)
    except ValueError:
        hint = "write --set name=number, or name=null for a value that is missing"
        raise InvalidInput(f"--set {text!r} does not give a name a number", hint=hint) from None
