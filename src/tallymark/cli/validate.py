"""`tally validate` and `tally schema`: suites before they run, and what their files may hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tallymark.cli.streams import print_json
from tallymark.errors import InvalidInput
from tallymark.text import get_columns, say


def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Suites in YAML.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check suites: every mistake at once, and their formulas."""
    from tallymark.suites.suite_findings import validate as validate_suite

    documents, wrong = list[dict[str, Any]](), 0
    for file in files:
        try:
            definition, findings = validate_suite(file)
        except InvalidInput as error:
            wrong += 1
            problems = [problem.to_dict() for problem in error.problems]
            documents.append({"file": str(file), "valid": False, "problems": problems})
            if not as_json:
                say(f"{file}: {len(problems)} mistake{'s' if len(problems) > 1 else ''}")
                say(error.render())
            continue
        documents.append(
            {
                "file": str(file),
                "valid": True,
                "cases": len(definition.cases),
                "prompts": [prompt.name for prompt in definition.prompts],
                "formula": definition.formula,
                "findings": [finding.to_dict() for finding in findings],
            }
        )
        if not as_json:
            cases = f"{len(definition.cases)} case{'s' if len(definition.cases) != 1 else ''}"
            cases += (
                f" with each of {len(definition.prompts)} prompts" if definition.prompts else ""
            )
            formula = " ".join(definition.formula.split())
            told = f"{file}: valid, {cases}, formula:"
            apart = " " if len(told) + len(formula) < get_columns() else "\n  "
            say(f"{told}{apart}{formula}")
            for finding in findings:
                say(f"  {finding.level}: {finding}", wrap=True)
    if as_json:
        print_json({"files": documents})
    if wrong:
        raise typer.Exit(2)


def schema(
    what: Annotated[
        Literal["suite", "challenge"], typer.Argument(help="Of what: suite or challenge.")
    ] = "suite",
) -> None:
    """Print the JSON Schema of suites or of challenges, for editors."""
    if what == "challenge":
        from tallymark.challenges.challenge_format import challenge_schema

        print_json(challenge_schema())
        return
    from tallymark.suites.suite_format import suite_schema

    print_json(suite_schema())
