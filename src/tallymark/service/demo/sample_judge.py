"""A judge for the demo that asks no model: it counts kind words, and so is wrong now and then."""

from __future__ import annotations

import json
import re

REFERENCE = f"python/{__name__}:judge"
"""Reference in a suite."""
_ANSWER = re.compile(r"^<<< ANSWER \w+\n(.*?)^>>> ANSWER", re.DOTALL | re.MULTILINE)
_KIND = ("sorry", "please", "thank", "happy to", "yes", "of course")


def judge(prompt: str) -> str:
    """Its verdict of the answer that stands between the fences."""
    found = _ANSWER.search(prompt)
    answer = "" if found is None else found[1].lower()
    heard = [word for word in _KIND if word in answer]
    choice = "met" if heard else "partly met" if len(answer) > 40 else "not met"
    said = f"It says {', '.join(heard)}." if heard else "No kind word was found."
    return json.dumps({"reasoning": said, "choice": choice})
