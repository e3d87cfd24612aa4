"""From an evaluation to an outcome: strategies, formulas, plugins, origins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.challenges.challenge_folders import ENTERED, attempt_at, challenge_in

from tallymark.challenges.attempt import Attempt, Evaluation, Metrics, Outcome
from tallymark.challenges.attempt_scores import elapsed_ms, score_attempt, score_attempts
from tallymark.challenges.challenge import Challenge
from tallymark.challenges.plugins.plugin import Plugin
from tallymark.challenges.plugins.plugin_lookup import load_plugin
from tallymark.challenges.trajectory import Verification
from tallymark.errors import ScorerError
from tallymark.scoring import Score, plugin_score

FULL = Metrics(
    succeeded=True, tokens_total=1500, elapsed_ms=4200, rating=8, cost=0.5, calls=3, more={"own": 2}
)


def with_scoring(folder: Path, scoring: str, more: str = "") -> Challenge:
    return challenge_in(folder, f"name: x\nscoring: {scoring}\n{more}")


def outcome_of(challenge: Challenge, metrics: Metrics = FULL, **changes: Any) -> Outcome:
    evaluation = Evaluation(metrics=metrics, dimensions=changes.pop("dimensions", {}))
    return score_attempt(challenge, evaluation, attempt=attempt_at(challenge), **changes)


@pytest.mark.parametrize(
    ("strategy", "value"),
    [("first", 1.0), ("fastest", 4200.0), ("fewest_tokens", 1500.0), ("highest_rating", 8.0)],
)
def test_a_strategys_score_is_what_it_orders_by(
    tmp_path: Path, strategy: str, value: float
) -> None:
    outcome = outcome_of(with_scoring(tmp_path, f"{{strategy: {strategy}}}"))
    assert (outcome.score, outcome.result, outcome.ranks) == (value, "win", True)


def test_what_a_strategy_misses_is_unknown_and_no_error(tmp_path: Path) -> None:
    challenge = with_scoring(tmp_path, "{strategy: fewest_tokens}")
    outcome = outcome_of(challenge, Metrics(succeeded=True))
    assert (outcome.score, outcome.error, outcome.ranks) == (None, None, True)


def test_who_did_not_succeed_lost_and_does_not_rank(tmp_path: Path) -> None:
    challenge = with_scoring(tmp_path, "{strategy: fastest}")
    outcome = outcome_of(challenge, Metrics(succeeded=False, elapsed_ms=5))
    assert (outcome.result, outcome.ranks) == ("loss", False)


FORMULAS = {
    "succeeded": 1.0,
    "tokens_total": 1500.0,
    "elapsed_ms": 4200.0,
    "elapsed_s": 4.2,
    "rating": 8.0,
    "cost": 0.5,
    "calls": 3.0,
    "number": 1.0,
    "created_at": ENTERED * 1000,
    "own": 2.0,
}


@pytest.mark.parametrize(("name", "value"), FORMULAS.items())
def test_a_formula_knows_every_metric(tmp_path: Path, name: str, value: float) -> None:
    own = "evaluator: {type: reported, metrics: [own]}"
    outcome = outcome_of(with_scoring(tmp_path, f"{{formula: {name}}}", own))
    assert outcome.score == value


def test_a_formula_knows_dimensions_and_their_exact_total(tmp_path: Path) -> None:
    challenge = with_scoring(
        tmp_path,
        "{formula: total * 10 + correctness, dimensions: {correctness: 0.15, analysis: 0.85}}",
    )
    outcome = outcome_of(challenge, dimensions={"correctness": 690.0, "analysis": 0.0})
    assert outcome.score == 103.5 * 10 + 690
    assert outcome.details["dimension_score"] == 103
    assert (outcome.result, outcome.ranks) == ("loss", True)


def test_a_formula_without_a_value_fails_the_attempt(tmp_path: Path) -> None:
    outcome = outcome_of(with_scoring(tmp_path, "{formula: rating / calls}"), Metrics(calls=0))
    assert (outcome.score, outcome.result) == (None, None)
    assert outcome.error is not None
    assert outcome.error.startswith("the formula has no value: ")


def test_undefined_may_have_a_number(tmp_path: Path) -> None:
    challenge = with_scoring(tmp_path, "{formula: rating, config: {undefined: -1}}")
    outcome = outcome_of(challenge, Metrics(succeeded=True))
    assert (outcome.score, outcome.error, outcome.result) == (-1.0, None, "win")
    assert "rating" in outcome.details["scorer"]["undefined"]


def test_an_evaluation_that_failed_is_never_a_zero(tmp_path: Path) -> None:
    challenge = with_scoring(tmp_path, "{strategy: fastest}")
    evaluation = Evaluation(metrics=FULL, error="the judge is down")
    outcome = score_attempt(challenge, evaluation, attempt=attempt_at(challenge))
    assert (outcome.score, outcome.result, outcome.ranks) == (None, None, False)
    assert outcome.error == "the judge is down"


@pytest.mark.parametrize(
    ("dimensions", "told"),
    [
        ({}, "dimension 'correctness' has no score"),
        ({"correctness": 1.0, "sped": 2.0}, "there is a score for 'sped'"),
    ],
)
def test_dimensions_that_do_not_fit_fail_the_attempt(
    tmp_path: Path, dimensions: dict[str, float], told: str
) -> None:
    challenge = with_scoring(tmp_path, "{dimensions: {correctness: 0.5, speed: 0.5}}")
    outcome = outcome_of(challenge, dimensions=dimensions)
    assert outcome.score is None
    assert told in str(outcome.error)


def test_speed_needs_a_time_that_is_known(tmp_path: Path) -> None:
    challenge = with_scoring(tmp_path, "{dimensions: {correctness: 0.5, speed: 0.5}}")
    outcome = outcome_of(challenge, Metrics(), dimensions={"correctness": 1})
    assert outcome.error == "the time that was used is not known, and speed needs it"


def test_the_servers_clock_gives_the_time(tmp_path: Path) -> None:
    challenge = with_scoring(
        tmp_path, "{strategy: fastest}", "evaluator: {type: script, script: challenge.yaml}"
    )
    attempt = attempt_at(challenge, submitted_at=ENTERED + 1.1)
    outcome = score_attempt(challenge, Evaluation(), attempt=attempt)
    assert outcome.metrics.elapsed_ms == 1100
    assert outcome.metrics.created_at == int(ENTERED * 1000)


def test_a_time_that_the_evaluator_measured_comes_before_the_clock(tmp_path: Path) -> None:
    challenge = with_scoring(
        tmp_path, "{strategy: fastest}", "evaluator: {type: script, script: challenge.yaml}"
    )
    evaluation = Evaluation(metrics=Metrics(succeeded=True, elapsed_ms=250))
    outcome = score_attempt(challenge, evaluation, attempt=attempt_at(challenge))
    assert (outcome.metrics.elapsed_ms, outcome.score) == (250, 250.0)


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [(-3600.0, 0), (-0.001, 0), (0.0, 0), (0.0009, 0), (0.29, 290), (100.0, 100_000)],
)
def test_a_clock_that_was_set_back_makes_no_time_negative(
    tmp_path: Path, seconds: float, milliseconds: int
) -> None:
    challenge = with_scoring(
        tmp_path, "{strategy: fastest}", "evaluator: {type: script, script: challenge.yaml}"
    )
    attempt = attempt_at(challenge, submitted_at=ENTERED + seconds)
    assert elapsed_ms(attempt) == milliseconds
    evaluation = Evaluation(metrics=Metrics(succeeded=True))
    assert score_attempt(challenge, evaluation, attempt=attempt).score == milliseconds


def test_an_attempt_that_was_not_submitted_has_no_time(tmp_path: Path) -> None:
    challenge = with_scoring(tmp_path, "{strategy: fastest}")
    assert elapsed_ms(attempt_at(challenge, submitted_at=None)) is None


SHOWN = {"tokens": 400, "calls": 2, "cost": 0.125}
FOUND = {"tokens_total": 900, "calls": 5, "cost": 0.5}
BEFORE = {"tokens_total": 700, "calls": 4, "cost": 0.25}
TRUE, FALSE = Verification(level="consistent", **SHOWN), Verification(level="claimed", **SHOWN)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("trajectory", "found", "before", "counts"),
    [
        pytest.param(TRUE, FOUND, BEFORE, (400, 2, 0.125), id="what a verified trajectory shows"),
        pytest.param(FALSE, FOUND, BEFORE, (900, 5, 0.5), id="never what an unverified one says"),
        pytest.param(None, FOUND, BEFORE, (900, 5, 0.5), id="else what the evaluator found"),
        pytest.param(None, {}, BEFORE, (700, 4, 0.25), id="else what was known before"),
        pytest.param(FALSE, {}, {}, (None, None, None), id="else nothing"),
        pytest.param(
            Verification(level="consistent"),
            FOUND,
            {},
            (900, 5, 0.5),
            id="a trajectory without counts",
        ),
        pytest.param(
            Verification(level="consistent", tokens=0, calls=0, cost=0.0),
            FOUND,
            BEFORE,
            (0, 0, 0.0),
            id="zero is a count",
        ),
    ],
)
def test_which_tokens_calls_and_cost_count(
    tmp_path: Path,
    trajectory: Verification | None,
    found: dict[str, Any],
    before: dict[str, Any],
    counts: tuple[int | None, int | None, float | None],
) -> None:
    challenge = with_scoring(tmp_path, "{strategy: fewest_tokens}")
    earlier = Outcome(score=None, metrics=Metrics(**before)) if before else None
    outcome = score_attempt(
        challenge,
        Evaluation(metrics=Metrics(succeeded=True, **found)),
        attempt=attempt_at(challenge, outcome=earlier),
        trajectory=trajectory,
    )
    metrics = outcome.metrics
    assert (metrics.tokens_total, metrics.calls, metrics.cost) == counts
    assert outcome.score == counts[0]


@given(st.integers(0, 10**9))
def test_milliseconds_survive_the_clocks_floats(milliseconds: int) -> None:
    attempt = Attempt(
        id="a",
        challenge="x",
        version="v",
        agent="alice",
        number=1,
        state="submitted",
        seed=1,
        entered_at=ENTERED,
        expires_at=ENTERED,
        submitted_at=ENTERED + milliseconds / 1000,
    )
    assert elapsed_ms(attempt) == milliseconds


def test_the_origin_names_rule_version_config_and_seed(tmp_path: Path) -> None:
    challenge = with_scoring(tmp_path, "{formula: rating, config: {undefined: 0}}")
    origin = outcome_of(challenge).origin
    assert origin is not None
    assert origin.scorer == "formula"
    assert origin.config == {
        "challenge_version": challenge.version,
        "seed": 7,
        "config": {"undefined": 0},
    }
    other = outcome_of(with_scoring(tmp_path, "{formula: rating + 1}")).origin
    assert other is not None
    assert other.version != origin.version


WEIGHTED = "{plugin: builtin.weighted_scorer, config: {rating_weight: 15, time_penalty: 0.5}}"


def test_a_plugin_gives_the_score(tmp_path: Path) -> None:
    challenge = with_scoring(tmp_path, WEIGHTED)
    plugin = load_plugin("builtin.weighted_scorer", folder=tmp_path, sandbox=None)
    outcome = outcome_of(challenge, plugin=plugin)
    assert outcome.score == pytest.approx(100 + 8 * 15 - 4.2 * 0.5 - 1500 * 0.01)
    assert outcome.details["scorer"]["details"]["rating"] == 120
    assert outcome.origin is not None
    assert (outcome.origin.scorer, outcome.origin.version) == (plugin.name, plugin.code_hash)


def test_a_plugin_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ScorerError, match=r"is scored by builtin\.weighted_scorer; load it"):
        outcome_of(with_scoring(tmp_path, WEIGHTED))


class Spy:
    """A plugin that keeps what it was given, and scores by who and how often."""

    kind: Literal["built-in"] = "built-in"
    name = "spy"
    code_hash = "0" * 12

    def __init__(self) -> None:
        self.calls: list[tuple[Mapping[str, Any], Mapping[str, Any], float]] = []

    def score(
        self,
        metrics: Mapping[str, Any],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],
        timeout_s: float = 5.0,
    ) -> Score:
        self.calls.append((metrics, ctx, timeout_s))
        if metrics.get("rating") == 0:
            return Score.failed("it raised ValueError", metadata={"stopped": "raised"})
        who = len(str(ctx["end_user_id"]))
        return plugin_score({"score": metrics["rating"] * 100 + who}, origin=None)

    def score_many(
        self,
        attempts: Sequence[Mapping[str, Any]],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],
        timeout_s: float = 5.0,
        users: Sequence[str | None] | None = None,
    ) -> list[Score]:
        return [
            self.score(each, config, {**ctx, "end_user_id": user}, timeout_s)
            for each, user in zip(attempts, users or (), strict=True)
        ]


def test_a_plugin_gets_the_documents_metrics_and_context(tmp_path: Path) -> None:
    challenge = with_scoring(tmp_path, "{plugin: builtin.weighted_scorer, timeout: 2s}")
    spy = Spy()
    outcome_of(challenge, plugin=spy, tenant="t1")
    ((metrics, ctx, timeout_s),) = spy.calls
    assert metrics == {
        "succeeded": True,
        "tokens_total": 1500,
        "elapsed_ms": 4200,
        "rating": 8,
        "created_at": int(ENTERED * 1000),
        "cost": 0.5,
        "calls": 3,
        "own": 2,
    }
    assert ctx == {
        "tenant_id": "t1",
        "app_id": "tallymark",
        "workflow_id": challenge.version,
        "challenge_id": "x",
        "end_user_id": "alice",
        "timeout_ms": 2000,
    }
    assert timeout_s == 2.0


def test_a_plugin_that_fails_leaves_the_attempt_without_a_score(tmp_path: Path) -> None:
    challenge = with_scoring(tmp_path, WEIGHTED)
    outcome = outcome_of(challenge, Metrics(succeeded=True, rating=0), plugin=Spy())
    assert (outcome.score, outcome.error) == (None, "it raised ValueError")
    assert (outcome.result, outcome.ranks) == (None, True)


SCORINGS = [
    "{strategy: fastest}",
    "{formula: rating * 2 + number}",
    "{dimensions: {correctness: 0.5, speed: 0.5}}",
    WEIGHTED,
]


@pytest.fixture(scope="module")
def challenges(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Challenge]:
    folder = tmp_path_factory.mktemp("many")
    return {scoring: with_scoring(folder, scoring) for scoring in SCORINGS}


@pytest.mark.parametrize("scoring", SCORINGS, ids=["strategy", "formula", "dimensions", "plugin"])
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["alice", "bob", "charlie"]),
            st.integers(0, 3),
            st.booleans(),
            st.integers(0, 1000),
            st.sampled_from([None, "it broke"]),
        ),
        max_size=6,
    )
)
def test_many_are_scored_as_each_alone(
    scoring: str, rows: list[Any], challenges: dict[str, Challenge]
) -> None:
    challenge = challenges[scoring]
    plugin: Plugin = Spy()
    pairs = [
        (
            attempt_at(challenge, agent=agent, id=str(index), number=index + 1),
            Evaluation(
                metrics=Metrics(succeeded=good, rating=rating, elapsed_ms=points),
                dimensions={"correctness": float(points)} if "dim" in scoring else {},
                error=error,
            ),
        )
        for index, (agent, rating, good, points, error) in enumerate(rows)
    ]
    alone = [
        score_attempt(challenge, each, attempt=attempt, plugin=plugin) for attempt, each in pairs
    ]
    assert score_attempts(challenge, pairs, plugin) == alone


def test_rescoring_keeps_what_the_trajectory_showed(tmp_path: Path) -> None:
    challenge = with_scoring(
        tmp_path,
        "{dimensions: {correctness: 0.5, token_efficiency: 0.5}}",
        "constraints: {tokens: 1000}",
    )
    evaluation = Evaluation(dimensions={"correctness": 1000.0})
    shown = Verification(
        level="consistent", tokens=400, calls=2, cost=0.1, violations=("v",), harness_warning="h"
    )
    attempt = attempt_at(challenge)
    first = score_attempt(challenge, evaluation, attempt=attempt, trajectory=shown)
    assert first.score == 800
    kept = msgspec.structs.replace(attempt, verified=True, outcome=first)
    assert score_attempts(challenge, [(kept, evaluation)]) == [first]


def test_a_verified_trajectory_that_counts_nothing_scores_0_and_says_so(tmp_path: Path) -> None:
    challenge = with_scoring(
        tmp_path,
        "{dimensions: {correctness: 0.5, token_efficiency: 0.5}}",
        "constraints: {tokens: 1000}",
    )
    shown = Verification(level="consistent")
    outcome = outcome_of(challenge, Metrics(), dimensions={"correctness": 1000.0}, trajectory=shown)
    assert outcome.score == 500
    (warning,) = outcome.details["submission_warnings"]
    assert warning["message"] == "the trajectory does not record how many tokens were used"


def test_why_an_attempt_is_not_verified_is_told(tmp_path: Path) -> None:
    shown = Verification(level="none", problems=("no trajectory was sent",))
    outcome = outcome_of(with_scoring(tmp_path, "{strategy: first}"), trajectory=shown)
    assert outcome.details["unverified"] == ["no trajectory was sent"]


def test_an_outcome_survives_json(tmp_path: Path) -> None:
    outcome = outcome_of(
        with_scoring(tmp_path, "{dimensions: {correctness: 0.5, speed: 0.5}}"),
        dimensions={"correctness": 333.333333334},
    )
    assert msgspec.json.decode(msgspec.json.encode(outcome), type=Outcome) == outcome
