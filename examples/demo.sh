#!/bin/sh
# What `make demo` shows. Every command here is one a user would type.
set -eu
cd "$(dirname "$0")/.."

title() { printf '\n\033[1m%s\033[0m\n' "$1"; }
try() { printf '$ %s\n' "$*"; eval "$* 2>&1"; }

title '1. A formula says what is good. Check it before anything runs.'
try 'tally formula check "success_pct * 0.7 - total_cost * 100"'

title '2. A mistake is named, placed and mended.'
try 'tally formula check "(critical-evl * 2 + 1) / avg_latency" --name critical-eval' || true

title '3. Afterwards, see how a score came about.'
try 'tally formula explain "(critical-eval * 3 + style * 2) / total_cost" --set critical-eval=1 --set style=1 --set total_cost=0.02'
