from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.models.model_conformance import request

from tallymark.errors import InvalidInput, ModelError
from tallymark.models import Answer, Message, Request, open_model


def write(path: Path, *lines: dict[str, Any] | str) -> Path:
    path.parent.mkdir(exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


def ask(reference: str, asked: Request | str, **options: Any) -> Answer:
    async def asking() -> Answer:
        what = request(asked) if isinstance(asked, str) else asked
        return await open_model(reference, **options).answer(what)

    return asyncio.run(asking())


def talk(*turns: str) -> Request:
    """A conversation in which the user speaks first and last."""
    roles = ("user", "assistant")
    return Request(messages=tuple(Message(roles[i % 2], t) for i, t in enumerate(turns)))  # type: ignore[arg-type]


@pytest.mark.parametrize("place", ["careful.jsonl", "answers/careful.jsonl"])
def test_a_name_is_looked_for_in_the_folder_and_its_answers(tmp_path: Path, place: str) -> None:
    write(tmp_path / place, {"prompt": "hi", "output": "hello"})
    assert ask("replay/careful", "hi", folder=tmp_path).output == "hello"


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "some.txt", {"prompt": "hi", "output": "hello"})
    assert ask(f"replay/{path}", "hi").output == "hello"
    assert ask("replay/some.txt", "hi", folder=tmp_path).output == "hello"


def test_all_numbers_of_a_line_are_reported(tmp_path: Path) -> None:
    line = {"prompt": "hi", "output": "hello", "input_tokens": 5, "output_tokens": 2}
    line |= {"cost": 0.25, "latency": 1.5, "model": "sample"}
    write(tmp_path / "a.jsonl", line)
    assert ask("replay/a", "hi", folder=tmp_path) == Answer(
        output="hello",
        latency=1.5,
        input_tokens=5,
        output_tokens=2,
        tokens_counted_by="provider",
        cost=0.25,
        model="sample",
    )


def test_what_a_line_does_not_say_is_counted_or_unknown(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", {"prompt": "hi", "output": "hello"})
    answer = ask("replay/a", "hi", folder=tmp_path)
    assert (answer.latency, answer.cost, answer.tokens_counted_by) == (None, None, "local")


def test_pricing_overrides_a_lines_cost(tmp_path: Path) -> None:
    line = {"prompt": "hi", "output": "x", "input_tokens": 100, "output_tokens": 0, "cost": 9}
    write(tmp_path / "a.jsonl", line)
    pricing = {"input": 10, "output": 0}
    assert ask("replay/a", "hi", folder=tmp_path, pricing=pricing).cost == pytest.approx(0.001)


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        ([None, None, None], ["0", "1", "2", "2"]),
        ([2, 0, 1], ["1", "2", "0", "0"]),
        ([0, 0, 0], ["2", "2", "2", "2"]),
        ([1, 3, 3], ["0", "0", "0", "2"]),
    ],
)
def test_several_lines_answer_in_turn_by_epoch(
    tmp_path: Path, epochs: list[int | None], expected: list[str]
) -> None:
    lines = [{"prompt": "hi", "output": str(i), "epoch": e} for i, e in enumerate(epochs)]
    write(tmp_path / "a.jsonl", *lines)
    outputs = [
        ask("replay/a", request("hi", epoch=epoch), folder=tmp_path).output for epoch in range(4)
    ]
    assert outputs == expected


def test_a_conversation_is_known_by_all_that_the_user_said(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    more = [{"role": "assistant", "content": "yes?"}, {"role": "user", "content": "bye"}]
    write(
        tmp_path / "a.jsonl",
        {"messages": messages, "output": "yes?"},
        {"messages": messages + more, "output": "farewell"},
    )
    assert ask("replay/a", talk("hi"), folder=tmp_path).output == "yes?"
    assert ask("replay/a", talk("hi", "what?", "bye"), folder=tmp_path).output == "farewell"
    with pytest.raises(ModelError, match="after other messages"):
        ask("replay/a", talk("bye"), folder=tmp_path)


def test_what_only_the_system_tells_apart_is_told_apart(tmp_path: Path) -> None:
    lines = [
        {
            "messages": [{"role": "system", "content": rule}, {"role": "user", "content": "hi"}],
            "output": f"{rule} {epoch}",
            "epoch": epoch,
        }
        for rule in ("be brief", "be kind")
        for epoch in (0, 1)
    ]
    write(tmp_path / "a.jsonl", *lines)

    def said(rule: str | None, epoch: int = 0) -> str:
        told = () if rule is None else (Message("system", rule),)
        asked = Request(messages=(*told, Message("user", "hi")), epoch=epoch)
        return ask("replay/a", asked, folder=tmp_path).output

    assert [said("be brief"), said("be brief", 1)] == ["be brief 0", "be brief 1"]
    assert [said("be kind"), said("be kind", 1)] == ["be kind 0", "be kind 1"]
    # A prompt that was changed since, or is not sent at all, still has its answers.
    assert [said("be quick"), said(None, 1)] == ["be kind 0", "be kind 1"]


def test_an_error_in_the_file_is_an_error_again(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", {"prompt": "hi", "error": "the server was down"})
    with pytest.raises(ModelError, match="the server was down") as caught:
        ask("replay/a", "hi", folder=tmp_path)
    assert not caught.value.retryable


def test_tool_calls_come_back_as_spans(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", {"prompt": "hi", "output": "x", "tool_calls": [{"name": "look"}]})
    assert [s.tool_name for s in ask("replay/a", "hi", folder=tmp_path).spans] == ["look"]


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("What is 2 plus 3?", "the nearest that has one is 'What is 2 plus 2?'"),
        ("colour of the sky", "the nearest that has one is 'Name the colour of grass'"),
    ],
)
def test_a_prompt_that_is_not_there_names_the_nearest(
    tmp_path: Path, asked: str, hint: str
) -> None:
    prompts = ["What is 2 plus 2?", "Name the colour of grass"]
    write(tmp_path / "a.jsonl", *({"prompt": p, "output": "x"} for p in prompts))
    with pytest.raises(ModelError, match=r"a\.jsonl has no answer to") as caught:
        ask("replay/a", asked, folder=tmp_path)
    assert caught.value.problems[0].hint == hint


def test_a_prompt_that_is_like_no_other_names_none(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", {"prompt": "hi", "output": "x"})
    with pytest.raises(ModelError) as caught:
        ask("replay/a", "unheard " * 50, folder=tmp_path)
    assert caught.value.problems[0].hint is None
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"prompt": "x"', "a.jsonl:2: the line is not JSON"),
        ("[1]", "must be an object with prompt and output"),
        ({"prompt": "x"}, "output is missing"),
        ({"output": "x"}, "needs prompt (text) or messages (a list)"),
        ({"prompt": "x", "messages": [], "output": "x"}, "and not both"),
        ({"messages": [{"role": "user"}], "output": "x"}, "messages[0] needs role and content"),
        ({"prompt": "x", "ouput": "x"}, "unknown key 'ouput'; did you mean 'output'?"),
        ({"prompt": "x", "output": "x", "epoch": -1}, "epoch must be a whole number"),
        ({"prompt": "x", "output": "x", "latency": "fast"}, "latency must be a number"),
        ({"prompt": "x", "output": "x", "tokens_counted_by": "me"}, "tokens_counted_by must be"),
    ],
)
def test_a_broken_line_is_refused_with_its_place(
    tmp_path: Path, line: dict[str, Any] | str, message: str
) -> None:
    write(tmp_path / "a.jsonl", {"prompt": "hi", "output": "hello", "x-note": "fine"}, line)
    with pytest.raises(InvalidInput) as caught:
        open_model("replay/a", folder=tmp_path)
    assert message in str(caught.value)
    assert "a.jsonl:2: " in str(caught.value)


def test_every_broken_line_is_reported_at_once(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", *["{"] * 30)
    with pytest.raises(InvalidInput) as caught:
        open_model("replay/a", folder=tmp_path)
    assert len(caught.value.problems) == 20


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", "", "")
    with pytest.raises(InvalidInput, match="holds no answers"):
        open_model("replay/a", folder=tmp_path)


def test_a_missing_file_names_the_nearest_or_the_places(tmp_path: Path) -> None:
    write(tmp_path / "answers" / "careful.jsonl", {"prompt": "hi", "output": "hello"})
    with pytest.raises(InvalidInput, match="'carefull' to replay; did you mean 'careful'"):
        open_model("replay/carefull", folder=tmp_path)
    with pytest.raises(InvalidInput, match=r"looked for .*zzz\.jsonl and .*answers/zzz\.jsonl"):
        open_model("replay/zzz", folder=tmp_path)
    with pytest.raises(InvalidInput, match=r"looked for [^ ]*/zzz\.jsonl$"):
        open_model("replay/zzz.jsonl", folder=tmp_path)
