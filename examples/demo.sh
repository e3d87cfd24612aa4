#!/bin/sh
# The demo of `make demo`. `make tour` is the longer one.
set -eu
cd "$(dirname "$0")/.."
TALLY_DB=$(mktemp -d)/demo.db
export TALLY_DB

title() { printf '\n\033[1m%s\033[0m\n' "$1"; }
try() { printf '$ %s\n' "$*"; eval "$* 2>&1"; }

title '1. A formula defines the score. It is checked before anything runs.'
try 'tally formula check "success_pct * 0.7 - total_cost * 100"'

title '2. A suite, run on sample answers (written for this example), scored by its formula.'
try 'tally run examples/suites/support-desk.yaml -m replay/hasty --report demo-report.html'

title '3. Another set of answers; both runs are stored.'
try 'tally run examples/suites/support-desk.yaml -m replay/careful -q'
try 'tally runs'

title '4. Rescore the same answers by another formula, without calling a model.'
try 'tally rescore latest --formula "success_pct - 1000 * total_cost" -q'

title '5. Traces from another tool, scored by built-in scorers.'
try 'tally score tests/fixtures/traces/openinference.pb --scorer no_errors --scorer "word_count(low=1)" -q'

if tally doctor >/dev/null 2>&1; then
  title '6. A challenge played by sample agents in a sandbox: the leaderboard, and a score explained.'
  try 'python examples/challenges/play.py >/dev/null'
  try 'tally leaderboard log-detective'
  try 'tally attempt show a8 | head -n 6'

  title '7. Preview a rescoring by speed alone. Nothing is changed.'
  try 'tally rescore log-detective --formula speed'
else
  printf '%s\n' 'Challenges run untrusted code, which needs a sandbox; this part is skipped. See tally doctor.'
fi

title 'Done. demo-report.html is a report of the run. To browse everything in web pages:'
printf '%s\n' ".venv/bin/tally view --open --db $TALLY_DB" 'Or start a server with live example data: .venv/bin/tally serve --demo'
