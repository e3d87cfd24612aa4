"""The agent of a help desk and its tests. Run it with: tally score examples/agent_eval.py

The agent is a function that follows a few rules instead of calling a model. It returns the tools
that it called and its usage.
"""

from __future__ import annotations

import re
from typing import Any

from tallymark import EvalContext, Score, Suite, Test, composite, scorer
from tallymark.scoring import load_scorer

ORDERS = {"17": "delivered", "18": "on its way"}


def agent(request: dict[str, Any]) -> dict[str, Any]:
    """Answer a customer."""
    query = request["query"]
    number = re.search(r"\d+", query)
    if number is None:
        output, calls = "Thanks for writing! Which order is it? Please tell me its number.", []
    elif number[0] not in ORDERS:
        output, calls = f"I cannot find order {number[0]}.", [_call("find_order", number[0])]
    else:
        status = ORDERS[number[0]]
        output = f"Thanks for waiting! Your order {number[0]} is {status}."
        calls = [_call("find_order", number[0], status)]
        if "refund" in query and status == "delivered":
            output = (
                f"Thanks for telling us. Order {number[0]} is refunded; the money is on its way."
            )
            calls.append(_call("refund", number[0], "done"))
    usage = {"input_tokens": len(query), "output_tokens": len(output), "cost": len(output) / 1e6}
    return {"output": output, "tool_calls": calls, "usage": usage}


def _call(tool: str, order: str, result: str | None = None) -> dict[str, Any]:
    return {"name": tool, "arguments": {"order": order}, "result": result}


@scorer(blocking=False)
def polite(ctx: EvalContext) -> Score:
    """Return 1 if the answer thanks the customer, else 0.5."""
    thanks = "thanks" in ctx.output.lower()
    return Score(1.0 if thanks else 0.5, reason="Says thanks" if thanks else "Does not say thanks")


suite = Suite(
    "help desk",
    [
        Test(
            "gives the status",
            {"query": "Where is order 18?"},
            expected={"output_contains": ["on its way"], "tool_calls": ["find_order"]},
        ),
        Test(
            "refunds what was delivered",
            {"query": "I want a refund for order 17."},
            expected={"output_contains": ["refunded"], "tool_calls": ["find_order", "refund"]},
        ),
        Test(
            "asks for the number",
            {"query": "Where is my order?"},
            expected={"output_contains": ["number"]},
            scorers=["mentions", "polite"],
        ),
        Test(
            "does not invent orders",
            {"query": "Where is order 99?"},
            expected={"output_contains": ["cannot find"], "tool_calls": ["find_order"]},
            scorers=["mentions", "tools"],
        ),
    ],
    scorers={
        "mentions": load_scorer("contains", ignore_case=True),
        "tools": "tool_selection",
        "polite": polite,
        "quality": composite([(load_scorer("contains"), 2), (polite, 1)]),
    },
)
