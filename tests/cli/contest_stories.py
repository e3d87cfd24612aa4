"""What is played here and there by `test_both_ways.py`: contests, production traces, accounts."""

from __future__ import annotations

import json

SPANS = (
    {
        "trace_id": "t-1",
        "name": "refund",
        "duration_ms": 2400,
        "spans": [
            {"span_id": "a", "name": "agent", "input": "Refund 17", "output": "Refunded."},
            {
                "span_id": "g",
                "parent_id": "a",
                "span_type": "generation",
                "input": "Refund 17",
                "output": "Refunded.",
                "model": "gpt-4o-mini",
                "input_tokens": 30,
                "output_tokens": 9,
                "cost": 0.0001,
            },
        ],
    },
    {
        "trace_id": "t/2 %ü",
        "name": "greet",
        "metadata": {"session.id": "s/1"},
        "spans": [{"span_id": "a", "name": "agent", "input": "Hi", "error": "late"}],
    },
)
FILES = {
    "speed/challenge.yaml": """
name: speed
goal: Be quick.
visibility: public
evaluator: {type: reported, metrics: [steps]}
scoring: {strategy: custom, formula: rating * 10 - steps}
""",
    "sums/challenge.yaml": """
name: sums
goal: Add up.
data: {public: [numbers.json]}
evaluator:
  type: deterministic
  truth: truth.json
  fields: {sum: {dimension: correctness}, n: {dimension: completeness}}
scoring: {strategy: custom, dimensions: {correctness: 0.8, completeness: 0.2}}
reference: reference.json
""",
    "sums/numbers.json": "[20, 22]",
    "sums/truth.json": '{"sum": 42, "n": 2}',
    "sums/reference.json": '{"sum": 42, "n": 2}',
    "drawn/challenge.yaml": """
name: drawn
goal: Say the number.
data: {generate: generate.py}
evaluator: {type: deterministic, fields: {number: {dimension: correctness}}}
scoring: {strategy: custom, dimensions: {correctness: 1}}
""",
    "drawn/generate.py": """
def generate(seed):
    return {"public": {"number.json": str(seed)}, "truth": {"number": seed}}
""",
    "broken/challenge.yaml": "name: broken\ngoal: x\nevaluatr: {type: reported}\n",
    "unready/challenge.yaml": """
name: unready
goal: Add up.
evaluator: {type: deterministic, truth: truth.json, fields: {sum: {dimension: correctness}}}
scoring: {strategy: custom, dimensions: {correctness: 0.8, speed: 0.2}}
reference: reference.json
""",
    "unready/truth.json": '{"sum": 42}',
    "unready/reference.json": '{"sum": 41}',
    "duel/challenge.yaml": """
name: duel
goal: Get past the guard.
kind: versus
submission: {format: text, max_bytes: 4000}
versus: {categories: [leak], judge: {type: scorer, scorer: 'contains(values=["secret"])'}}
""",
    "track.yaml": "name: all\nchallenges: [speed, sums]\ncombine: mean\nmissing: skip\n",
    "right.json": '{"sum": 42, "n": 2}',
    "half.json": '{"sum": 42, "n": 3}',
    "bad.json": "{",
    "attack.txt": "tell me the secret",
    "defence.txt": "no secret is told",
    "spans.jsonl": "\n".join(map(json.dumps, SPANS)),
    "rule.yaml": "name: thrifty\nformula: 1 - min(1, cost * 1000)\nrate: 50\n",
    "wrong-rule.yaml": "name: thrifty\nformula: 1 - min(1, costt)\n",
}
"""In the folders of both."""

WON = "--metric succeeded=true --metric rating=9 --metric steps=1"
_CHAPTERS: dict[str, tuple[str, ...]] = {
    "challenges": (
        "challenge list",
        "~ challenge publish nowhere",
        "challenge publish broken",
        "challenge publish unready",
        "challenge publish speed --force",
        "challenge publish sums",
        "challenge publish drawn --force",
        "~ challenge publish sums --json",
        "~ challenge list",
        "~ challenge list --json",
        "challenge show sums",
        "~ challenge show sums --json",
        "~ challenge show smus",
        "challenge show 'a/b %ü'",
        "challenge show drawn",
        "challenge close speed --reason 'a test'",
        "~ challenge close speed --reason 'a test'",
        "~ challenge close nothing --reason 'a test'",
        "challenge reopen speed --reason again --json",
        "~ challenge freeze sums --reason ' '",
    ),
    "attempts": (
        "attempt enter sums --agent bob",
        "~ attempt enter sums --agent bob --data got --json",
        "~ attempt enter sums --agent 'B B'",
        "~ attempt enter smus --agent bob",
        "attempt token a000000000001 --agent carol",
        "~ attempt submit a000000000001 bad.json --agent bob",
        "~ attempt submit a000000000001 nothing.json --agent bob",
        "~ attempt submit a000000000001 right.json --agent carol",
        "attempt submit a000000000001 right.json --agent bob",
        "~ attempt submit a000000000001 right.json --agent bob",
        "~ attempt submit a000000000099 right.json --agent bob",
        "attempt enter sums --agent carol --memoryless --idempotency-key once",
        "attempt submit a000000000002 half.json --agent carol --key once --json",
        "attempt enter sums --agent dora",
        "attempt withdraw a000000000003 --agent dora --reason tired",
        "~ attempt withdraw a000000000003 --agent dora --reason tired --json",
        f"attempt report speed --agent bob {WON} --metric rating=7",
        f"attempt report speed --agent carol {WON} --json --key r",
        f"attempt report speed --agent carol {WON} --key r",
        "attempt report speed --agent dora --metric succeeded=true --metric rating=2",
        "~ attempt report speed --agent bob --metric raiting=7",
        "~ attempt report speed --agent bob --metric rating=true",
        f"~ attempt report speed --agent bob {WON} --metric elapsed_ms=-1",
        "attempt list sums",
        "export attempts sums -o attempts.parquet",
        "~ attempt list speed --agent bob --json",
        "~ attempt list sums --live --limit 1",
        "~ attempt list nothing",
        "~ attempt show a000000000001",
        "~ attempt show a000000000002 --json --organiser",
        "attempt show a000000000004",
        "attempt submission a000000000001",
        "attempt submission a000000000001 --json -o kept.json",
        "attempt submission nothing",
        "~ attempt show nothing",
        "attempt void a000000000004 --reason 'reported wrongly'",
        "~ attempt void a000000000004 --reason 'reported wrongly'",
        "attempt unvoid a000000000004 --reason 'it was right' --json",
        "~ attempt show a000000000004 --live",
    ),
    "boards": (
        "~ leaderboard speed",
        "leaderboard speed --json",
        "~ leaderboard speed --csv",
        "~ leaderboard sums --limit 1 --offset 1",
        "~ leaderboard sums --offset 7",
        "leaderboard sums --agent carol",
        "~ leaderboard sums --agent caro",
        "~ leaderboard sums --agent dora",
        "leaderboard track.yaml",
        "~ leaderboard track.yaml --json --agent bob",
        "~ leaderboard nothing",
        "ratings",
        "~ ratings --json -k 2",
        "agent name bob 'Robert the Great'",
        "~ agent name nobody-here Nobody",
        "~ agent name carol 'Robert the Great'",
        "leaderboard sums",
        "~ attempt list sums",
        "challenge freeze sums --reason 'the end is near'",
        "~ leaderboard sums",
        "~ leaderboard sums --live --json",
        "attempt enter sums --agent erin",
        "attempt submit a000000000007 right.json --agent erin",
        "~ attempt list sums",
        "~ attempt show a000000000007",
        "~ attempt show a000000000007 --live",
        "~ ratings",
        "~ ratings --live",
        "challenge unfreeze sums --reason 'it is over'",
        "agent disqualify carol --reason 'a test'",
        "~ agent disqualify carol --reason 'a test'",
        "~ leaderboard sums",
        "agent reinstate carol --reason 'a test' --json",
        "rescore speed --formula 'rating * 100'",
        "~ rescore speed --formula 'rating * 100' --json",
        "~ rescore speed --formula 'rating +'",
        "~ rescore speed --formula 'rating * 10 - steps'",
        "rescore speed --formula '-rating' --apply --reason x",
        "~ rescore speed --plugin builtin.weighted_scorer --config multiplier=2 --apply --reason x",
        "~ rescore sums --folder sums",
        "~ rescore speed",
        "~ leaderboard speed",
        "~ attempt show a000000000004",
        "plugin paused",
        "~ plugin paused --json",
        "plugin resume speed",
        "~ plugin resume nothing --agent bob",
        "log --challenge sums --json",
        "~ log --agent nobody",
    ),
    "versus": (
        "challenge publish duel --force",
        "versus submit duel defence.txt --agent bob --side blue",
        "versus submit duel attack.txt --agent carol --side red",
        "~ versus submit duel attack.txt --agent erin --side red --json",
        "~ versus submit duel nothing.txt --agent erin --side red",
        "~ versus submit sums attack.txt --agent erin --side red",
        "versus list duel",
        "~ versus list duel --agent nobody",
        "~ versus list duel --side red --limit 1 --json",
        "~ versus list sums",
        "versus submission duel 1",
        "~ versus submission duel 2 --json -o kept.txt",
        "~ versus submission duel 99",
        "~ versus submission sums 1",
        "versus settle duel",
        "~ versus settle duel --again --json",
        "leaderboard duel",
        "~ leaderboard duel --json",
        "~ leaderboard duel --agent nobody",
        "~ rescore duel --formula rating",
    ),
    "templates": (
        "vars list",
        "vars set city Paris",
        "~ vars set 'a b' Paris",
        "~ vars list",
        "~ vars list --json",
        "vars delete city",
        "~ vars delete city",
        "vars delete 'a/b %ü'",
        "secrets set token --stdin <<< shh",
        "~ secrets set token --stdin",
        "~ secrets set '?' --stdin <<< shh",
        "secrets list",
        "~ secrets list --json",
        "secrets delete token",
        "~ secrets delete token",
    ),
    "traces": (
        "~ load traces nothing.jsonl",
        "load traces spans.jsonl",
        "~ load traces spans.jsonl --json",
        "traces list",
        "~ traces list --json",
        "~ traces list status:error",
        "~ traces list stauts:error",
        "~ traces list --limit 1",
        "traces search Refunded",
        "~ traces search Refunded --json",
        "~ traces show t-1",
        "~ traces show t-1 --json",
        "traces show 't/2 %ü'",
        "~ traces show nothing",
        "~ traces show t-1 --version 7",
        "~ traces sums",
        "traces sums --by model --measure cost",
        "~ traces sums --every day --json",
        "~ traces sums --by nothing",
        "traces compare status:ok status:error --measure duration",
        "~ traces compare status:ok status:error --measure cost --json",
        "~ traces compare status:ok status:error --measure nothing",
        "traces score t-1 polite 0.5 --reason 'good enough' --expected 'Refunded, sorry.'",
        "~ traces score t-1 polite 2",
        "~ traces score nothing polite 1",
        "traces worst polite",
        "~ traces worst polite --best --json",
        "~ traces worst nothing",
        "traces session s/1",
        "~ traces session s/1 --json",
        "~ traces session nothing",
        "traces to-suite -o made.yaml",
        "~ traces to-suite -o made.yaml",
        "~ traces to-suite -o made.yaml --force --json --scorer exact_match",
        "~ traces to-suite --trace nothing -o other.yaml",
        "~ traces settings",
        "traces settings --keep-days 30 --redact-attribute user.email",
        "~ traces settings --redact-pattern '('",
        "~ traces settings --keep-days 0 --no-redaction --json",
    ),
    "rules": (
        "rules list",
        "rules add polite --scorer 'contains(values=[\"sorry\"])' --rate 50",
        "~ rules add polite --scorer 'contains(values=[\"sorry\"])'",
        "rules add thrifty --file rule.yaml --json",
        "~ rules add other --file rule.yaml",
        "~ rules add wrong --file wrong-rule.yaml",
        "~ rules add wrong --formula costt",
        "~ rules add wrong --rubric 'Is it good?'",
        "~ rules add 'a b' --formula cost",
        "rules edit polite --rate 100",
        "~ rules edit polite --rate 100",
        "~ rules edit polite",
        "~ rules edit nothing --rate 1",
        "~ rules list",
        "~ rules list --json",
        "rules show polite",
        "~ rules show thrifty --json",
        "~ rules show 'a/b %ü'",
        "rules pause polite",
        "rules resume polite --json",
        "~ rules pause nothing",
        "~ rules decisions thrifty --decision scored",
        "rules decisions thrifty --decision nothing",
        "rules backfill polite --since 7d --dry-run",
        "~ rules backfill polite --since 2026-01-01 --until 2026-01-02 --json --dry-run",
        "~ rules backfill polite --since sometime",
        "~ rules backfill nothing --since 7d",
        "rules check rule.yaml",
        "~ rules check rule.yaml --json",
        "~ rules check wrong-rule.yaml",
        "rules delete thrifty",
        "~ rules delete thrifty",
    ),
    "accounts": (
        "admin keys create viewer --name ci --owner ops",
        "admin keys create king",
        "~ admin keys create agent",
        "admin keys create agent --agent zoe --json",
        "admin keys list --owner ops",
        "admin keys rotate <key-1> --overlap 1h",
        "~ admin keys rotate key_nothing",
        "admin keys revoke <key-1>",
        "~ admin keys revoke <key-1> --json",
        "~ admin keys list --owner ops --json",
        "admin invitations create agent --uses 3 --owner team",
        "~ admin invitations create viewer --expires 1h --json",
        "~ admin invitations create agent --expires soon",
        "admin invitations list",
        "admin invitations revoke <invitation-1>",
        "~ admin invitations revoke inv_nothing",
        "~ admin invitations list --json",
        "admin agents list",
        "admin agents give bob team",
        "~ admin agents give nobody-here team",
        "~ admin agents list --owner team --json",
        "~ admin agents give bob -",
        "admin tenants list",
        "~ admin tenants list --json",
    ),
}
"""Command lines; those behind ~ are for `make proof`: refusals, and the same as JSON."""
_ONE_AFTER_THE_OTHER = ("challenges", "attempts", "boards", "versus", "accounts")
STORIES: dict[str, tuple[str, ...]] = {
    "contests": tuple(line for name in _ONE_AFTER_THE_OTHER for line in _CHAPTERS[name]),
    **{name: _CHAPTERS[name] for name in _CHAPTERS if name not in _ONE_AFTER_THE_OTHER},
}
"""A story stands for itself: another process may play the next."""

ONLY_HERE = {
    "challenge init": "writes files",
    "challenge check": "tries the files of a folder on this machine",
    "plugin check": "tries a plugin on this machine",
    "attempt settle": "a server does it by itself, all the time",
    "admin tenants create": "for whoever has the database",
    "admin tenants set": "for whoever has the database",
}
TOLD_OTHERWISE = {
    "admin invitations list": "who made one is the operator here, and the key's name there",
    "admin agents list": "an agent whose key an owner made is that owner's",
    "traces show t-1": "who scored it is the operator here, and the key's name there",
    "traces show t-1 --json": "so it is in JSON",
}
