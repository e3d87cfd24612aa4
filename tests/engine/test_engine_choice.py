"""Which engine a word means, and which words mean none."""

from __future__ import annotations

import sys

import pytest

from tallymark.engine import engine_choice
from tallymark.engine.engine_choice import EngineChoice, choose_engine
from tallymark.errors import InvalidInput, WorkFailed
from tallymark.installation import explain_install

AT = "10.0.0.5:6379"


@pytest.mark.parametrize(
    ("named", "workers", "variables", "meant"),
    [
        (None, None, {}, None),
        (None, 1, {}, None),
        ("local", 1, {}, None),
        (None, 3, {}, EngineChoice(workers=3)),
        ("local", 3, {}, EngineChoice(workers=3)),
        ("ray", None, {}, EngineChoice("ray")),
        ("ray", 1, {}, EngineChoice("ray", None, 1)),
        (f"ray:{AT}", 2, {}, EngineChoice("ray", AT, 2)),
        ("ray", None, {"TALLY_RAY_ADDRESS": AT}, EngineChoice("ray", AT)),
        ("ray:other:1", None, {"TALLY_RAY_ADDRESS": AT}, EngineChoice("ray", "other:1")),
        (None, 2, {"TALLY_ENGINE": "ray"}, EngineChoice("ray", None, 2)),
        (None, None, {"TALLY_ENGINE": f"ray:{AT}"}, EngineChoice("ray", AT)),
        ("local", 2, {"TALLY_ENGINE": "ray"}, EngineChoice(workers=2)),
        (None, None, {"TALLY_ENGINE": ""}, None),
    ],
)
def test_what_was_said_is_meant(
    monkeypatch: pytest.MonkeyPatch,
    named: str | None,
    workers: int | None,
    variables: dict[str, str],
    meant: EngineChoice | None,
) -> None:
    for name in ("TALLY_ENGINE", "TALLY_RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert choose_engine(named, workers) == meant
    assert "ray" not in sys.modules  # which takes a second to import


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("rya", "--engine rya names no engine; did you mean 'ray'?"),
        ("ray:", "--engine ray: names no engine; write local, ray, or ray:ADDRESS"),
        ("ray://10.0.0.5:10001", "names no engine; write local"),
        ("ray:somewhere", "--engine ray:somewhere names no engine; write local"),
        ("local:4", "--engine local:4 names no engine; write local"),
        ("dask", "names no engine; write local"),
    ],
)
def test_other_words_are_refused(named: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        choose_engine(named, None)
    assert said in str(refused.value)


def test_a_variable_that_names_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLY_ENGINE", "loca")
    with pytest.raises(InvalidInput, match="TALLY_ENGINE loca names no engine"):
        choose_engine(None, None)


def test_an_address_that_is_none_is_refused_before_ray_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TALLY_RAY_ADDRESS", "ray://10.0.0.5:10001")
    with pytest.raises(InvalidInput, match="is no address of a cluster; write HOST:PORT"):
        choose_engine("ray", None)


def test_ray_that_is_not_installed_says_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_choice, "find_spec", lambda _: None)
    with pytest.raises(WorkFailed) as refused:
        choose_engine("ray", None)
    hint = explain_install("tallymark[ray]")
    assert str(refused.value) == f"the engine ray is not installed; {hint}"


def test_a_machine_starts_a_few_workers_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    for asked, started in {None: 2, 3: 3, 1000: 8}.items():
        with EngineChoice(workers=asked).open() as engine:
            assert engine.workers == started
