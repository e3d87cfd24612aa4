"""Masks hide what differs from run to run, and no number that is promised."""

from __future__ import annotations

import pytest
from tests.golden.masks import MASKS, MEASURED, Masker


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Run: rmnbe9wzrza, completed", "Run: <run-1>, completed"),
        ('"group": "gmnbe9wzrza"', '"group": "<group-1>"'),
        ('"seed": 81234567890123', '"seed": <seed-1>'),
        ('"scorer": "a",\n  "version": "96cd56072351"', '"scorer": "a",\n  "version": "<code-1>"'),
        ("code     " + "0a" * 32, "code     <code-1>"),
        (
            f'"definition_hash": "{"0a" * 32}",\n"epochs": 1,\n"tags": {{\n  "door": "traces"',
            '"definition_hash": "<scored-1>",\n"epochs": 1,\n"tags": {\n  "door": "traces"',
        ),
        ("tally 0.1.0", "tally <version>"),
        ('"present": true,', '"present": <machine>,'),
        ('"worst_ms": 7.25', '"worst_ms": <ms>'),
        ('"low": 953.9467016499973', '"low": 953.946702'),
        ("there is no file /somewhere/here/s.yaml", "there is no file {here}/s.yaml"),
    ],
)
def test_what_is_masked(said: str, shown: str) -> None:
    assert Masker({"/somewhere/here": "{here}"}).mask(said) == shown


@pytest.mark.parametrize(
    "said",
    [
        "rmgakdw41qg",  # a run of the stored database
        "represented greenhouses",
        '"seed": 17',
        '"version": "eb4c634786e0ddde3a6c892008344f4968ee92f2ca380254e255f862c03a809b"',
        '"definition_hash": "81e363961ecb8229db5139c8b74cae0b707e9000f168cd2f7f7f4ca254485a6d"',
        '"score": 15384.615384615385',
        '"total_cost": 0.0035879999999999996',
        '"latency": 0.86',
        '"value": 0.46125',
        '"elapsed_ms": 220000',
        '"created_at": 1767225720.0',
        "2026-01-01 00:17",
        "Latency: avg 0.86 s, max 0.86 s",
        "a000000000003",
    ],
)
def test_what_is_not(said: str) -> None:
    assert Masker({"/somewhere/here": "{here}"}).mask(said) == said


def test_latencies_are_masked_only_where_somebody_was_really_asked() -> None:
    masker = Masker({}, MASKS + MEASURED)
    said = '"sum_latency": 0.0021, "sum_cost": 0.25, avg 12 ms, max 0.40 s'
    assert masker.mask(said) == '"sum_latency": <s>, "sum_cost": 0.25, avg<s>, max<s>'


def test_a_value_keeps_its_label_and_a_label_leads_back() -> None:
    masker = Masker({})
    assert masker.mask("rmnaaaaaaaa rmnbbbbbbbb rmnaaaaaaaa") == "<run-1> <run-2> <run-1>"
    assert masker.unmask("show <run-2>") == "show rmnbbbbbbbb"
