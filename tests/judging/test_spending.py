"""What judges cost: of one verdict, and found in any score."""

from __future__ import annotations

import asyncio

import pytest
from tests.scorers.contexts import said

from tallymark.judging.spending import JudgeSpending, find_spending
from tallymark.models import Answer
from tallymark.scorers.llm_judge import llm_judge
from tallymark.scoring import Score, Scorer, composite, scorer
from tallymark.scoring.eval_context import EvalContext

CTX = said("Paris", output="Paris")


def answer(cost: float | None = 0.1, model: str = "tiny", tokens: int | None = 10) -> Answer:
    return Answer(
        output="", latency=0, model=model, input_tokens=tokens, output_tokens=2, cost=cost
    )


def judge_that_costs(tmp_path: object, cost: float | None, said: str = "choice: correct") -> Scorer:
    path = f"{tmp_path}/judge_{cost}_{len(said)}.py"
    with open(path, "w") as file:  # noqa: PTH123 (the name is text already)
        file.write(
            "def judge(prompt):\n"
            f"    return {{'output': {said!r}, 'input_tokens': 7, 'output_tokens': 3,"
            f" 'cost': {cost!r}, 'model': 'tiny'}}\n"
        )
    return llm_judge(model=f"python/{path}:judge")


@scorer(name="plain")
def plain(ctx: EvalContext) -> float:
    return 1.0


@pytest.mark.parametrize(
    ("answers", "spending"),
    [
        pytest.param([], JudgeSpending(None, 0, 0, 0, 0.0), id="nobody was asked"),
        pytest.param([answer()], JudgeSpending("tiny", 1, 10, 2, 0.1), id="one"),
        pytest.param([answer()] * 3, JudgeSpending("tiny", 3, 30, 6, 0.3), id="sums are exact"),
        pytest.param(
            [answer(), answer(None)], JudgeSpending("tiny", 2, 20, 4, None), id="unknown cost"
        ),
        pytest.param(
            [answer(tokens=None), answer()], JudgeSpending("tiny", 2, None, 4, 0.2), id="tokens"
        ),
        pytest.param(
            [answer(), answer(model="big")], JudgeSpending(None, 2, 20, 4, 0.2), id="two models"
        ),
    ],
)
def test_answers_add_up(answers: list[Answer], spending: JudgeSpending) -> None:
    assert JudgeSpending.of(answers) == spending


def test_a_score_without_a_judge_has_none() -> None:
    assert find_spending(plain.score(CTX)) is None
    assert find_spending(Score(1.0, metadata={"cost": 5, "model": "agent"})) is None


def test_a_judges_score_has_it(tmp_path: object) -> None:
    score = judge_that_costs(tmp_path, 0.25).score(CTX)
    assert score.value == 1.0
    assert find_spending(score) == JudgeSpending("tiny", 1, 7, 3, 0.25)


def test_a_failed_score_has_it_too(tmp_path: object) -> None:
    score = judge_that_costs(tmp_path, 0.25, said="hm").score(CTX)
    assert score.value is None
    assert find_spending(score) == JudgeSpending("tiny", 2, 14, 6, 0.5)


def test_the_cost_of_a_request_without_an_answer_is_unknown(tmp_path: object) -> None:
    path = f"{tmp_path}/once.py"
    with open(path, "w") as file:  # noqa: PTH123
        file.write(
            "answers = [{'output': 'hm', 'cost': 0.5, 'model': 'tiny'}]\n"
            "def judge(prompt):\n    return answers.pop()\n"
        )
    score = llm_judge(model=f"python/{path}:judge").score(CTX)
    assert "the judge did not answer" in str(score.error)
    found = find_spending(score)
    assert found is not None
    assert (found.asked, found.cost, found.input_tokens) == (2, None, None)


@pytest.mark.parametrize(
    ("costs", "total"), [((0.25, 0.5), 0.75), ((0.25, None), None)], ids=["known", "unknown"]
)
def test_the_parts_of_composites_add_up(
    tmp_path: object, costs: tuple[float, float | None], total: float | None
) -> None:
    one, two = (
        judge_that_costs(tmp_path, cost).replace(name=f"j{number}")
        for number, cost in enumerate(costs)
    )
    inner = composite([one, plain], name="inner")
    whole = composite([(inner, 1), (two, 2)])
    found = find_spending(asyncio.run(whole.evaluate(CTX)))
    assert found is not None
    assert (found.model, found.asked, found.cost) == ("tiny", 2, total)


def test_a_composite_that_failed_has_it_too(tmp_path: object) -> None:
    whole = composite([judge_that_costs(tmp_path, 0.25, said="hm"), plain])
    score = asyncio.run(whole.evaluate(CTX))
    assert score.value is None
    found = find_spending(score)
    assert found is not None
    assert found.cost == 0.5


def test_a_score_that_was_written_down_still_has_it(tmp_path: object) -> None:
    score = judge_that_costs(tmp_path, 0.25).score(CTX)
    again = Score(score.value, metadata=score.to_dict()["metadata"])
    assert find_spending(again) == find_spending(score)
