"""Every route of the API: who may, with what, and what is wrong input. A test sweeps it.

A route that has no row here fails. `{...}` in addresses is filled in by the tests.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tallymark.challenges.challenge_folder import pack

PEOPLE = {
    "ada": "admin",
    "alice": "organiser",
    "rita": "reporter",
    "bob": "agent",
    "victor": "viewer",
    "nobody": "anonymous",
}
ORGANISERS = ("ada", "alice")
REPORTERS = (*ORGANISERS, "rita")
COMPETITORS = (*ORGANISERS, "bob")
TEAM = (*REPORTERS, "victor")
MEMBERS = (*TEAM, "bob")
EVERYBODY = (*MEMBERS, "nobody")

_FILES = {
    "challenge.yaml": """
name: sums
goal: Add up.
evaluator: {type: deterministic, truth: truth.json, fields: {sum: {dimension: correctness}}}
scoring: {strategy: custom, dimensions: {correctness: 0.8, speed: 0.2}}
""",
    "truth.json": '{"sum": 42}',
}


def _pack_challenge() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "sums"
        folder.mkdir()
        for file, text in _FILES.items():
            (folder / file).write_text(text)
        return pack(folder)


PACKED_CHALLENGE = _pack_challenge()


@dataclass(frozen=True)
class Row:
    """One route."""

    method: str
    path: str
    who: tuple[str, ...]
    body: Any = None
    """A valid body; None without one."""
    query: str = ""
    wrong: tuple[Any, ...] = field(default=())
    """Bodies that are refused with 422."""
    does: bool = True
    """True if the sweep may send the valid body, because its effect can be undone or repeated."""


REASON = {"reason": "a test"}
NO_REASON: tuple[Any, ...] = (
    {},
    {"reason": ""},
    {"reason": 5},
    {"reason": "x" * 2001},
    {"raeson": "x"},
    [],
    "x",
)

ROUTES = (
    # Runs
    Row(
        "POST",
        "/runs",
        REPORTERS,
        {"run": {"suite": "s", "model": "m", "results": [{"case": "a", "status": "passed"}]}},
        wrong=({}, {"run": {}}, {"suite": 5}, {"suite": "evals: []", "models": "x"}, [], {"x": 1}),
    ),
    Row("GET", "/runs", TEAM),
    Row("GET", "/runs/{run}", TEAM),
    Row("GET", "/runs/{run}/cases", TEAM),
    Row("GET", "/runs/{run}/cases/a", TEAM),
    Row("GET", "/suites", TEAM),
    Row("GET", "/runs/{run}/events", TEAM, does=False),
    Row("POST", "/runs/{run}/cancel", ORGANISERS, does=False),
    Row(
        "PATCH",
        "/runs/{run}",
        ORGANISERS,
        {"name": "nightly"},
        wrong=({}, {"name": ""}, {"name": "x" * 201}, {"name": 5}, {"suite": "x"}, []),
    ),
    Row("DELETE", "/runs/{run}", ORGANISERS, does=False),
    Row(
        "POST",
        "/runs/{run}/rescore",
        ORGANISERS,
        {"formula": "success_pct"},
        "?preview=true",
        wrong=({}, {"formula": ""}, {"formula": "1 +"}, {"formula": "nothing"}, {"suite": "x: ["}),
    ),
    Row("GET", "/compare", TEAM, query="?run={run}&run={run}"),
    # People's own scores
    Row("GET", "/scores", TEAM, query="?run={run}"),
    Row("GET", "/scores/queue", TEAM, query="?run={run}&show=open"),
    Row("GET", "/scores/case", TEAM, query="?run={run}&case=a"),
    Row(
        "POST",
        "/scores",
        REPORTERS,
        {"run": "latest", "case": "a", "label": "pass", "comment": "as it should be"},
        wrong=(
            {},
            {"run": "latest", "case": "a"},
            {"run": "latest", "case": "a", "value": 2},
            {"run": "latest", "case": "a", "name": "<b>", "value": 1},
            {"run": "latest", "case": "nothing", "value": 1},
            {"run": "latest", "case": "a", "value": 1, "epoch": -1},
            {"run": "latest", "case": "a", "value": 1, "author": "bob"},
            [],
        ),
    ),
    Row(
        "PATCH",
        "/scores/s0",
        REPORTERS,
        {"value": 1},
        does=False,
        wrong=({}, {"value": -1}, {"label": ""}, {"author": "bob", "value": 1}, {"value": 1}),
    ),
    Row("DELETE", "/scores/s0", REPORTERS, does=False),
    # Challenges
    Row(
        "POST",
        "/challenges",
        ORGANISERS,
        {"name": "speed", "scoring_formula": "rating * 10", "visibility": "public"},
        wrong=(
            {},
            {"name": ""},
            {"name": "a", "scoring_formula": "rating +"},
            {"name": "a", "scoring_plugin_id": "os:system"},
            {"name": "a", "scoring_strategy": "luck"},
            {"name": "a", "difficulty": "hard"},
            {"name": "a", "attempts": 0},
            [],
        ),
    ),
    Row("GET", "/challenges", EVERYBODY),
    Row("GET", "/challenges/speed", EVERYBODY),
    Row("GET", "/challenges/speed/files", ORGANISERS),
    Row("POST", "/challenges/check", ORGANISERS, does=False),
    Row(
        "PATCH",
        "/challenges/secret",
        ORGANISERS,
        {"closed": False, **REASON},
        wrong=({}, REASON, {"closed": 1, **REASON}, {"frozen": True}, {"open": True, **REASON}),
    ),
    Row("DELETE", "/challenges/secret", ORGANISERS, query="?reason=a+test", does=False),
    Row(
        "POST",
        "/challenges/speed/rescore",
        ORGANISERS,
        {"formula": "rating * 11"},
        "?preview=true",
        wrong=({"formula": "1 +"}, {"strategy": "luck"}, {"config": 5}, {"weights": {"a": 1}}),
    ),
    Row(
        "POST",
        "/tracks",
        ORGANISERS,
        {"name": "spring", "challenges": ["speed"]},
        wrong=({}, {"name": "x", "challenges": []}, {"name": "x", "challenges": ["speed"] * 2}),
    ),
    Row("GET", "/tracks", EVERYBODY),
    Row("GET", "/tracks/spring/leaderboard", EVERYBODY),
    Row("DELETE", "/tracks/none", ORGANISERS, does=False),
    Row(
        "POST",
        "/tracks/leaderboard",
        EVERYBODY,
        {"name": "summer", "challenges": ["speed"]},
        wrong=({}, {"name": "x", "challenges": []}, {"name": "x", "combine": 5}),
    ),
    Row("GET", "/pauses", ORGANISERS),
    Row(
        "POST",
        "/challenges/speed/resume",
        ORGANISERS,
        {},
        does=False,
        wrong=({}, {"agent": "B B"}, {"agnet": "bob"}, []),
    ),
    Row(
        "POST",
        "/challenges/duel/settle",
        ORGANISERS,
        {},
        does=False,
        wrong=({"again": "yes"}, {"agian": True}, []),
    ),
    Row("GET", "/challenges/speed/leaderboard", EVERYBODY),
    Row("GET", "/challenges/speed/history", EVERYBODY),
    Row("GET", "/challenges/speed/attempts/count", ORGANISERS),
    Row("GET", "/waiting", ORGANISERS),
    Row("GET", "/challenges/duel/tallies", EVERYBODY, does=False),
    Row("GET", "/challenges/speed/events", EVERYBODY, does=False),
    Row(
        "POST",
        "/challenges/speed/what-if",
        EVERYBODY,
        {"formula": "-rating", "around": "bob"},
        wrong=(
            {},
            {"formula": "1 +"},
            {"formula": "x", "weights": {}},
            {"limit": 0},
            {"limit": 1e9},
        ),
    ),
    # Attempts
    Row("GET", "/challenges/speed/attempts", EVERYBODY),
    Row(
        "POST",
        "/challenges/sums/attempts",
        COMPETITORS,
        {"agent": "bob"},
        wrong=({"agent": "B O B"}, {"agent": 5}, {"memoryless": "yes"}, {"agnet": "bob"}, []),
    ),
    Row(
        "POST",
        "/challenges/speed/reports",
        REPORTERS,
        {"agent": "bob", "metrics": {"succeeded": True, "rating": 3}},
        wrong=(
            {},
            {"agent": "bob"},
            {"agent": "B", "metrics": {}},
            {"agent": "bob", "metrics": {"rating": "8"}},
            {"agent": "bob", "metrics": {"raiting": 8}},
            {"agent": "bob", "metrics": {"tokens_total": 1.5}},
            {"agent": "bob", "metrics": [], "x": 1},
            [],
        ),
    ),
    Row("GET", "/attempts/{scored}", EVERYBODY),
    Row("GET", "/attempts/{open}/token", COMPETITORS),
    Row("GET", "/attempts/{open}/form", COMPETITORS),
    Row("GET", "/attempts/{bobs}/submission", COMPETITORS),
    Row(
        "POST",
        "/attempts/{open}/submission",
        COMPETITORS,
        {"answer": {"sum": 42}},
        "?validate_only=true",
        wrong=({}, {"answer": 1, "metadata": 5}, {"answer": 1, "metadta": {}}, []),
    ),
    Row(
        "POST",
        "/attempts/{open}/check",
        COMPETITORS,
        {"answer": {"sum": 42}},
        wrong=({}, {"answer": 1, "metadata": 5}, {"answer": 1, "metadta": {}}, []),
    ),
    Row(
        "POST",
        "/attempts/{open}/withdraw",
        COMPETITORS,
        {"reason": "tired"},
        "?validate_only=true",
        wrong=({"reason": 5}, {"agent": "B B"}, []),
    ),
    Row("POST", "/attempts/{scored}/void", ORGANISERS, REASON, "?validate_only=true", NO_REASON),
    Row("POST", "/attempts/{scored}/unvoid", ORGANISERS, REASON, "?validate_only=true", NO_REASON),
    Row("GET", "/challenges/duel/submissions", COMPETITORS, does=False),
    Row("GET", "/challenges/duel/submissions/1", COMPETITORS, does=False),
    Row(
        "POST",
        "/challenges/duel/sides/red",
        COMPETITORS,
        {"agent": "bob", "answer": "attack"},
        wrong=({}, {"answer": 1, "agent": "B B"}, {"content": "attack", "agent": "bob"}),
        does=False,
    ),
    # Agents
    Row("GET", "/agents", MEMBERS),
    Row("GET", "/agents/bob", MEMBERS),
    Row(
        "PATCH",
        "/agents/bob",
        ORGANISERS,
        {"name": "Robert"},
        "?validate_only=true",
        wrong=({}, {"name": None}, {"name": ""}, {"owner": 5}, {"handle": "rob"}, []),
    ),
    Row("POST", "/agents/charlie/disqualify", ORGANISERS, REASON, "?validate_only=true", NO_REASON),
    Row("POST", "/agents/charlie/reinstate", ORGANISERS, REASON, "?validate_only=true", NO_REASON),
    Row("GET", "/agents/bob/rivals", MEMBERS),
    Row("GET", "/agents/bob/against/charlie", MEMBERS),
    Row("GET", "/ratings", EVERYBODY),
    Row("GET", "/ratings/bob", MEMBERS),
    Row("GET", "/difficulties", EVERYBODY),
    # Formulas
    Row(
        "POST",
        "/formula/check",
        EVERYBODY,
        {"formula": "success_pct / total_cost"},
        wrong=({}, {"formula": 5}, {"formula": ""}, {"formula": "x" * 5000}, {"names": ["a"]}),
    ),
    Row(
        "POST",
        "/formula/explain",
        EVERYBODY,
        {"formula": "success_pct", "values": {"success_pct": 80}},
        wrong=({}, {"formula": "1 +"}, {"formula": "a", "values": {"a": "b"}}, {"formula": "zzz"}),
    ),
    # Jobs
    Row("GET", "/jobs", MEMBERS),
    Row("GET", "/jobs/{job}", MEMBERS, does=False),
    Row("POST", "/jobs/{job}/cancel", ORGANISERS, does=False),
    Row("POST", "/jobs/{job}/retry", ORGANISERS, does=False),
    # Accounts
    Row("GET", "/me", EVERYBODY),
    Row("GET", "/keys", MEMBERS),
    Row(
        "POST",
        "/keys",
        ORGANISERS,
        {"name": "ci", "role": "viewer"},
        wrong=({}, {"name": "x", "role": "king"}, {"name": "x", "role": "agent"}, {"name": ""}),
    ),
    Row("POST", "/keys/{key}/rotate", MEMBERS, {}, does=False, wrong=({"overlap_s": -1},)),
    Row("POST", "/keys/{key}/revoke", MEMBERS, does=False),
    Row("GET", "/invitations", ORGANISERS),
    Row(
        "POST",
        "/invitations",
        ORGANISERS,
        {"role": "agent"},
        wrong=({"role": "king"}, {"uses": 0}, {"expires_in_s": -5}, {"uses": "many"}),
    ),
    Row("POST", "/invitations/{invitation}/revoke", ORGANISERS, does=False),
    Row(
        "POST",
        "/invitations/accept",
        EVERYBODY,
        {"code": "nothing"},
        wrong=({}, {"code": ""}, {"code": 5}),
        does=False,
    ),
    Row(
        "POST",
        "/agents",
        EVERYBODY,
        {"agent": "newcomer", "owner": "new"},
        wrong=({}, {"agent": "N E W"}),
        does=False,
    ),
    Row("GET", "/tenants", ("ada",)),
    Row("GET", "/tenants/default", ("ada",)),
    Row(
        "POST",
        "/tenants",
        ("ada",),
        {"name": "acme"},
        "?validate_only=true",
        wrong=({}, {"name": "A B"}, {"name": "acme", "settings": {"x": 1}}, []),
    ),
    Row(
        "PATCH",
        "/tenants/default",
        ("ada",),
        {"agents_per_owner": 20},
        wrong=({"agents_per_owner": 0}, {"agents": 5}, {"registration": "x"}, []),
    ),
    # Settings
    Row("GET", "/vars", TEAM),
    Row("PUT", "/vars/city", ORGANISERS, {"value": "Paris"}, wrong=({}, {"value": 5}, [])),
    Row("DELETE", "/vars/city", ORGANISERS, does=False),
    Row("GET", "/secrets", ORGANISERS),
    Row("PUT", "/secrets/token", ORGANISERS, {"value": "shh"}, wrong=({}, {"value": 5}, [])),
    Row("DELETE", "/secrets/token", ORGANISERS, does=False),
    Row("GET", "/limits", EVERYBODY),
    Row("GET", "/audit", ORGANISERS),
    # Production traces
    Row("GET", "/traces", TEAM, query="?filter=status:ok"),
    Row("POST", "/traces", REPORTERS, does=False),
    Row("GET", "/traces/sums", TEAM, query="?by=model&measure=cost"),
    Row("GET", "/traces/compare", TEAM, query="?first=status:ok&second=status:error&measure=cost"),
    Row("GET", "/traces/worst", TEAM, query="?score=polite"),
    Row("GET", "/traces/choices", TEAM),
    Row("GET", "/traces/sessions/{session}", TEAM, does=False),
    Row("GET", "/traces/settings", TEAM),
    Row(
        "PATCH",
        "/traces/settings",
        ORGANISERS,
        {"keep_days": 30, "redact_attributes": ["user.email"]},
        wrong=(
            {"keep_days": 0},
            {"quiet_s": "x"},
            {"redact_patterns": ["("]},
            {"redact_patterns": ["x*"]},
            {"keep": 1},
            [],
        ),
    ),
    Row(
        "POST",
        "/traces/suite",
        TEAM,
        {"filter": "status:ok", "name": "again"},
        wrong=({"filter": "stauts:ok"}, {"limit": 0}, {"traces": ["none"]}, {"nmae": "x"}, []),
    ),
    Row("GET", "/traces/{trace}", TEAM),
    Row("DELETE", "/traces/{trace}", ORGANISERS, does=False),
    Row(
        "POST",
        "/traces/{trace}/scores",
        REPORTERS,
        {"name": "polite", "value": 0.5},
        wrong=(
            {},
            {"name": "polite", "value": 2},
            {"name": "polite"},
            {"name": " ", "value": 1},
            {"nmae": "polite", "value": 1},
            [],
        ),
    ),
    # Exports
    Row("GET", "/export/runs", TEAM),
    # Rules
    Row(
        "POST",
        "/rules",
        ORGANISERS,
        {"name": "thrifty", "formula": "1 - min(1, cost)", "rate": 50, "filter": "status:ok"},
        "?validate_only=true",
        wrong=(
            {},
            {"name": "a b", "formula": "cost"},
            {"name": "a"},
            {"name": "a", "formula": "cost", "scorer": "contains"},
            {"name": "a", "formula": "costt"},
            {"name": "a", "formula": "cost", "rate": 101},
            {"name": "a", "formula": "cost", "filter": "stauts:ok"},
            {"name": "a", "formula": "cost", "filter": "score.a>0"},
            {"name": "a", "formula": "cost", "cap_cost": 1},
            {"name": "a", "formula": "cost", "cap_count": 0},
            {"name": "a", "scorer": "scorers.py:polite"},
            {"name": "a", "scorer": "nothing"},
            {"name": "a", "scorer": "autoevals(name='x')"},
            {"name": "a", "judge": {"rubric": "Is it good?"}},
            {"name": "a", "judge": {"rubric": "Is it good?", "model": "python/os:system"}},
            {"name": "a", "judge": {"rubric": "Is it good?", "model": "http://127.0.0.1:1/v1"}},
            {"name": "a", "judge": {"rubric": "/etc/passwd.toml", "model": "echo/me"}},
            {"name": "a", "composite": {"parts": ["module:scorer"]}},
            [],
        ),
    ),
    Row(
        "POST",
        "/rules/check",
        ORGANISERS,
        {"formula": "1 - min(1, cost)"},
        wrong=({}, {"formula": "costt"}, {"name": "a b", "formula": "cost"}, []),
    ),
    Row("GET", "/rules", TEAM),
    Row("GET", "/rules/sparing", TEAM),
    Row(
        "POST",
        "/rules/sparing/versions",
        ORGANISERS,
        {"formula": "1 - min(1, cost)"},
        "?validate_only=true",
        wrong=({}, {"formula": "costt"}, {"name": "other", "formula": "cost"}, []),
    ),
    Row("POST", "/rules/sparing/pause", ORGANISERS, query="?validate_only=true"),
    Row("POST", "/rules/sparing/resume", ORGANISERS),
    Row("DELETE", "/rules/sparing", ORGANISERS, does=False),
    Row("GET", "/rules/sparing/decisions", TEAM, query="?decision=scored"),
    Row("GET", "/rules/sparing/spending", TEAM, query="?since=2026-01-01"),
    Row(
        "POST",
        "/rules/sparing/backfill",
        ORGANISERS,
        {"since": 1.0, "until": 2.0},
        "?validate_only=true",
        wrong=({}, {"since": 2.0, "until": 1.0}, {"since": "yesterday", "until": 2.0}, []),
    ),
    Row(
        "POST",
        "/rules/sparing/backfill/preview",
        ORGANISERS,
        {"since": 1.0, "until": 2.0},
        wrong=({}, {"since": 2.0, "until": 1.0}, {"since": "yesterday", "until": 2.0}, []),
    ),
    Row("GET", "/rules/sparing/backfills", TEAM),
    Row("GET", "/rules/sparing/backfills/1", TEAM, does=False),
    Row(
        "POST",
        "/webhooks",
        ORGANISERS,
        {"url": "https://example.com/hooks", "events": ["run.finished"], "challenge": "speed"},
        "?validate_only=true",
        wrong=(
            {},
            {"url": "example.com"},
            {"url": "ftp://example.com/x"},
            {"url": "https://user:word@example.com/x"},
            {"url": "http://127.0.0.1/x"},
            {"url": "http://[::1]:80/x"},
            {"url": "https://example.com:99999/x"},
            {"url": "https://example.com/x", "events": []},
            {"url": "https://example.com/x", "events": ["run.ended"]},
            {"url": "https://example.com/" + "x" * 2000},
            [],
        ),
    ),
    Row("GET", "/webhooks", ORGANISERS),
    Row("GET", "/webhooks/whk_a", ORGANISERS),
    Row("POST", "/webhooks/whk_a/pause", ORGANISERS),
    Row("POST", "/webhooks/whk_a/resume", ORGANISERS, query="?validate_only=true"),
    Row("POST", "/webhooks/whk_a/rotate", ORGANISERS, query="?validate_only=true"),
    Row("POST", "/webhooks/whk_a/ping", ORGANISERS, does=False),
    Row("GET", "/webhooks/whk_a/deliveries", ORGANISERS, query="?state=failed"),
    Row("POST", "/webhooks/whk_a/deliveries/whd_a/replay", ORGANISERS, does=False),
    Row("DELETE", "/webhooks/whk_a", ORGANISERS, does=False),
    Row(
        "POST",
        "/runs/{run}/gates",
        REPORTERS,
        {"failures": ["it scored 1, under 2"]},
        wrong=({}, {"failures": []}, {"failures": [""]}, {"failures": "x"}, []),
    ),
)
