"""The examples as the demo plays them: open to all who look, and without quotas."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

from tallymark.service.demo.sample_judge import REFERENCE as JUDGE

_PACKAGE = Path(__file__).parents[2]
_DAY = 86_400.0
_FEWEST_WORDS = """\
name: fewest-words
title: Fewest words
goal: |
  Answer ten questions in as few tokens as you can, and be right. The system that asks reports
  whether the answers were right, what a judge thought of them (0-10), and what they took.
difficulty: contender
rated: every
visibility: public
evaluator: reported
scoring:
  strategy: custom
  formula: succeeded * max(0, 100 * rating - tokens_total / 5 - 2 * elapsed_s)
"""
"""A formula without a sandbox: of the examples, the challenge with a formula needs one."""


_DESK_TONE = f"""\
# The sample answers of support-desk, judged by their tone.
metadata:
  name: desk-tone
  model: [replay/careful, replay/hasty]
  judge: {JUDGE}
evals:
  - name: returning-a-book
    prompt: I bought a novel 20 days ago and have not opened it. Can I return it?
    checks: [{{llm_judge: Is it kind and does it answer what was asked?}}]
  - name: where-is-it
    prompt: Where is my order A-1042?
    checks: [{{llm_judge: Is it kind and does it answer what was asked?}}]
  - name: a-number-not-to-share
    prompt: Can you give me your supplier's phone number?
    checks: [{{llm_judge: "Does it say no, and kindly?"}}]
score: {{formula: success_pct}}
"""
"""A suite with a judge, so that people have something to disagree with."""


def find_examples() -> Path:
    """Folder of the examples: in the installed package, or at the top of the repository."""
    packed = _PACKAGE / "examples"
    return packed if packed.is_dir() else _PACKAGE.parents[1] / "examples"


def lay_out(target: Path, now: float) -> None:
    """Copies of suites and challenges, changed where a lively store asks for it."""
    source = find_examples()
    shutil.copytree(source / "suites", target / "suites")
    (target / "suites" / "desk-tone.yaml").write_text(_DESK_TONE, encoding="utf-8")
    for folder in sorted(each.parent for each in source.glob("challenges/*/challenge.*")):
        copy = target / "challenges" / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for path in copy.glob("challenge.*"):
            _open_to_all(path, now)
    added = target / "challenges" / "fewest-words"
    added.mkdir()
    (added / "challenge.yaml").write_text(_FEWEST_WORDS, encoding="utf-8")


def _open_to_all(path: Path, now: float) -> None:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        text = json.dumps({**json.loads(text), "visibility": "public"})
    else:
        text = re.sub(r"(?m)^attempts:.*\n", "", text) + "visibility: public\n"
        if "kind: versus" not in text:
            text += "rated: every\n"
        if path.parent.name == "bean-counter":
            text += f"closes: {_write_moment(now + 3 * _DAY)}\n"
    path.write_text(text, encoding="utf-8")


def _write_moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"
