#!/bin/sh
# What `make demo` shows, in a minute. `make tour` is the long one.
set -eu
cd "$(dirname "$0")/.."
TALLY_DB=$(mktemp -d)/demo.db
export TALLY_DB

title() { printf '\n\033[1m%s\033[0m\n' "$1"; }
try() { printf '$ %s\n' "$*"; eval "$* 2>&1"; }

title '1. Your idea of good is a formula. It is checked before anything runs.'
try 'tally formula check "success_pct * 0.7 - total_cost * 100"'

title '2. A suite, run on sample answers (written for this example), scored by its formula.'
try 'tally run examples/suites/support-desk.yaml -m replay/hasty --report demo-report.html'

title '3. Another set of answers; both are kept, and compared.'
try 'tally run examples/suites/support-desk.yaml -m replay/careful -q'
try 'tally runs'

title '4. Another idea of good for the same answers: no model is asked again.'
try 'tally rescore latest --formula "success_pct - 1000 * total_cost" -q'

title '5. Traces from another tool, scored by built-in scorers.'
try 'tally score tests/fixtures/traces/openinference.pb --scorer no_errors --scorer "word_count(low=1)" -q'

if tally doctor >/dev/null 2>&1; then
  title '6. A challenge, played by sample agents in a sandbox: who stands where, and why.'
  try 'python examples/challenges/play.py >/dev/null'
  try 'tally leaderboard log-detective'
  try 'tally attempt show a8 | head -n 6'

  title '7. What if only speed counted? See who would move; nothing is changed.'
  try 'tally rescore log-detective --formula speed'
else
  printf '%s\n' 'Challenges run code that is not trusted, so this part is left out: see tally doctor.'
fi

title 'Done. demo-report.html is the run as one file. To open the pages on all of this:'
printf '%s\n' ".venv/bin/tally view --open --db $TALLY_DB" 'Or an example server with boards that move: .venv/bin/tally serve --demo'
