"""A script of the challenge as judge, run in the sandbox: many pairings in one run.

A pairing that ends the run (a loop, a crash) would affect the others, so unanswered ones are tried
again one at a time, and only the one at fault fails.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.challenges.challenge_folder import read_files
from tallymark.challenges.evaluators.evaluator_kind import (
    FileNameShape,
    fill_options,
    find_inner_file,
    limits,
)
from tallymark.challenges.organiser_script import describe_failure, run_limited
from tallymark.challenges.versus.pairings import Meeting, Ruling, read_ruling, require_versus
from tallymark.documents.bounded_json import read_bounded_json
from tallymark.documents.shapes import Key
from tallymark.sandbox import Limits
from tallymark.sandbox.limits import PAUSE_AFTER

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.sandbox import Policy

AT_ONCE = 200
_ANSWERS = ".answers.json"

# Runs inside the sandbox. Chance is seeded, so that a judge that rolls dice repeats itself.
_CALL = f"""
import json, os, random, runpy, sys
sys.path.insert(0, os.getcwd())
judge = runpy.run_path(sys.argv[1]).get("judge")
if not callable(judge):
    sys.exit(f"{{sys.argv[1]}} has no function judge(attack, defence, category)")
answers = []
for attack, defence, category in json.load(sys.stdin):
    random.seed(0)
    try:
        answer = judge(attack=attack, defence=defence, category=category)
        json.dumps(answer, allow_nan=False)
        answers.append([answer, None])
    except Exception as error:
        answers.append([None, f"judge() raised {{type(error).__name__}}: {{error}}"])
with open({_ANSWERS!r}, "w", encoding="utf-8") as file:
    json.dump(answers, file)
"""


@dataclass(frozen=True, slots=True)
class ScriptJudge:
    """`judge(attack, defence, category)` of a file; gives a bool or {"breached", "reason"}."""

    name: str
    folder: Path
    options: Mapping[str, Any]
    policy: Policy | None

    @classmethod
    def of(cls, challenge: Challenge, folder: Path, policy: Policy | None) -> ScriptJudge:
        """The judge that a challenge names."""
        options = fill_options(OPTIONS, require_versus(challenge).judge.options)
        find_inner_file(folder, options["script"], "versus, judge, script")
        name = f"script {options['script']} {challenge.version[:12]}"
        return cls(name, folder, options, policy)

    def rule(self, meetings: Sequence[Meeting]) -> list[Ruling]:
        """One ruling for every meeting."""
        rulings: list[Ruling] = []
        for start in range(0, len(meetings), AT_ONCE):
            some = meetings[start : start + AT_ONCE]
            together = self._run(some)
            if not isinstance(together, str):
                rulings += together
            elif len(some) == 1:
                rulings.append(Ruling.failed(together))
            else:
                rulings += self._rule_alone(some)
        return rulings

    def _rule_alone(self, meetings: Sequence[Meeting]) -> list[Ruling]:
        """One at a time, so that only the meeting that is to blame fails.

        An attack, or a defence, that ends the judge against everybody is not run against all. Who
        is met first comes from what was submitted, so early opponents cannot see to it that they
        are the ones.
        """
        shared = any(all(m[side] == meetings[0][side] for m in meetings) for side in (0, 1))
        rulings: dict[int, Ruling] = {}
        ended, answered = 0, False
        chance = random.Random(json.dumps(meetings))  # noqa: S311 (the same meetings, the same order)
        for at in chance.sample(range(len(meetings)), len(meetings)):
            if shared and ended >= PAUSE_AFTER and not answered:
                said = f"not judged: the first {ended} meetings ended the judge"
                rulings[at] = Ruling.failed(said, waiting=True)
                continue
            found = self._run([meetings[at]])
            ended += isinstance(found, str)
            answered = answered or not isinstance(found, str)
            rulings[at] = Ruling.failed(found) if isinstance(found, str) else found[0]
        return [rulings[at] for at in range(len(meetings))]

    def _run(self, meetings: Sequence[Meeting]) -> list[Ruling] | str:
        """The rulings of one run, or why there are none."""
        options = self.options
        outcome = run_limited(
            ["python", "-c", _CALL, options["script"]],
            files=read_files(self.folder),
            stdin=json.dumps(meetings),
            limits=Limits(wall_s=options["time"], memory_mb=options["memory"], output_mb=4.0),
            keep=[_ANSWERS],
            packages=options["packages"],
            policy=self.policy,
        )
        if not outcome.ok:
            return f"{options['script']} failed: {describe_failure(outcome)}"
        return self._read_answers(outcome.kept.get(_ANSWERS, b""), len(meetings))

    def _read_answers(self, kept: bytes, wanted: int) -> list[Ruling] | str:
        try:
            answers: Any = read_bounded_json(kept)
            pairs = [(answer, error) for answer, error in answers]
        except (ValueError, TypeError):
            pairs = []
        if len(pairs) != wanted:
            return f"{self.options['script']} gave {len(pairs)} answers to {wanted} meetings"
        return [
            read_ruling(answer) if error is None else Ruling.failed(str(error))
            for answer, error in pairs
        ]


OPTIONS = {
    "script": Key(
        FileNameShape(), "The file with `judge(attack, defence, category)`.", required=True
    ),
    **limits(time_s=10.0, memory_mb=256),
}
