"""Flat records and conversations: a question and an answer a line, or the messages of a chat.

They are read as our own shape is, which takes them too; but a file that is any other format's is
that format's first.
"""

from __future__ import annotations

from tallymark.traces.dialect import Dialect
from tallymark.traces.dialects.jsonl import read
from tallymark.traces.flat_records import is_flat

DIALECT = Dialect(
    name="records",
    files="answers with their questions, conversations, trees of steps: one a line, or an array",
    known_by="`output`, `messages`, or `children` with a name; or a question with an answer",
    read=read,
    sniff=is_flat,
)
