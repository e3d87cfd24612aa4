"""The data of a challenge: made from a seed in the sandbox, or read from files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.challenges.challenge_folders import challenge_in, judged

from tallymark.challenges.challenge_data import load_challenge_data, read_truth
from tallymark.errors import InvalidInput, OrganiserFault

GENERATE = """
    import random
    from words import WORDS

    print("a script may print")

    def generate(seed):
        choose = random.Random(seed)
        words = [choose.choice(WORDS) for _ in range(5)]
        print(words)
        return {"public": {"words.json": words, "note.txt": "hello"}, "truth": {"first": words[0]}}
"""
TEXT = """
    name: x
    data: {generate: generate.py, public: about.txt}
    evaluator: {type: deterministic, fields: {first: exact_match}}
"""
FILES = {
    "generate.py": GENERATE,
    "words.py": 'WORDS = ["ant", "bee", "cat", "dog", "eel", "fox"]',
    "about.txt": "about",
}


def test_public_data_and_truth_are_made_from_the_seed(tmp_path: Path) -> None:
    challenge = challenge_in(tmp_path, TEXT, FILES)
    data = load_challenge_data(challenge, tmp_path, 1)
    assert set(data.public) == {"words.json", "note.txt", "about.txt"}
    assert data.truth == {"first": data.public["words.json"][0]}
    assert judged(challenge, tmp_path, data.truth, seed=1).metrics.succeeded


def test_the_same_seed_gives_the_same_data_and_others_differ(tmp_path: Path) -> None:
    challenge = challenge_in(tmp_path, TEXT, FILES)
    first = [load_challenge_data(challenge, tmp_path, seed) for seed in (1, 2, 2**62)]
    again = [load_challenge_data(challenge, tmp_path, seed) for seed in (1, 2, 2**62)]
    assert first == again
    assert len({str(each.public) for each in first}) == 3


def test_public_files_of_a_version_are_read_once(tmp_path: Path) -> None:
    challenge = challenge_in(tmp_path, TEXT, FILES)
    first = load_challenge_data(challenge, tmp_path, 1).public
    (tmp_path / "about.txt").unlink()
    assert load_challenge_data(challenge, tmp_path, 2).public["about.txt"] is first["about.txt"]


def test_hashes_do_not_differ_from_run_to_run(tmp_path: Path) -> None:
    script = """
        def generate(seed):
            return {"public": {}, "truth": {"order": list({"a", "b", "c", "d", "e", "f"})}}
    """
    text = "name: x\ndata: {generate: generate.py}"
    seen = []
    for name in ("one", "two", "three"):
        folder = tmp_path / name
        challenge = challenge_in(folder, text, {"generate.py": script})
        seen.append(load_challenge_data(challenge, folder, 1).truth)
    assert seen[0] == seen[1] == seen[2]


def test_who_changes_the_data_changes_nobody_elses(tmp_path: Path) -> None:
    challenge = challenge_in(tmp_path, TEXT, FILES)
    data = load_challenge_data(challenge, tmp_path, 1)
    data.public.clear()
    data.truth["first"] = "changed"
    assert load_challenge_data(challenge, tmp_path, 1) != data


def test_a_new_version_is_generated_anew(tmp_path: Path) -> None:
    before = load_challenge_data(challenge_in(tmp_path, TEXT, FILES), tmp_path, 1)
    changed = {**FILES, "words.py": 'WORDS = ["yak"]'}
    after = load_challenge_data(challenge_in(tmp_path, TEXT, changed), tmp_path, 1)
    assert after.truth == {"first": "yak"} != before.truth


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise ValueError('no luck')", "generate.py failed: ValueError: no luck"),
        ("return None", 'must give {"public": {name: data}, "truth": data}, not None'),
        ('return {"public": {}}', "must give"),
        ('return {"public": [], "truth": 1}', "must give"),
        ('return {"public": {"../x": 1}, "truth": 1}', "makes a file '../x'"),
        ('return {"public": {"about.txt": 1}, "truth": 1}', "which is also a public file"),
        ('return {"public": {}, "truth": float("nan")}', "generate.py failed: ValueError"),
        ('return {"public": {}, "truth": {1, 2}}', "generate.py failed: TypeError"),
        ('return {"public": {"x": "x" * 10**7}, "truth": 1}', "makes more than 10 MB of data"),
        ("import os; os._exit(0)", "what generate() of generate.py gave is no JSON"),
        ("import os; os._exit(3)", "generate.py failed: it ended with exit code 3"),
        ("open('/etc/passwd').read()", "generate.py failed: "),
        ("import socket; socket.create_connection(('127.0.0.1', 9))", "generate.py failed: "),
    ],
    ids=lambda value: value[:30],
)
def test_a_script_that_goes_wrong_is_told(tmp_path: Path, body: str, told: str) -> None:
    files = {**FILES, "generate.py": f"def generate(seed):\n    {body}\n"}
    challenge = challenge_in(tmp_path, TEXT, files)
    with pytest.raises(OrganiserFault, match="the data of an attempt at x cannot be made") as found:
        judged(challenge, tmp_path, {"first": "ant"}, seed=1)
    assert told in found.value.reason


def test_a_script_without_the_function_is_told(tmp_path: Path) -> None:
    challenge = challenge_in(tmp_path, TEXT, {**FILES, "generate.py": "make = 1"})
    with pytest.raises(InvalidInput, match=r"generate.py has no function generate\(\)"):
        load_challenge_data(challenge, tmp_path, 1)


def test_without_a_script_the_files_are_the_data(tmp_path: Path) -> None:
    text = """
        name: x
        data: {public: [a.txt, b.json]}
        evaluator: {type: deterministic, truth: truth.yaml, fields: {n: exact_match}}
    """
    files = {"a.txt": "text", "b.json": "[1]", "truth.yaml": "n: 5"}
    challenge = challenge_in(tmp_path, text, files)
    data = load_challenge_data(challenge, tmp_path, 1)
    assert data.public == {"a.txt": "text", "b.json": "[1]"}
    assert data.truth == {"n": 5}


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("t.json", b"{", "t.json is not valid JSON"),
        ("t.json", b"NaN", "t.json is not valid JSON: NaN is not a JSON number"),
        ("t.yaml", b"a: [", "never closed"),
        ("t.txt", b"\xff", "t.txt is not UTF-8 text"),
        ("none.txt", None, "there is no file none.txt"),
    ],
)
def test_a_truth_that_cannot_be_read_is_told(
    tmp_path: Path, name: str, content: bytes | None, told: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=told):
        read_truth(tmp_path / name)
