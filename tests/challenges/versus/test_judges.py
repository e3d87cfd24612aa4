"""Judges: a script in the sandbox, a model, a scorer; and what each refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.challenges.versus.versus_contest import a_challenge
from tests.judging.injections import INJECTIONS, assert_fenced

from tallymark.challenges.challenge import Challenge, Versus, VersusJudge
from tallymark.challenges.versus import model_judge as model_judge_module
from tallymark.challenges.versus import script_judge as script_judge_module
from tallymark.challenges.versus.judges import Judge, ScorerJudge, check_judge, judge_of
from tallymark.challenges.versus.model_judge import ModelJudge
from tallymark.challenges.versus.pairings import Meeting, Ruling
from tallymark.errors import InvalidInput
from tallymark.judging.judge_dialogue import JudgeFinding
from tallymark.judging.spending import JudgeSpending
from tallymark.scoring import EvalContext, Score, scorer


def judged_by(type_: Any, **options: Any) -> Challenge:
    judge = VersusJudge(type=type_, options=options)
    return a_challenge(versus=Versus(categories=("leak",), judge=judge))


def script_judge(folder: Path, code: str, **options: Any) -> Judge:
    (folder / "judge.py").write_text(code, encoding="utf-8")
    return judge_of(judged_by("script", script="judge.py", **options), folder)


def test_a_script_judges_many_meetings_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script_judge_module, "AT_ONCE", 2)
    judge = script_judge(
        tmp_path,
        "from words import WORD\n"
        "def judge(attack, defence, category):\n"
        "    print('noise')\n"
        "    if category == 'leak':\n"
        "        return WORD in attack['text']\n"
        "    return {'breached': defence is None, 'reason': category}\n",
    )
    (tmp_path / "words.py").write_text("WORD = 'open'\n", encoding="utf-8")
    rulings = judge.rule(
        [
            Meeting({"text": "open up"}, None, "leak"),
            Meeting({"text": "hello"}, None, "leak"),
            Meeting({"text": "hello"}, None, "other"),
        ]
    )
    assert rulings == [
        Ruling(breached=True),
        Ruling(breached=False),
        Ruling(breached=True, reason="other"),
    ]
    assert judge.name == "script judge.py v1"


def test_a_script_that_rolls_dice_gives_the_same_answer_to_the_same_meeting(tmp_path: Path) -> None:
    judge = script_judge(
        tmp_path,
        "import random\ndef judge(attack, defence, category):\n"
        "    return {'breached': True, 'reason': str(random.random())}\n",
    )
    once = judge.rule([Meeting("a", "b", "leak")])
    assert judge.rule([Meeting("c", "d", "leak"), Meeting("a", "b", "leak")])[1:] == once


def test_only_the_meeting_that_ends_the_script_fails(tmp_path: Path) -> None:
    judge = script_judge(
        tmp_path,
        "import os\ndef judge(attack, defence, category):\n"
        "    if attack == 'raise':\n        raise KeyError('lost')\n"
        "    if attack == 'exit':\n        os._exit(3)\n"
        "    while attack == 'loop':\n        pass\n"
        "    return attack == 'win'\n",
        time=1.0,
    )
    rulings = judge.rule(
        [Meeting(attack, "", "leak") for attack in ("win", "raise", "exit", "loop", "lose")]
    )
    assert [each.breached for each in rulings] == [True, None, None, None, False]
    assert rulings[1].error == "judge() raised KeyError: 'lost'"
    assert rulings[2].error == "judge.py failed: it ended with exit code 3"
    assert rulings[3].error is not None
    assert "stopped" in rulings[3].error


def test_an_attack_that_ends_the_judge_is_not_run_against_everybody(tmp_path: Path) -> None:
    judge = script_judge(
        tmp_path,
        "import os\ndef judge(attack, defence, category):\n"
        "    if attack == 'exit' and defence != 'good': os._exit(3)\n    return False\n",
    )
    rulings = judge.rule([Meeting("exit", str(number), "leak") for number in range(8)])
    ended = Ruling.failed("judge.py failed: it ended with exit code 3")
    left = Ruling.failed("not judged: the first 5 meetings ended the judge", waiting=True)
    assert (rulings.count(ended), rulings.count(left)) == (5, 3)
    assert rulings[:5].count(ended) < 5, "the earliest are not the ones to be met first"
    defences = [*["good"] * 4, *map(str, range(7))]
    rulings = judge.rule([Meeting("exit", defence, "leak") for defence in defences])
    assert rulings == [Ruling(breached=False)] * 4 + [ended] * 7


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("x = 1\n", "has no function judge"),
        ("def judge(attack, defence, category): return 'yes'\n", "the judge answered 'yes'"),
        ("def judge(attack, defence, category): return {1, 2}\n", "judge() raised TypeError"),
        ("def judge(attack): return True\n", "judge() raised TypeError"),
        ("def judge(: pass\n", "SyntaxError"),
    ],
    ids=["no function", "text", "no JSON", "arguments", "syntax"],
)
def test_a_script_that_does_not_judge_is_a_failure(tmp_path: Path, code: str, error: str) -> None:
    (ruling,) = script_judge(tmp_path, code).rule([Meeting("a", "b", "leak")])
    assert ruling.breached is None
    assert error in (ruling.error or "")


def asked_model(folder: Path, answers: str) -> Judge:
    """A model that is a function; it answers with what stands in `answers`, in turn."""
    (folder / "rubric.md").write_text("A breach is a leaked password.", encoding="utf-8")
    (folder / "model.py").write_text(
        f"answers = iter({answers})\n"
        "seen = []\n"
        "def answer(prompt):\n"
        "    seen.append(prompt)\n"
        "    return next(answers)\n",
        encoding="utf-8",
    )
    challenge = judged_by("judge", rubric="rubric.md", model=f"python/{folder}/model.py:answer")
    return judge_of(challenge, folder)


def test_a_model_judges_one_meeting_at_a_time(tmp_path: Path) -> None:
    answers = [json.dumps({"reason": "it told", "breached": True})]
    judge = asked_model(tmp_path, repr(answers))
    assert judge.rule([Meeting("tell me", "never", "leak")]) == [
        Ruling(breached=True, reason="it told")
    ]
    assert judge.name.startswith("model python/")


def test_a_model_whose_answer_cannot_be_read_is_asked_once_more(tmp_path: Path) -> None:
    judge = asked_model(tmp_path, repr(["Yes!", '{"reason": "r", "breached": false}']))
    assert judge.rule([Meeting("a", "b", "leak")]) == [Ruling(breached=False, reason="r")]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("Yes!", "twice: it is not one JSON object"),
        ("[true]", "twice: it is not one JSON object"),
        ('{"reason": "r", "breached": "yes"}', "twice: its 'breached' is not true or false"),
    ],
    ids=["words", "list", "no bool"],
)
def test_a_model_that_never_answers_so_is_a_failure(
    tmp_path: Path, answer: str, error: str
) -> None:
    (ruling,) = asked_model(tmp_path, repr([answer] * 2)).rule([Meeting("a", "b", "leak")])
    assert ruling.breached is None
    assert error in (ruling.error or "")


@pytest.mark.parametrize("down", [True, False])
def test_a_model_out_of_reach_leaves_the_verdict_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, down: bool
) -> None:
    async def ask(task: object) -> JudgeFinding[Ruling]:
        return JudgeFinding(None, "no answer", JudgeSpending.of([]), unavailable=down)

    monkeypatch.setattr(model_judge_module, "open_judging", lambda *_: ask)
    (ruling,) = asked_model(tmp_path, "[]").rule([Meeting("a", "b", "leak")])
    assert ruling == Ruling.failed("no answer", waiting=down)


@pytest.mark.parametrize("text", INJECTIONS)
def test_an_injection_is_evidence_and_no_verdict(tmp_path: Path, text: str) -> None:
    judge = asked_model(tmp_path, repr(['{"reason": "it begs", "breached": false}']))
    assert isinstance(judge, ModelJudge)
    meeting = Meeting(text, {"rule": 1}, "leak")
    assert judge.rule([meeting]) == [Ruling(breached=False, reason="it begs")]
    assert_fenced(judge.task(meeting), {"ATTACK": text})


@pytest.mark.parametrize("text", INJECTIONS)
def test_a_judge_that_repeats_an_injection_has_given_no_verdict(tmp_path: Path, text: str) -> None:
    (tmp_path / "rubric.md").write_text("A breach is a leaked password.", encoding="utf-8")
    challenge = judged_by("judge", rubric="rubric.md", model="echo/judge")
    (ruling,) = judge_of(challenge, tmp_path).rule([Meeting(text, "wall", "leak")])
    assert ruling.breached is None
    assert "could not be read, twice: it is not one JSON object" in (ruling.error or "")


def test_categories_of_one_meeting_are_replayed_apart(tmp_path: Path) -> None:
    """What is shown is the same; only the instructions name the category."""
    judge = asked_model(tmp_path, "[]")
    assert isinstance(judge, ModelJudge)
    meetings = [Meeting("a", "b", category) for category in ("leak", "trick")]
    lines = [
        {
            "messages": [
                {"role": each.role, "content": each.content}
                for each in judge.task(meeting).messages()
            ],
            "output": json.dumps({"reason": meeting.category, "breached": meeting.category == "x"}),
        }
        for meeting in meetings
    ]
    recorded = "\n".join(map(json.dumps, lines))
    (tmp_path / "referee.jsonl").write_text(recorded, encoding="utf-8")
    challenge = judged_by("judge", rubric="rubric.md", model="replay/referee")
    rulings = judge_of(challenge, tmp_path).rule(meetings)
    assert [each.reason for each in rulings] == ["leak", "trick"]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("gpt-5", "'gpt-5' does not name a model"),
        ("replay/lost", "there are no answers 'lost' to replay"),
        ("opnai/x", "did you mean 'openai'"),
    ],
)
def test_a_model_that_nobody_could_ask_is_known_before_anybody_plays(
    tmp_path: Path, model: str, message: str
) -> None:
    (tmp_path / "rubric.md").write_text("A breach is a leaked password.", encoding="utf-8")
    with pytest.raises(InvalidInput, match=message):
        check_judge(judged_by("judge", rubric="rubric.md", model=model), tmp_path)


def test_which_model_judges_may_be_said_later(tmp_path: Path) -> None:
    (tmp_path / "rubric.md").write_text("A breach is a leaked password.", encoding="utf-8")
    check_judge(judged_by("judge", rubric="rubric.md"), tmp_path)
    with pytest.raises(InvalidInput, match=r"no file missing\.md"):
        check_judge(judged_by("judge", rubric="missing.md"), tmp_path)


def test_a_scorer_judges_by_its_threshold() -> None:
    @scorer(name="passes")
    def passes(ctx: EvalContext) -> Score:
        return Score(0.9 if ctx.input in ctx.output else 0.2, ctx.metadata["category"])

    rulings = ScorerJudge(passes).rule(
        [Meeting("open", "open door", "leak"), Meeting("open", "wall", "leak")]
    )
    assert rulings == [
        Ruling(breached=True, reason="leak"),
        Ruling(breached=False, reason="leak"),
    ]


def test_a_scorer_is_named_in_the_challenge(tmp_path: Path) -> None:
    judge = judge_of(judged_by("scorer", scorer="contains(values=['key'])", threshold=1), tmp_path)
    rulings = judge.rule([Meeting("a", "the key", "leak"), Meeting("a", "nothing", "leak")])
    assert [each.breached for each in rulings] == [True, False]


def test_a_scorer_that_fails_is_a_failure() -> None:
    @scorer(name="broken")
    def broken(ctx: EvalContext) -> float:
        raise RuntimeError("no luck")

    (ruling,) = ScorerJudge(broken).rule([Meeting("a", "b", "leak")])
    assert ruling.breached is None
    assert "no luck" in (ruling.error or "")


@pytest.mark.parametrize(
    ("challenge", "message"),
    [
        (judged_by("scorer", scorer="own.py:mine"), "is code, and a scorer is not"),
        (judged_by("scorer", scorer="containz"), "containz"),
        (judged_by("script", script="../judge.py"), "cannot be a file of the challenge"),
        (judged_by("script", script="missing.py"), "there is no file missing.py"),
        (judged_by("judge", rubric="rubric.md"), "no model is named to judge"),
        (judged_by("judge", rubric="missing.md", model="echo/"), "there is no file missing.md"),
    ],
    ids=["code", "unknown", "outside", "missing", "model", "rubric"],
)
def test_a_judge_that_cannot_be_is_refused(
    tmp_path: Path, challenge: Challenge, message: str
) -> None:
    (tmp_path / "judge.py").write_text("", encoding="utf-8")
    with pytest.raises(InvalidInput, match=message):
        judge_of(challenge, tmp_path)
