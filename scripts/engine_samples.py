"""Fixed traces, attempts and a suite for the proofs of engines."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from tallymark.challenges.attempt import Attempt, Metrics, Outcome
from tallymark.challenges.challenge_file import load_challenge
from tallymark.challenges.challenge_folder import pack
from tallymark.store import open_store

CHALLENGE = "race"
_WORDS = (
    *("refund", "order", "sorry", "please", "thank", "you", "the", "parcel", "is", "late"),
    *("again", "we", "ship", "it", "today"),
)
_SCORER = '''"""A scorer that takes its time: {rounds} looks at every trace."""

import re

from tallymark import Score, scorer

POLITE = re.compile(r"\\b(please|thank|sorry)\\b")


@scorer
def polite(ctx):
    text = " ".join(span.output for span in ctx.trace.spans)
    found = 0
    for _ in range({rounds}):
        found += len(POLITE.findall(text))
    share = found / {rounds} / max(1, len(text.split()))
    return Score(min(1.0, 4 * share), f"{{share:.6f}} of the words", {{"words": len(text.split())}})
'''
_PLUGIN = '''"""A plugin that takes its time: {rounds} sums for every attempt."""


class Heavy:
    def score(self, metrics, config, ctx):
        if ctx["end_user_id"] == "crasher" and metrics["tokens_total"] % 3:
            import os

            os._exit(3)
        total = 0.0
        for step in range({rounds}):
            total += (metrics["tokens_total"] * 31 + step) % 97
        value = metrics.get("rating", 0) * 10 + total / {rounds} + config.get("more", 0)
        return {{"score": value, "details": {{"total": total}}}}
'''


def write_traces(folder: Path, count: int, rounds: int) -> None:
    """`traces.jsonl`, and `scorers.py` that looks at them."""
    dice = random.Random(19)
    (folder / "scorers.py").write_text(_SCORER.format(rounds=rounds), "utf-8")
    with (folder / "traces.jsonl").open("w", encoding="utf-8") as file:
        for number in range(count):
            spans = [
                {
                    "span_id": f"{number}-{step}",
                    "name": "answer",
                    "span_type": "generation",
                    "input": "Where is my parcel?",
                    "output": " ".join(dice.choices(_WORDS, k=60)),
                    "duration_ms": round(dice.random() * 900, 3),
                    "input_tokens": dice.randrange(500),
                    "output_tokens": dice.randrange(90),
                    "cost": round(dice.random() / 100, 6),
                }
                for step in range(3)
            ]
            # Some have no id, and some have one that another has too.
            name = "" if number % 1000 == 7 else f"t-{number - number % 500 % 2}"
            file.write(json.dumps({"trace_id": name, "name": "support", "spans": spans}) + "\n")


def write_attempts(folder: Path, db: str, count: int, rounds: int) -> None:
    """A challenge with `heavy.py` among its files, and attempts that were reported."""
    home = folder / CHALLENGE
    home.mkdir()
    (home / "heavy.py").write_text(_PLUGIN.format(rounds=rounds), "utf-8")
    told = {"name": CHALLENGE, "goal": "Be quick.", "evaluator": "reported"}
    told |= {"scoring_strategy": "custom", "scoring_plugin_id": "builtin.weighted_scorer"}
    (home / "challenge.json").write_text(json.dumps(told), "utf-8")
    challenge = load_challenge(home)
    with open_store(db) as store:
        store.challenges.publish(challenge, pack(home), at=0.0)
        found = _make_attempts(challenge.version, count)
        store.attempts.load(challenge.name, found, at=0.0, rated=False)


def _make_attempts(version: str, count: int) -> Iterator[Attempt]:
    dice = random.Random(23)
    agents = max(2, count // 20)
    for number in range(count):
        at = 1_700_000_000.0 + number
        metrics = Metrics(
            succeeded=dice.random() < 0.9,
            tokens_total=dice.randrange(20_000),
            elapsed_ms=dice.randrange(3_600_000),
            rating=float(dice.randrange(11)),
        )
        # One that ends the plugin's process again and again, and has attempts on several pages.
        agent = "crasher" if number % 5 == 0 else f"agent-{dice.randrange(agents):05d}"
        yield Attempt(
            id="",
            challenge=CHALLENGE,
            version=version,
            agent=agent,
            number=0,
            state="scored",
            seed=number,
            entered_at=at - 60,
            expires_at=at + 3540,
            submitted_at=at,
            scored_at=at,
            outcome=Outcome(score=1.0, result="win", ranks=True, metrics=metrics),
        )


def write_suite(folder: Path, count: int, rounds: int) -> None:
    """`suite.yaml` over `rows.csv`, and the answers of `replay/samples`."""
    (folder / "scorers.py").write_text(_SCORER.format(rounds=rounds), "utf-8")
    dice = random.Random(29)
    with (folder / "rows.csv").open("w", encoding="utf-8") as rows:
        rows.write("id,left,right,sum\n")
        for number in range(count):
            left, right = dice.randrange(1000), dice.randrange(1000)
            rows.write(f"r{number},{left},{right},{left + right}\n")
    with (folder / "samples.jsonl").open("w", encoding="utf-8") as answers:
        dice = random.Random(29)
        for _ in range(count):
            left, right = dice.randrange(1000), dice.randrange(1000)
            wrong = (left * right) % 7 == 0
            line = {
                "prompt": f"What is {left} + {right}?",
                "output": f"It is {left + right + wrong}, of course.",
                "latency": (left % 90 + 1) / 100,
                "input_tokens": 9,
                "output_tokens": 6,
                "cost": 0.0001 * (right % 9 + 1),
            }
            answers.write(json.dumps(line) + "\n")
    (folder / "suite.yaml").write_text(
        "metadata:\n  name: sums\nevals:\n  - name: sum\n    cases_from: rows.csv\n"
        "    prompt: What is {{var('left')}} + {{var('right')}}?\n    checks:\n"
        "      - match: \"*{{var('sum')}}*\"\n      - max_tokens: 40\n"
        "      - scorer: {use: 'scorers.py:polite', threshold: 0}\n"
        "score: 100 * sum - total_cost\n",
        "utf-8",
    )
