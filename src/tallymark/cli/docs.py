"""`tally docs`: the documentation that came with this version."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallymark.errors import InvalidInput, suggest
from tallymark.text import Table, say

_PACKAGE = Path(__file__).parents[1]


def docs(
    page: Annotated[
        str | None, typer.Argument(metavar="[PAGE]", help="Print this page, such as formulas.")
    ] = None,
) -> None:
    """List the pages of the documentation, or print one."""
    folder = _PACKAGE / "docs"
    if not folder.is_dir():  # not installed from a wheel but worked on
        folder = _PACKAGE.parents[1] / "docs"
    pages = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}
    if page is None:
        titles = [
            (name, text.partition("\n")[0].removeprefix("# ")) for name, text in pages.items()
        ]
        say(Table(("PAGE", "ABOUT"), titles))
    elif page.removesuffix(".md") in pages:
        typer.echo(pages[page.removesuffix(".md")])
    else:
        near = suggest(page, pages)
        hint = f"did you mean {near!r}?" if near else "`tally docs` lists them"
        raise InvalidInput(f"there is no page {page!r}", hint=hint)
