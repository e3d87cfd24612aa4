"""The command line, `tally`. One file per command; none has logic of its own."""

from tallymark.cli.main import main

__all__ = ["main"]
