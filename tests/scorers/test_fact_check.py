from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Iterator

import pytest
from tests.scorers.contexts import said
from tests.scorers.local_server import LocalServer, Reply, serving

from tallymark.errors import ScorerError, WorkFailed
from tallymark.scorers.fact_check import fact_check
from tallymark.scoring import Score, load_scorer

GOOD = {"accuracy": 0.8, "explanation": "4 of 5 claims hold", "claims": ["a", "b"]}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as running:
        yield running


def checked(server: LocalServer, reply: Reply, timeout: float = 10.0) -> Score:
    server.will(reply)
    return fact_check(f"{server.url}/verify", timeout).score(said("The sky is green"))


def test_the_service_gives_value_reason_and_claims(server: LocalServer) -> None:
    score = checked(server, Reply(GOOD))
    assert score.value == 0.8
    assert score.reason == "4 of 5 claims hold"
    assert score.metadata == {"claims": ["a", "b"]}
    assert server.bodies == [{"text": "The sky is green"}]


@pytest.mark.parametrize(
    ("answer", "value"), [({"accuracy": 0}, 0.0), ({"accuracy": 1, "explanation": None}, 1.0)]
)
def test_only_the_accuracy_is_needed(
    server: LocalServer, answer: dict[str, float], value: float
) -> None:
    score = checked(server, Reply(answer))
    assert (score.value, score.reason, score.metadata) == (value, "", {})


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(b"out of order", status=500), "answered 500 Internal Server Error: out of order"),
        (Reply(GOOD, 302, headers={"Location": "/elsewhere"}), "answered 302 Found"),
        (Reply(b"accuracy: high"), "did not answer with JSON"),
        (Reply(b""), "did not answer with JSON"),
        (Reply(b"\xff"), "did not answer with JSON"),
        (Reply({"score": 1}), "no key 'accuracy'"),
        (Reply([0.5]), "no key 'accuracy'"),
        (Reply({"accuracy": 1.7}), "returned 1.7 instead of a number from 0 to 1"),
        (Reply({"accuracy": "high"}), "a number or None, not 'high'"),
        (Reply({"accuracy": None}), "gave no value"),
        (Reply(b'{"accuracy": NaN}'), "did not answer with JSON"),
        (Reply({"accuracy": 1, "explanation": 3}), "reason is text, not 3"),
        (Reply({"accuracy": 1, "x": "y" * 5_000_000}), "answered with more than 4 MB"),
        (
            Reply(gzip.compress(b" " * 50_000_000), headers={"Content-Encoding": "gzip"}),
            "answered with more than 4 MB",
        ),
    ],
)
def test_an_answer_that_is_none_is_a_failed_score_and_not_a_zero(
    server: LocalServer, reply: Reply, words: str
) -> None:
    score = checked(server, reply)
    assert score.value is None
    assert words in str(score.error)


def test_a_service_that_hangs_fails_when_the_time_is_up(server: LocalServer) -> None:
    score = checked(server, Reply(hangs=True), timeout=0.1)
    assert score.error == f"fact_check: {server.url}/verify did not answer in 0.1 s"


def test_a_service_that_is_not_there_fails() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: refused
        score = fact_check(f"http://127.0.0.1:{taken.getsockname()[1]}/").score(said("x"))
    assert score.value is None
    assert "could not be reached" in str(score.error)


def test_many_calls_at_once_share_one_loop(server: LocalServer) -> None:
    server.will(Reply(GOOD))
    checker = fact_check(server.url)

    async def all_of_them() -> list[Score]:
        return list(await asyncio.gather(*(checker.evaluate(said(str(n))) for n in range(20))))

    assert {score.value for score in asyncio.run(all_of_them())} == {0.8}
    assert sorted(int(body["text"]) for body in server.bodies) == list(range(20))


def test_the_key_comes_from_the_environment_and_is_not_kept(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACTS_KEY", "s3cret")
    server.will(Reply(GOOD))
    score = fact_check(server.url, api_key_env="FACTS_KEY").score(said("x"))
    assert server.headers[0]["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in str(score.to_dict())


def test_a_query_does_not_show_in_errors(server: LocalServer) -> None:
    server.will(Reply(status=401))
    score = fact_check(f"{server.url}/verify?key=s3cret").score(said("x"))
    assert "s3cret" not in str(score.error)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("fact_check", "needs the option 'url'"),
        ('fact_check(url="ftp://facts.example")', "is not an http:// or https:// address"),
        ('fact_check(url="facts.example/verify")', "is not an http:// or https:// address"),
        ('fact_check(url="https://me:pass@facts.example")', "holds a user name or password"),
        ('fact_check(url="http://facts.example", timeout=0)', "'timeout' is 0.0"),
        ('fact_check(url="http://facts.example", timeout="1")', "Expected `float`"),
    ],
)
def test_options_are_checked(reference: str, words: str) -> None:
    with pytest.raises(ScorerError, match=words.replace("(", r"\(")):
        load_scorer(reference)


def test_a_missing_key_is_reported_before_anything_is_scored() -> None:
    with pytest.raises(WorkFailed, match="environment variable NO_SUCH_KEY is not set"):
        fact_check("http://facts.example", api_key_env="NO_SUCH_KEY")
