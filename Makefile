# make setup | demo | tour | quick | test | coverage | golden | golden-update | check | proof | soak | bench | screenshots | docs | client | lock | clean
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
# Each command that a test starts would compile all of the package anew.
unexport PYTHONDONTWRITEBYTECODE
INPUTS := pyproject.toml constraints.txt scripts/setup

.PHONY: setup demo tour quick test coverage golden golden-update check proof soak bench screenshots docs client lock clean

setup: $(VENV)/.dev

# What a user of all examples needs, and what working on it needs besides (peers to compare with, test tools).
$(VENV)/.user: $(INPUTS)
	@PYTHON=$(PYTHON) VENV=$(VENV) sh scripts/setup '.[semantic]'
	@touch $@
$(VENV)/.dev: $(INPUTS)
	@PYTHON=$(PYTHON) VENV=$(VENV) sh scripts/setup '.[dev]'
	@touch $@ $(VENV)/.user

demo tour: $(VENV)/.user
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/$@.sh

# Rooms that start no process and open no database, and the rules of the house: a minute at most.
QUICK := formula ratings dimensions documents charts scoring judging runs scorers
quick: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pytest -n 2 -q $(QUICK:%=tests/%) tests/test_[elmt]*.py --ignore=tests/scorers/adapters

test: check
	$(BIN)/pytest -n 2
	@$(BIN)/python scripts/ordinary_user.py

# Twice as slow as without, so it is not part of `make test`.
coverage: $(VENV)/.dev
	$(BIN)/pytest -n 2 --cov --cov-report=term

# What the command says to all that is in tests/golden/cases, compared with what it said before.
golden: $(VENV)/.dev
	$(BIN)/pytest -n 2 -q -p no:hypothesispytest tests/golden

# Shows the difference and asks before it keeps it; YES=1 says yes.
golden-update: $(VENV)/.dev
	@$(BIN)/python -m tests.golden.update

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# What takes longer than tests may; what it found is in bench/proof.md. PROOF=mutants makes only that one.
proof: $(VENV)/.dev
	@$(BIN)/python -m scripts.proof $(PROOF)

# An hour on each database with load on all doors while everything fails; as root a full disk too. SOAK="--minutes 5 --seed 2"
soak: $(VENV)/.dev
	@$(BIN)/python -m scripts.soak $(SOAK)

bench: $(VENV)/.dev $(PEERS)/.done
	@for bench in bench/bench_*.py; do PYTHONPATH=. $(BIN)/python $$bench || exit 1; done
	@PYTHONPATH=src $(PEERS)/bin/python bench/bench_ratings.py

# arena-rank brings 300 MB and a numpy of its own, so it lives apart.
$(PEERS)/.done:
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install -qq --disable-pip-version-check arena-rank==0.1.1
	@touch $@

# Every page at two widths and in both themes, of a store made by the examples; needs chromium.
screenshots: $(VENV)/.dev
	@$(BIN)/python -m scripts.screenshots

docs: $(VENV)/.dev
	$(BIN)/python scripts/cli_reference.py
	$(BIN)/python scripts/docs_tables.py
	$(BIN)/python -m tests.tutorials

# The client without event loops, from the one with.
client: $(VENV)/.dev
	$(BIN)/python scripts/make_sync_client.py

# Pins every version for make setup. Needs `uv`; names no index, so any mirror serves it.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --all-extras --no-emit-index-url \
	  --no-annotate --no-header pyproject.toml -o constraints.txt

clean:
	rm -rf $(VENV) $(PEERS) .venv-recorded dist .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
