"""`tally docs`: the documentation that came with this version."""

from __future__ import annotations

from typing import Annotated

import typer

from tallymark.errors import InvalidInput, suggest
from tallymark.text import Table, say
from tallymark.web.docs_tree import load_docs


def docs(
    page: Annotated[
        str | None, typer.Argument(metavar="[PAGE]", help="Page to print, such as formulas.")
    ] = None,
) -> None:
    """List the pages of the documentation, or print one. `tally view` shows them at /docs."""
    tree = load_docs()
    if page is None:
        listed = [each for each in tree.list_pages() if "/" not in each.name]
        say(Table(("PAGE", "ABOUT"), [(each.name, each.title) for each in listed]))
    elif (name := page.removesuffix(".md")) in tree.pages:
        typer.echo(tree.pages[name].source)
    else:
        near = suggest(page, tree.pages)
        hint = f"did you mean {near!r}?" if near else "`tally docs` lists them"
        raise InvalidInput(f"there is no page {page!r}", hint=hint)
