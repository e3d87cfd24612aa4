"""`tally init`, `import`, `validate` and `schema`: suite files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tallymark.cli.options import Json
from tallymark.cli.streams import check_new_file, print_json, write_new_file
from tallymark.errors import InvalidInput
from tallymark.text import format_count, get_columns, say


def init(
    path: Annotated[Path, typer.Argument(help="File to write.")] = Path("suite.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write an example suite, with comments that explain it."""
    from tallymark.suites.starter import read_starter_suite  # noqa: PLC0415 (each command loads what it needs)

    text = read_starter_suite()
    check_new_file(path, force=force)
    write_new_file(path, text)
    say(f"Wrote {path}; run it with: tally run {path}", wrap=True)


def import_(
    source: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="promptfooconfig.yaml, or an Inspect log."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Suite file to write. Default: FILE.suite.yaml."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Convert a promptfoo configuration or an Inspect log to a suite."""
    from tallymark.suites.imports.imported_suite import import_suite, write_yaml  # noqa: PLC0415 (as above)

    path = output or Path(f"{source.stem}.suite.yaml")
    check_new_file(path, force=force)
    made = import_suite(source)
    write_new_file(path, write_yaml(made.document))
    evals, unfinished = len(made.evals), made.count_unfinished()
    if as_json:
        left_out = [problem.to_dict() for problem in made.left_out]
        counts = {"evals": evals, "cannot_pass": unfinished}
        print_json({"suite": str(path), **counts, "left_out": left_out})
        return
    for problem in made.left_out:
        say(f"not converted: {problem}", err=True)
    if unfinished:
        verb = "has" if unfinished == 1 else "have"
        say(
            f"{unfinished:,} of {format_count(evals, 'eval')} {verb} assertions that were not "
            "converted; such an eval cannot pass until you replace its `todo` with a check",
            err=True,
        )
    say(f"wrote {path}: {format_count(evals, 'eval')}; run it with: tally run {path}")


def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Suite files (YAML).")],
    as_json: Json = False,
) -> None:
    """Check suite files and their formulas; report every mistake at once."""
    from tallymark.suites.suite_findings import validate as validate_suite  # noqa: PLC0415 (as above)

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
        Literal["suite", "challenge"], typer.Argument(help="Kind of file: suite or challenge.")
    ] = "suite",
) -> None:
    """Print the JSON Schema of suite or challenge files, for editors."""
    if what == "challenge":
        from tallymark.challenges.challenge_format import challenge_schema  # noqa: PLC0415 (as above)

        print_json(challenge_schema())
        return
    from tallymark.suites.suite_format import suite_schema  # noqa: PLC0415 (as above)

    print_json(suite_schema())
