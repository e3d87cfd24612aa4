from __future__ import annotations

import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import pytest
from tests.scorers.contexts import said
from tests.scorers.local_server import LocalServer, Reply, serving

from tallymark.errors import ScorerError
from tallymark.scorers import semantic_similarity as module
from tallymark.scorers.semantic_similarity import semantic_similarity
from tallymark.scoring import Score, load_scorer

OFFLINE = semantic_similarity()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as running:
        yield running


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*address: object) -> None:
        raise AssertionError(f"the network was used: {address}")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    ("output", "expected", "low", "high"),
    [
        ("The capital of France is Paris.", "Paris is France's capital city.", 0.9, 1.0),
        ("The capital of France is Paris.", "Bananas are rich in potassium.", 0.0, 0.2),
        ("same text", "same text", 1.0, 1.0),
        ("same text", "Same text", 0.5, 1.0),
        ("", "something", 0.0, 0.0),
        (" \n", "something", 0.0, 0.0),
        ("", "", 1.0, 1.0),
        ("something", "", 0.0, 0.0),
        ("42", 42, 1.0, 1.0),
        ("half a pair \ud800", "half a pair", 0.5, 1.0),
        ("日本の首都は東京です", "東京は日本の首都です", 0.8, 1.0),
        ("word " * 20_000, "word", 0.9, 1.0),
    ],
)
def test_near_meanings_score_high(output: str, expected: Any, low: float, high: float) -> None:
    score = OFFLINE.score(said(output, output=expected))
    assert score.error is None
    assert score.value is not None
    assert low <= score.value <= high


def test_a_reference_goes_before_what_is_expected() -> None:
    scorer = semantic_similarity(reference="the refund was sent")
    assert scorer.score(said("the refund was sent", output="no")).value == 1.0


def test_a_negative_cosine_is_zero() -> None:
    score = OFFLINE.score(said("The capital of France is Paris.", output="!!! ???"))
    assert score.value is not None
    assert 0.0 <= score.value < 0.3


@pytest.mark.parametrize(
    ("expected", "words"),
    [({}, "needs expected.output"), ({"output": {"a": 1}}, "compares texts")],
)
def test_nothing_to_compare_with_is_a_failed_score(expected: dict[str, Any], words: str) -> None:
    score = OFFLINE.score(said("an answer", **expected))
    assert score.value is None
    assert words in str(score.error)


def test_the_model_is_loaded_once_however_many_threads_ask() -> None:
    module._load_embedder.cache_clear()
    ctx = said("The capital of France is Paris.", output="Paris is France's capital city.")
    with ThreadPoolExecutor(8) as pool:
        scores = list(pool.map(lambda _: OFFLINE.score(ctx), range(40)))
    assert module._load_embedder.cache_info().misses == 1
    assert len({score.value for score in scores}) == 1


@pytest.mark.usefixtures("no_network")
def test_missing_weights_are_a_sentence_and_no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    wordllama = import_module("wordllama")
    monkeypatch.setattr(wordllama.WordLlama, "get_filename", lambda *_: "gone.safetensors")
    module._load_embedder.cache_clear()
    try:
        score = OFFLINE.score(said("one text", output="another text"))
    finally:
        module._load_embedder.cache_clear()
    assert score.value is None
    assert "the weights of wordllama cannot be loaded" in str(score.error)
    assert "gone.safetensors" in str(score.error)


def test_a_missing_library_is_a_sentence_before_anything_is_scored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(ScorerError, match=r'needs wordllama; .*"tallymark\[semantic\]"'):
        load_scorer("semantic_similarity")
    load_scorer("semantic_similarity", model="https://example.org/v1/embeddings", model_name="m")


def test_the_programs_logging_is_left_alone() -> None:
    code = """
import logging, sys
from tallymark.scorers.semantic_similarity import semantic_similarity
from tallymark.scoring import EvalContext, Expected
from tallymark.traces import Span, Trace
assert "wordllama" not in sys.modules and "numpy" not in sys.modules
ctx = EvalContext(Trace(spans=[Span(span_type="generation", output="a b")]), Expected(output="c d"))
assert semantic_similarity().score(ctx).value is not None
assert logging.getLogger().handlers == []
assert logging.getLogger().level == logging.WARNING
"""
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
    assert logging.NullHandler not in {type(each) for each in logging.getLogger().handlers}


def embeddings(*vectors: Any, **more: Any) -> Reply:
    data = [{"index": place, "embedding": vector} for place, vector in enumerate(vectors)]
    return Reply({"object": "list", "data": data, **more})


def remote(server: LocalServer, **options: Any) -> Score:
    scorer = semantic_similarity(model=f"{server.url}/v1/embeddings", model_name="small", **options)
    return scorer.score(said("an answer", output="a reference"))


@pytest.mark.parametrize(
    ("vectors", "value"),
    [
        (([1.0, 0.0], [1.0, 0.0]), 1.0),
        (([1, 0], [1, 1]), 0.7071),
        (([1.0, 0.0], [-1.0, 0.0]), 0.0),
        (([0.0, 0.0], [1.0, 0.0]), 0.0),
    ],
)
def test_an_api_gives_the_embeddings(
    server: LocalServer, vectors: tuple[list[float], list[float]], value: float
) -> None:
    server.will(embeddings(*vectors, usage={"total_tokens": 7}))
    score = remote(server)
    assert score.value == pytest.approx(value, abs=1e-4)
    assert score.metadata == {"tokens": 7}
    assert server.paths == ["/v1/embeddings"]
    assert server.bodies == [{"model": "small", "input": ["an answer", "a reference"]}]


def test_an_api_is_not_asked_where_it_is_not_needed(server: LocalServer) -> None:
    scorer = semantic_similarity(model=server.url, model_name="small")
    assert scorer.score(said("", output="a reference")).value == 0.0
    assert scorer.score(said("same", output="same")).value == 1.0
    assert scorer.score(said("x")).value is None
    assert server.bodies == []


def test_embeddings_are_told_apart_by_their_index(server: LocalServer) -> None:
    both = [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]
    server.will(Reply({"data": both}))
    assert remote(server).value == 0.0


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(b"no such model", status=404), "answered 404 Not Found: no such model"),
        (Reply(b"<html>"), "did not answer with JSON"),
        (Reply({"error": "x"}), "did not answer with two embeddings"),
        (Reply([]), "did not answer with two embeddings"),
        (embeddings([1.0]), "did not answer with two embeddings"),
        (embeddings([1.0], [1.0, 2.0]), "did not answer with two embeddings"),
        (embeddings("abc", "def"), "did not answer with two embeddings"),
        (embeddings([1e308, 1e308], [1e308, 1e308]), "did not answer with two embeddings"),
        (embeddings([1.0], [1.0], usage=3), "did not answer with two embeddings"),
    ],
)
def test_an_api_that_fails_is_a_failed_score(server: LocalServer, reply: Reply, words: str) -> None:
    server.will(reply)
    score = remote(server)
    assert score.value is None
    assert words in str(score.error)


def test_an_api_that_hangs_is_a_failed_score(server: LocalServer) -> None:
    server.will(Reply(hangs=True))
    assert "did not answer in 0.1 s" in str(remote(server, timeout=0.1).error)


def test_the_key_is_sent_and_not_kept(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDDINGS_KEY", "s3cret")
    server.will(embeddings([1.0], [1.0]))
    score = remote(server, api_key_env="EMBEDDINGS_KEY")
    assert server.headers[0]["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in str(score.to_dict())


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ('semantic_similarity(model="openai")', "not an http:// or https:// address"),
        ('semantic_similarity(model="https://host/v1/embeddings")', "`model_name` is needed"),
        ('semantic_similarity(model_name="small")', "go with `model`, an address"),
        ('semantic_similarity(refernce="x")', "did you mean 'reference'"),
    ],
)
def test_options_are_checked(reference: str, words: str) -> None:
    with pytest.raises(ScorerError, match=words):
        load_scorer(reference)
