"""`tally scorers`: what can be given to --scorer and to `scorer` checks, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tallymark.cli.options import Json
from tallymark.cli.streams import print_json
from tallymark.scoring.scorer_descriptions import describe_scorer, describe_scorers
from tallymark.text import StyledLine, Table, say, wrap_paragraphs

if TYPE_CHECKING:
    from tallymark.scoring.scorer_descriptions import ScorerDescription


def scorers(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[REF]", help="Show one scorer: a name, file.py:name or module:name."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the installed scorers, or show one scorer with its options."""
    found = list(describe_scorers()) if name is None else [describe_scorer(name)]
    if as_json:
        print_json({"scorers": msgspec.to_builtins(found, enc_hook=str)})
    elif name is None:
        rows = [(each.name, each.error or each.value) for each in found]
        say(Table(("SCORER", "VALUE"), rows, wrap=("VALUE",)))
    else:
        say(*_describe(found[0]), wrap=True)


def _describe(found: ScorerDescription) -> list[str | StyledLine | Table]:
    parts: list[str | StyledLine | Table] = [": ".join(filter(None, (found.name, found.value)))]
    if found.about:
        parts += ["", *wrap_paragraphs(found.about)]
    if found.options:
        rows = [
            (each.name, "required" if each.required else each.values() or "-")
            for each in found.options
        ]
        parts += ["", Table(("OPTION", "DEFAULT"), rows, wrap=("DEFAULT",))]
    return parts
