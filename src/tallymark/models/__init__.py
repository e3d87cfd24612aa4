"""Models and agents behind one interface: providers, replay, endpoints, programs, Python
functions.
"""

from tallymark.models.model import Answer, Loadable, McpServer, Message, Model, Request
from tallymark.models.model_answers import trace_of
from tallymark.models.model_kinds import open_model
from tallymark.models.retries import Pace, answer_with_retries
from tallymark.models.token_count import count_tokens

__all__ = [
    "Answer",
    "Loadable",
    "McpServer",
    "Message",
    "Model",
    "Pace",
    "Request",
    "answer_with_retries",
    "count_tokens",
    "open_model",
    "trace_of",
]
