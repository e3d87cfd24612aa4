from __future__ import annotations

import pytest
from tests.scorers.contexts import NOTHING, model, ran, said, tool

from tallymark.errors import WorkFailed
from tallymark.judging.rubric import ShownPart
from tallymark.judging.trace_evidence import collect_material
from tallymark.traces import Span


def test_each_part_stands_between_its_own_fences() -> None:
    material = collect_material(ran(model("Paris", input="Capital?")), ["input", "output"])
    mark = material.mark
    assert material.text == (
        f"<<< REQUEST {mark}\nCapital?\n>>> REQUEST {mark}\n\n"
        f"<<< ANSWER {mark}\nParis\n>>> ANSWER {mark}"
    )


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ("input", "(empty)"),
    ],
)
def test_missing_evidence_is_reported(part: ShownPart, shown: str) -> None:
    assert f"\n{shown}\n" in collect_material(NOTHING, [part]).text


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("output", "no answer was seen"),
        ("expected", "the test states none"),
        ("context", "the trace has no retrieval"),
        ("tools", "the trace has no model call and no tool"),
    ],
)
def test_required_keys_of_a_rubric(part: ShownPart, words: str) -> None:
    with pytest.raises(WorkFailed, match=words):
        collect_material(NOTHING, [part])


def test_tool_calls_show_arguments_results_and_errors() -> None:
    ctx = ran(
        tool("search", '{"q": "x"}', tool_output="3 found"),
        tool("pay", "all of it", status="error", error="refused"),
    )
    text = collect_material(ctx, ["tools"]).text
    assert text.splitlines()[1:3] == [
        '{"tool": "search", "arguments": {"q": "x"}, "result": "3 found"}',
        '{"tool": "pay", "arguments": {"input": "all of it"}, "result": "", "error": "refused"}',
    ]


def test_the_reference_has_the_expected_answer_and_what_it_must_contain() -> None:
    ctx = said("x", output={"city": "Paris"}, output_contains=["Seine"])
    text = collect_material(ctx, ["expected"]).text
    assert text.splitlines()[1:3] == ['{"city": "Paris"}', "It must contain: Seine"]


def test_the_context_is_what_the_retrievals_brought() -> None:
    ctx = ran(Span(span_type="retrieval", output="one"), Span(span_type="retrieval", output="two"))
    assert "\none\n\ntwo\n" in collect_material(ctx, ["context"]).text
