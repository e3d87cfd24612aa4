"""An Inspect log becomes a suite that judges the log's own answers as the log does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.suites.imports.imported_runs import run_imported

from tallymark.errors import InvalidInput
from tallymark.suites.imports.imported_suite import ImportedSuite, import_suite

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces"


def write_log(
    folder: Path,
    samples: list[dict[str, Any]],
    *scorers: dict[str, Any],
    status: str = "success",
    **header: Any,
) -> ImportedSuite:
    """What a log makes of these samples."""
    told = {"task": "quiz", "model": "openai/gpt-5-mini", "scorers": list(scorers), **header}
    log = {"version": 2, "status": status, "eval": told, "samples": samples}
    path = folder / "log.json"
    path.write_text(json.dumps(log))
    return import_suite(path)


def ask(number: int, target: Any, **more: Any) -> dict[str, Any]:
    return {"id": number, "epoch": 1, "input": f"question {number}", "target": target, **more}


ANSWERS = [
    *("Paris", "paris.", "It is Paris!", "Paris is it", " **Paris** ", "Parisian", "London", ""),
    *("The answer is 42", "42 is the answer.", "$42.00", "1,042", "(42)", "42%", "forty-two"),
    *("ANSWER: Paris", "Answer: paris\n", "the a Paris", "PARIS, FRANCE", "Lyon or Paris?"),
]
SCORERS: list[tuple[str, dict[str, Any]]] = [
    ("includes", {}),
    ("includes", {"ignore_case": False}),
    *(("match", {"location": place}) for place in ("begin", "end", "any", "exact")),
    ("match", {"ignore_case": False}),
]
CALLED: list[tuple[str, dict[str, Any]]] = [
    ("match", {"numeric": True}),
    ("exact", {}),
    ("pattern", {"pattern": r"ANSWER: (\w+)"}),
    ("answer", {"pattern": "line"}),
]
"""As they are, by Inspect itself."""


@pytest.mark.parametrize(
    ("name", "options"),
    [*SCORERS, *(pytest.param(*each, marks=pytest.mark.proof) for each in CALLED)],
    ids=repr,
)
def test_answers_are_judged_as_inspects_own_scorers_judge_them(
    tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    from inspect_ai import scorer as inspect_scorers

    from tallymark.scorers.adapters import from_inspect
    from tallymark.testing import mock_context

    theirs = from_inspect(getattr(inspect_scorers, name)(**options))
    targets: list[Any] = ["Paris", ["42", "Lyon."]]
    asked = [(target, answer) for target in targets for answer in ANSWERS]
    made = write_log(
        tmp_path,
        [ask(number, target) for number, (target, _) in enumerate(asked)],
        {"name": name, "options": options},
    )
    answers = {f"question {number}": answer for number, (_, answer) in enumerate(asked)}
    wanted = [
        theirs.score(mock_context(output=answer, expected={"output": target})).value == 1.0
        for target, answer in asked
    ]
    assert [result.passed for result in run_imported(made, answers)] == wanted
    assert True in wanted
    assert made.left_out == []


CHOICES = [
    *("ANSWER: B", "ANSWER: b", "answer: B.", "Thus\nANSWER: B\n", "ANSWER: A\nANSWER: B"),
    *("ANSWER: B\nANSWER: A", "I think ANSWER: B because", "ANSWER: A, B", "ANSWER: BE", "B"),
    *("ANSWER: **B**", "**ANSWER: B**", "ANSWER: (B)", "ANSWER: $B$", "ANSWER: B,", "ANSWER:", ""),
    *("so ANSWER: A or ANSWER: B maybe", "ANSWER: C", "ANSWER : B", "ANSWER: B ."),
]


def test_a_choice_is_read_as_inspect_reads_it(tmp_path: Path) -> None:
    from inspect_ai.model import ModelOutput
    from inspect_ai.solver import TaskState
    from inspect_ai.solver._multiple_choice import parse_answers

    def state(answer: str) -> TaskState:
        return TaskState(
            model="mockllm/model",
            sample_id=1,
            epoch=1,
            input="x",
            messages=[],
            choices=["one", "two", "three"],
            output=ModelOutput.from_content("mockllm/model", answer),
        )

    samples = [ask(number, "B", choices=["one", "two", "three"]) for number in range(len(CHOICES))]
    made = write_log(tmp_path, samples, {"name": "choice", "options": {}})
    answers = {f"question {number}": answer for number, answer in enumerate(CHOICES)}
    passed = [result.passed for result in run_imported(made, answers)]
    wanted = [parse_answers(state(answer), False) == {"B"} for answer in CHOICES]
    assert dict(zip(CHOICES, passed, strict=True)) == dict(zip(CHOICES, wanted, strict=True))


@pytest.mark.parametrize(
    "name", ["inspect_sums.json", "inspect_sums.eval", "inspect_chunked.eval", "inspect_error.eval"]
)
def test_the_answers_of_a_real_log_pass_as_they_did(name: str) -> None:
    from tallymark.traces import read_traces

    made = import_suite(FIXTURES / name)
    checks = made.document["evals"][0]["checks"]
    checks[:] = [check for check in checks if "llm_judge" not in check]
    traces = [trace for trace in read_traces(FIXTURES / name) if trace.status == "ok"]
    wanted = [trace.metadata["scores"]["includes"]["value"] == "C" for trace in traces]
    asked = [entry["prompt"] for entry in made.document["evals"]]
    prompts = {prompt: trace.last_output for prompt, trace in zip(asked, traces, strict=False)}
    results = run_imported(made, prompts)
    assert [result.passed for result in results][: len(wanted)] == wanted
    assert wanted


def test_what_was_sent_is_asked(tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": "Be brief.", "source": "input"},
        {"role": "user", "content": [{"type": "text", "text": "One?"}], "source": "input"},
        {"role": "assistant", "content": "Yes.", "source": "input"},
        {"role": "user", "content": "Two?"},
        {"role": "assistant", "content": "No.", "source": "generate"},
        {"role": "user", "content": "Sure?"},
        {"role": "assistant", "content": "Yes.", "source": "generate"},
    ]
    made = write_log(
        tmp_path,
        [ask(1, "no", messages=messages), ask(1, "no", messages=messages)],
        {"name": "inspect_ai/includes", "options": {}},
        {"name": "my_own", "options": {}},
        config={"epochs": 2},
        model_generate_config={"temperature": 0.5, "stop_seqs": ["x"], "top_p": None},
    )
    assert made.document == {
        "metadata": {
            "name": "quiz",
            "model": "openai/gpt-5-mini",
            "epochs": 2,
            "settings": {"temperature": 0.5, "stop_sequences": ["x"]},
        },
        "evals": [
            {
                "name": "quiz-1",
                "system_prompt": "Be brief.",
                "turns": [{"user": "One?", "assistant": "Yes."}, "Two?"],
                "checks": [
                    {"regex": "(?i)no"},
                    {"todo": "the scorer my_own (log.json): there is no check like it"},
                ],
            }
        ],
    }
    assert [problem.message for problem in made.left_out] == [
        "the solver's further turns: the model is called once",
        "the scorer my_own: there is no check like it",
    ]


def test_what_cannot_be_asked_is_told(tmp_path: Path) -> None:
    picture = [{"role": "user", "content": [{"type": "image", "image": "data:"}]}]
    made = write_log(tmp_path, [ask(1, "a"), ask(2, "b", messages=picture)], model="mockllm/model")
    assert [problem.message for problem in made.left_out] == [
        "the sample 2: it holds more than text",
        "the model mockllm/model",
    ]
    with pytest.raises(InvalidInput, match="leaves nothing to ask"):
        write_log(tmp_path, [ask(1, "a", input=" ")])


LACKS = "3 of 5 samples, which the log does not have"


@pytest.mark.parametrize(
    ("status", "known", "said"),
    [
        ("success", 2, []),
        ("error", 5, [f"{LACKS}; the log broke off: its status is 'error'"]),
        ("success", 5, [LACKS]),
        (
            "cancelled",
            2,
            ["samples that the log may lack: the log broke off: its status is 'cancelled'"],
        ),
    ],
)
def test_samples_that_the_log_does_not_have_are_told(
    tmp_path: Path, status: str, known: int, said: list[str]
) -> None:
    asked = [ask(1, "a"), ask(2, "b"), {**ask(1, "a"), "epoch": 2}]
    made = write_log(
        tmp_path, asked, {"name": "includes"}, status=status, dataset={"samples": known}
    )
    assert [str(each).partition(": ")[2] for each in made.left_out] == said
