#!/bin/sh
# The tour of `make tour`: all features, section by section.
set -eu
cd "$(dirname "$0")/.."
TALLY_DB=$(mktemp -d)/demo.db
export TALLY_DB

title() { printf '\n\033[1m%s\033[0m\n' "$1"; }
try() { printf '$ %s\n' "$*"; eval "$* 2>&1"; }

title '1. A formula defines the score. Check it before anything runs.'
try 'tally formula check "success_pct * 0.7 - total_cost * 100"'

title '2. Errors have a place and a suggestion.'
try 'tally formula check "(critical-evl * 2 + 1) / avg_latency" --name critical-eval' || true

title '3. Explain how a score was computed.'
try 'tally formula explain "(critical-eval * 3 + style * 2) / total_cost" --set critical-eval=1 --set style=1 --set total_cost=0.02'

title '4. A suite, run on two sets of sample answers (written for this example).'
try 'tally run examples/suites/support-desk.yaml -m replay/careful -m replay/hasty --report demo-report.html'

title '5. The suites of the document, with weights and cost in the formula.'
try 'tally run examples/suites/weighted-cost-eval.yaml -m replay/careful -m replay/hasty >/dev/null'
try 'tally runs --suite weighted-cost-eval'

title '6. Rescore the same answers by another formula.'
try 'tally rescore latest --formula "success_pct - 1000 * total_cost" | head -n 4'

title '7. Existing traces, scored by built-in scorers and a formula.'
try "tally score tests/fixtures/traces/own.jsonl tests/fixtures/traces/pydantic_ai.pb --scorer no_errors --scorer word_count --formula '(no_errors + word_count) / 2'"

title '   A suite in Python. Runs of suites and traces are listed together.'
try 'tally score examples/agent_eval.py'
try 'tally runs'

title '8. An untrusted scorer plugin, checked in the sandbox.'
try 'tally doctor'
if tally doctor >/dev/null 2>&1; then
  try 'tally plugin check examples/plugins/custom.py:MyCustomScorer'

  title '9. Challenges: check one for loopholes, then play all with sample submissions.'
  try 'tally challenge check examples/challenges/log-detective'
  try 'python examples/challenges/play.py'

  title '10. Leaderboards and explanations.'
  try 'tally leaderboard log-detective'
  try 'tally leaderboard fix-the-parser'
  try 'tally leaderboard red-blue-guard'
  try 'tally leaderboard examples/challenges/track.yaml'
  try 'tally attempt show a8'
  try 'tally ratings'

  title '11. Preview another scoring rule for a challenge.'
  try 'tally rescore bean-counter --formula "correctness - elapsed_s / 10"'
else
  printf '%s\n' 'Challenges run untrusted code, which needs a sandbox; this part is skipped. See tally doctor.'
fi

title 'Done. Open demo-report.html in a browser, and see README.md for what to do next.'
