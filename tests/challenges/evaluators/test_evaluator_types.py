"""The table of evaluators: a file and a name are all that a new one needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.challenges.challenge_folders import folder_with
from tests.throw_away import WithOneMore

from tallymark.challenges.evaluators import EVALUATORS, find_evaluator
from tallymark.challenges.evaluators.evaluator_kind import FileNameShape
from tallymark.errors import InvalidInput

TELEPATHY = """
    from tallymark.challenges.attempt import Evaluation
    from tallymark.challenges.evaluators.evaluator_kind import EvaluatorKind, metrics_of
    from tallymark.challenges.evaluators.evaluator_kind import FileNameShape
    from tallymark.documents.shapes import Key, NumberShape

    def evaluate(submitted, setting):
        options = EVALUATOR.fill(setting.challenge)
        thought = (setting.folder / options["thought"]).read_text().strip()
        read = submitted.answer == thought
        rating = options["most"] if read else 0
        return Evaluation(metrics=metrics_of(submitted, succeeded=read, rating=rating))

    EVALUATOR = EvaluatorKind(
        help="wants to have its mind read",
        options={
            "thought": Key(
                FileNameShape(secret=True), "The file with what it thinks.", required=True
            ),
            "most": Key(NumberShape(above=0), "The best rating.", default=9),
        },
        evaluate=evaluate,
        varies=True,
    )
"""
LINE = """
from tallymark.challenges.evaluators.evaluator_types import EVALUATORS
EVALUATORS["telepathy"] = "telepathy"
"""
GUESS = """
    name: guess
    attempts: 3
    submission: {format: text}
    data: {public: [about.txt]}
    evaluator: {type: telepathy, thought: thought.txt}
    scoring: {strategy: highest_rating}
"""
FILES = {"thought.txt": "a blue door", "about.txt": "Think hard."}


@pytest.fixture
def one_more(tmp_path: Path) -> WithOneMore:
    folder_with(tmp_path / "guess", GUESS, FILES)
    folder_with(tmp_path, "", {"telepathy.py": TELEPATHY})
    return WithOneMore(tmp_path, LINE)


def test_a_new_evaluator_judges_by_its_options_and_their_defaults(one_more: WithOneMore) -> None:
    assert one_more.tally("challenge", "publish", "guess").returncode == 0
    for agent, answer in (("seer", "a blue door"), ("guesser", "a cat")):
        entered = one_more.tally("attempt", "enter", "guess", "--agent", agent, "--json")
        name = json.loads(entered.stdout)["attempt"]["id"]
        (one_more.folder / "answer.txt").write_text(answer, encoding="utf-8")
        assert (
            one_more.tally("attempt", "submit", name, "answer.txt", "--agent", agent).returncode
            == 0
        )
    board = one_more.tally("leaderboard", "guess").stdout
    assert [line.split()[1:3] for line in board.splitlines()[3:]] == [["seer", "9"]]


@pytest.mark.parametrize(
    ("evaluator", "told"),
    [
        pytest.param("telpathy", "did you mean 'telepathy'?", id="misspelt"),
        pytest.param("telepathy", "the key 'thought' is missing", id="what it needs"),
        pytest.param("{type: telepathy, thought: x.txt}", "no file 'x.txt'", id="a lost file"),
        pytest.param(
            "{type: telepathy, thought: thought.txt, mots: 1}", "did you mean 'most'?", id="option"
        ),
        pytest.param(
            "{type: telepathy, thought: thought.txt, most: 0}", "a number above 0", id="value"
        ),
    ],
)
def test_wrong_options_are_reported(one_more: WithOneMore, evaluator: str, told: str) -> None:
    wrong = GUESS.replace("{type: telepathy, thought: thought.txt}", evaluator)
    folder_with(one_more.folder / "guess", wrong)
    done = one_more.tally("challenge", "publish", "guess")
    assert done.returncode == 2
    assert told in done.stderr


def test_its_secret_is_never_handed_out(one_more: WithOneMore) -> None:
    one_more.tally("challenge", "publish", "guess")
    for words in (
        ("challenge", "show", "guess", "--json"),
        ("challenge", "list", "--json"),
        ("attempt", "enter", "guess", "--agent", "spy", "--json"),
    ):
        done = one_more.tally(*words)
        assert done.returncode == 0
        assert "thought" not in done.stdout
        assert "blue door" not in done.stdout
    folder_with(one_more.folder / "guess", GUESS.replace("about.txt", "thought.txt"))
    done = one_more.tally("challenge", "publish", "guess")
    assert "data, public: thought.txt is not for competitors" in done.stderr


def test_it_is_tried_as_its_traits_say(one_more: WithOneMore) -> None:
    said = " ".join(one_more.tally("challenge", "check", "guess").stdout.split())
    assert "a model answers, so the same submission may be rated differently" in said
    assert "no submitted code is run" in said


def test_it_stands_in_the_schema_and_in_the_docs(one_more: WithOneMore) -> None:
    schema = one_more.python(
        "import json\n"
        "from tallymark.challenges.challenge_format import challenge_schema\n"
        "print(json.dumps(challenge_schema()['$defs']['evaluator']['anyOf'][-1]))"
    )
    made = json.loads(schema.stdout)
    assert made["properties"]["type"]["enum"] == ["telepathy"]
    assert made["properties"]["most"]["default"] == 9
    assert made["required"] == ["type", "thought"]
    assert one_more.docs_row("evaluators", "telepathy") == (
        "| `telepathy` | wants to have its mind read | `thought`, `most` 9 |"
    )


@pytest.mark.parametrize("name", EVALUATORS)
def test_every_file_that_an_evaluator_names_is_secret(name: str) -> None:
    shapes = [each.shape for each in find_evaluator(name).options.values()]
    assert all(shape.secret for shape in shapes if isinstance(shape, FileNameShape))


def test_a_type_that_is_gone_is_told_in_words() -> None:
    with pytest.raises(InvalidInput, match="there is no evaluator 'seance'"):
        find_evaluator("seance")
