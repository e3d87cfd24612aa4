"""An example store that lives: made from the examples, and played on while it is served."""

from tallymark.service.demo.demo import Demo

__all__ = ["Demo"]
