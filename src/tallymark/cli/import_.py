"""`tally import`: another tool's configuration, or its log, as a suite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallymark.cli.new_file import check_new_file, write_new_file
from tallymark.cli.streams import print_json
from tallymark.text import format_count, say


def import_(
    source: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="promptfooconfig.yaml, or an Inspect log."),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The suite; FILE.suite.yaml without it.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Turn a promptfoo configuration or an Inspect log into a suite."""
    from tallymark.suites.imports.imported_suite import import_suite, write_yaml

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
        say(f"not carried over: {problem}", err=True)
    if unfinished:
        verb = "has" if unfinished == 1 else "have"
        say(
            f"{unfinished:,} of {format_count(evals, 'eval')} {verb} assertions that were not "
            "carried over; such an eval cannot pass until you write a check in place of its `todo`",
            err=True,
        )
    say(f"wrote {path}: {format_count(evals, 'eval')}; run it with: tally run {path}")
