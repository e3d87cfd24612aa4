from __future__ import annotations

import asyncio
from typing import Any

import autoevals  # type: ignore[import-untyped]
import pytest
from autoevals import ExactMatch, JSONDiff, Levenshtein
from tests.scorers.contexts import NOTHING, model, ran, said
from tests.scorers.local_server import Reply, serving

from tallymark.errors import ScorerError
from tallymark.scorers.adapters import from_autoevals
from tallymark.scoring import EvalContext, load_scorer
from tallymark.traces import Span


@pytest.mark.parametrize(
    ("scorer", "output", "expected", "value"),
    [
        ("Levenshtein", "abcd", "abed", 0.75),
        ("Levenshtein", "", "abcd", 0.0),
        ("Levenshtein", "", "", 1.0),
        ("ExactMatch", "yes", "yes", 1.0),
        ("ExactMatch", "yes", "no", 0.0),
        ("ExactMatch", '{"a": 1}', {"a": 1}, 1.0),
        ("JSONDiff", '{"a": 1, "b": "x"}', {"a": 1, "b": "y"}, 0.5),
        ("JSONDiff", '{"a": 1}', '{"a": 1}', 1.0),
        ("NumericDiff", "105", 100, 1 - 5 / 205),
        ("NumericDiff", "0", 0, 1.0),
        ("ValidJSON", '{"a": 1}', None, 1.0),
        ("ValidJSON", "a: 1", "whatever", 0.0),
    ],
)
def test_it_gives_what_autoevals_gives(
    scorer: str, output: str, expected: Any, value: float
) -> None:
    score = from_autoevals(scorer).score(said(output, output=expected))
    assert score.error is None
    assert score.value == pytest.approx(value)


@pytest.mark.parametrize("given", [Levenshtein(), Levenshtein, "Levenshtein"])
def test_an_instance_a_class_and_a_name_are_the_same(given: Any) -> None:
    scorer = from_autoevals(given)
    assert scorer.name == "levenshtein"
    assert scorer.inline
    assert scorer.score(said("ab", output="ac")).value == 0.5
    assert scorer.origin.config["wraps"] == "Levenshtein"
    assert scorer.origin.config["library"].startswith("autoevals ")


@pytest.mark.parametrize(
    ("reference", "name", "threshold"),
    [
        ('autoevals(name="Levenshtein")', "levenshtein", None),
        ('autoevals(scorer="Levenshtein", name="near", threshold=0.8)', "near", 0.8),
    ],
)
def test_the_registry_reaches_it(reference: str, name: str, threshold: float | None) -> None:
    scorer = load_scorer(reference)
    assert (scorer.name, scorer.threshold) == (name, threshold)
    assert scorer.score(said("abc", output="abc")).value == 1.0


def test_options_go_to_the_class() -> None:
    scorer = from_autoevals("JSONDiff", preserve_strings=True)
    assert scorer.score(said("[1]", output="[2]")).value == pytest.approx(2 / 3)
    assert scorer.origin.config["preserve_strings"] is True
    assert scorer.origin.config["string_scorer"] == "Levenshtein"


@pytest.mark.parametrize(
    ("scorer", "ctx", "words"),
    [
        ("Levenshtein", said("a"), "levenshtein raised ValueError"),
        ("NumericDiff", said("many", output=3), "numeric_diff raised TypeError"),
        ("Levenshtein", NOTHING, "no answer was seen"),
    ],
)
def test_what_it_cannot_score_is_a_failed_score(scorer: str, ctx: EvalContext, words: str) -> None:
    score = from_autoevals(scorer).score(ctx)
    assert score.value is None
    assert words in str(score.error)


class Skips(autoevals.Scorer):  # type: ignore[misc]
    def _run_eval_sync(self, output: Any, expected: Any = None, **kwargs: Any) -> autoevals.Score:
        return autoevals.Score(name="Skips", score=None, metadata={"why": "no need"})


class Fussy(autoevals.Scorer):  # type: ignore[misc]
    """Takes nothing but the output."""

    def _run_eval_sync(self, output: Any, expected: Any = None) -> autoevals.Score:
        return autoevals.Score(name="Fussy", score=0.5)


class Asks(autoevals.Scorer):  # type: ignore[misc]
    async def _run_eval_async(
        self, output: Any, expected: Any = None, **kwargs: Any
    ) -> autoevals.Score:
        metadata = {"rationale": "because", "seen": kwargs}
        return autoevals.Score(name="Asks", score=1, metadata=metadata)

    def _run_eval_sync(self, output: Any, expected: Any = None, **kwargs: Any) -> autoevals.Score:
        raise AssertionError("the async side was there")


def test_a_skipped_score_is_a_failed_one() -> None:
    score = from_autoevals(Skips()).score(said("x"))
    assert score.error == "Skips gave no score"
    assert score.metadata == {"why": "no need"}


def test_a_scorer_of_the_users_own_may_block() -> None:
    scorer = from_autoevals(Fussy)
    assert scorer.blocking
    assert scorer.description == "Takes nothing but the output."
    assert scorer.score(said("x")).value == 0.5


def test_an_async_scorer_is_waited_for_and_gets_all_there_is() -> None:
    ctx = ran(Span(span_type="retrieval", input="q", output="found"), model("x"))
    scorer = from_autoevals(Asks())
    assert scorer.is_async
    score = scorer.score(ctx)
    assert (score.value, score.reason) == (1.0, "because")
    assert score.metadata["seen"] == {"input": "q", "context": ["found"], "metadata": {}}


def as_mapping(output: str, expected: str) -> dict[str, Any]:
    return {"name": "x", "score": float(output == expected), "metadata": {"n": 1}}


def as_number(output: str, input: str) -> float:  # noqa: A002 (autoevals calls it so)
    return 0.25 if input == "q" else 0.0


async def as_score(output: str, **kwargs: Any) -> autoevals.Score:
    return autoevals.Score(name="as_score", score=0.75)


@pytest.mark.parametrize(
    ("function", "value"), [(as_mapping, 1.0), (as_number, 0.25), (as_score, 0.75)]
)
def test_functions_in_the_same_style_work(function: Any, value: float) -> None:
    scorer = from_autoevals(function)
    assert scorer.name == function.__name__
    assert scorer.score(ran(model("a", input="q"), output="a")).value == value


def test_a_partial_scorer_keeps_its_arguments() -> None:
    scorer = from_autoevals(Levenshtein.partial(expected="abc")())
    assert scorer.score(said("abc")).value == 1.0


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ("Levenstein", {}, "did you mean 'Levenshtein'"),
        ("Score", {}, "has no 'Score' of this kind"),
        ("ExactMatch", {"loose": True}, "ExactMatch cannot be made: TypeError"),
        (ExactMatch(), {"loose": True}, "which has its own"),
        (42, {}, "is not a scorer of autoevals or a function"),
        (dict, {}, "is not a scorer of autoevals"),
    ],
)
def test_what_cannot_be_wrapped_is_refused(given: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ScorerError, match=words):
        from_autoevals(given, **options)


def test_two_scorers_with_other_settings_have_other_origins() -> None:
    one, other = from_autoevals(JSONDiff()), from_autoevals(JSONDiff(preserve_strings=True))
    assert one.origin != other.origin
    fixed = [from_autoevals(Levenshtein.partial(expected=text)()) for text in ("a", "b")]
    assert fixed[0].origin.config != fixed[1].origin.config


def test_a_judge_is_identified_by_its_prompt_and_does_not_reveal_its_key() -> None:
    def judge(prompt: str) -> Any:
        choices = {"yes": 1, "no": 0}
        return autoevals.LLMClassifier("Polite", prompt, choices, api_key="s3cret", model="m")

    one, other = from_autoevals(judge("Polite?")), from_autoevals(judge("Rude?"))
    assert one.name == "polite"
    assert one.is_async
    assert one.origin.config != other.origin.config
    assert "s3cret" not in str(one.origin)


def test_a_judge_that_asks_a_model_works(monkeypatch: pytest.MonkeyPatch) -> None:
    from openai import AsyncOpenAI

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    arguments = '{"reasons": "Same city.", "choice": "C"}'
    call = {"name": "select_choice", "arguments": arguments}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": call}],
    }
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    with serving() as server:
        server.will(Reply(body))
        client = AsyncOpenAI(api_key="none", base_url=f"{server.url}/v1")
        scorer = from_autoevals(autoevals.Factuality(client=client, model="m"))

        async def judged() -> Any:
            async with client:
                return await scorer.evaluate(ran(model("Paris", input="Capital?"), output="Paris"))

        score = asyncio.run(judged())
    assert (score.value, score.reason) == (1.0, "Same city.")
    assert "Capital?" in str(server.bodies[0]["messages"])
