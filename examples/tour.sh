#!/bin/sh
# What `make tour` shows: all of it, section by section. Every command here is one a user would type.
set -eu
cd "$(dirname "$0")/.."
TALLY_DB=$(mktemp -d)/demo.db
export TALLY_DB

title() { printf '\n\033[1m%s\033[0m\n' "$1"; }
try() { printf '$ %s\n' "$*"; eval "$* 2>&1"; }

title '1. A formula says what is good. Check it before anything runs.'
try 'tally formula check "success_pct * 0.7 - total_cost * 100"'

title '2. A mistake is named, placed and mended.'
try 'tally formula check "(critical-evl * 2 + 1) / avg_latency" --name critical-eval' || true

title '3. Afterwards, see how a score came about.'
try 'tally formula explain "(critical-eval * 3 + style * 2) / total_cost" --set critical-eval=1 --set style=1 --set total_cost=0.02'

title '4. A suite, run on two sets of sample answers. They are samples, written for this example.'
try 'tally run examples/suites/support-desk.yaml -m replay/careful -m replay/hasty --report demo-report.html'

title '5. The suites of the document, with weights and cost in the formula.'
try 'tally run examples/suites/weighted-cost-eval.yaml -m replay/careful -m replay/hasty >/dev/null'
try 'tally runs --suite weighted-cost-eval'

title '6. The same answers by another idea of good: being right counts, cost only a little.'
try 'tally rescore latest --formula "success_pct - 1000 * total_cost" | head -n 4'

title '7. Traces that already exist, from any tool, scored by built-in scorers and a formula.'
try "tally score tests/fixtures/traces/own.jsonl tests/fixtures/traces/pydantic_ai.pb --scorer no_errors --scorer word_count --formula '(no_errors + word_count) / 2'"

title '   A suite in Python. Runs of suites and of traces are kept side by side.'
try 'tally score examples/agent_eval.py'
try 'tally runs'

title '8. A scorer plugin from somebody else, tried in the sandbox before anybody relies on it.'
try 'tally doctor'
if tally doctor >/dev/null 2>&1; then
  try 'tally plugin check examples/plugins/custom.py:MyCustomScorer'

  title '9. Challenges: check one as its competitors will, then play them all with sample submissions.'
  try 'tally challenge check examples/challenges/log-detective'
  try 'python examples/challenges/play.py'

  title '10. Who stands where, and why.'
  try 'tally leaderboard log-detective'
  try 'tally leaderboard fix-the-parser'
  try 'tally leaderboard red-blue-guard'
  try 'tally leaderboard examples/challenges/track.yaml'
  try 'tally attempt show a8'
  try 'tally ratings'

  title '11. Another idea of good for a challenge: see who would move before you do it.'
  try 'tally rescore bean-counter --formula "correctness - elapsed_s / 10"'
else
  printf '%s\n' 'Challenges run code that is not trusted, so this part is left out: see tally doctor.'
fi

title 'Done. Open demo-report.html in a browser, and see README.md for what to do next.'
