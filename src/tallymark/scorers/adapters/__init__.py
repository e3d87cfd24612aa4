"""Adapters: the scorers, evaluators and metrics of other libraries as scorers, unchanged.

Each imports its library when it is called, and this package imports none of them.
"""

from tallymark.scorers.adapters.autoevals import from_autoevals
from tallymark.scorers.adapters.deepeval import from_deepeval
from tallymark.scorers.adapters.inspect import from_inspect
from tallymark.scorers.adapters.pydantic_evals import from_pydantic_evals

__all__ = ["from_autoevals", "from_deepeval", "from_inspect", "from_pydantic_evals"]
