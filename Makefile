# make setup | demo | tour | quick | test | coverage | golden | golden-update | check | format | frameworks | release | proof | soak | bench | screenshots | docs | client | lock | clean
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
RELEASE := .venv-release
PROMPTFOO := 0.121.20
# Each command that a test starts would compile all of the package anew.
unexport PYTHONDONTWRITEBYTECODE
INPUTS := pyproject.toml constraints.txt scripts/setup

.PHONY: setup demo tour quick test tests adapters ordinary-user coverage golden golden-update check format frameworks release proof soak bench screenshots docs client lock clean

setup: $(VENV)/.dev

# What a user of all examples needs, and what working on it needs besides (peers to compare with, test tools).
$(VENV)/.user: $(INPUTS)
	@PYTHON=$(PYTHON) VENV=$(VENV) sh scripts/setup '.[semantic,server]'
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
	$(BIN)/pytest -n 2 -q $(QUICK:%=tests/%) tests/test_[elmt]*.py --ignore=$(ADAPTERS)

# Types are checked on one core, and many tests wait: beside each other they keep two cores busy.
test: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j2 tests ordinary-user

# Libraries that load for longer than their tests run: once, rather than in each of the workers.
ADAPTERS := tests/scorers/adapters
tests: $(VENV)/.dev
	$(BIN)/pytest -n 3 --dist worksteal --ignore=$(ADAPTERS)

# Words come at the end, so that they do not mingle with those of the tests.
adapters: check
	@said=$$($(BIN)/pytest -q $(ADAPTERS) 2>&1); status=$$?; echo "$$said"; exit $$status

ordinary-user: adapters
	@said=$$($(BIN)/python scripts/run_tests_unprivileged.py 2>&1); status=$$?; echo "$$said"; exit $$status

# Twice as slow as without, so it is not part of `make test`.
coverage: $(VENV)/.dev
	$(BIN)/pytest -n 2 --cov --cov-report=term

# What the command says to all that is in tests/golden/cases, compared with what it said before.
golden: $(VENV)/.dev
	$(BIN)/pytest -n 2 -q -p no:hypothesispytest tests/golden

# Shows the difference and asks before it keeps it; YES=1 says yes.
golden-update: $(VENV)/.dev
	@$(BIN)/python -m tests.golden.update

TEMPLATES := src/tallymark/web/templates src/tallymark/runs/reports/page
check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/djangofmt --quiet --check $(TEMPLATES)
	$(BIN)/mypy

# Biome formats style and script; it needs Node, so `make check` leaves it out.
BIOME := npx --yes @biomejs/biome@2.6.8
format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/djangofmt --quiet $(TEMPLATES)
	@! command -v npx >/dev/null || $(BIOME) format --write src

# Does an install beside the newest agent frameworks push one of them back? Needs `uv` and a package index.
frameworks: $(VENV)/.dev
	@$(BIN)/python -m scripts.check_frameworks

# What is published, in dist: wheel, sdist, and what `tallymark[all]` brings as CycloneDX. Fails on a known vulnerability
# and on a framework that is pushed back.
release: frameworks
	@rm -rf dist $(RELEASE)
	@$(BIN)/python -m hatchling build -d dist
	@$(PYTHON) -m venv $(RELEASE)/tools
	@$(RELEASE)/tools/bin/python -m pip install -qq --disable-pip-version-check cyclonedx-bom pip-audit
	@$(RELEASE)/tools/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip
	@$(PYTHON) -m venv --without-pip $(RELEASE)/all
	@$(BIN)/python -m pip --python $(RELEASE)/all/bin/python install -qq --disable-pip-version-check \
	  -c constraints.txt "$$(ls dist/*.whl)[all]"
	@$(RELEASE)/tools/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
	  --output-file dist/sbom.cdx.json $(RELEASE)/all/bin/python

# What takes longer than tests may; what it found is in bench/proof.md. PROOF=mutants makes only that one.
proof: $(VENV)/.dev
	@$(BIN)/python -m scripts.proof $(PROOF)

# An hour, half of it on each database, with load on all doors while everything fails, as root a full disk too; then two
# hours of a million attempts rescored by every engine. SOAK="--minutes 5 --seed 2" only says what it finds.
soak: $(VENV)/.dev
	@$(BIN)/python -m $(if $(SOAK),scripts.soak $(SOAK),scripts.proof soak-sqlite soak-postgres soak-million)

# Us and the peers in one run; what it found is in bench/results.md. BENCH=formula runs only that one.
bench: $(PEERS)/.done
	@$(PEERS)/bin/python -m bench $(BENCH)

# Peers live apart, with us beside them: they bring gigabytes, and arena-rank a numpy of its own.
$(PEERS)/.done: $(INPUTS) bench/peers.txt
	@$(PYTHON) -m venv $(PEERS)
	@grep -v '^numpy==' constraints.txt > $(PEERS)/constraints.txt
	@$(PEERS)/bin/python -m pip install -qq --disable-pip-version-check \
	  -c $(PEERS)/constraints.txt -r bench/peers.txt -e '.[models,postgres,server]'
	@! command -v npm >/dev/null || npm install --silent --no-fund --no-audit --prefix $(PEERS)/node \
	  promptfoo@$(PROMPTFOO) || echo "promptfoo cannot be installed: it is not compared with"
	@touch $@

# Every page at five widths and in both themes, of a store made by the examples; needs chromium.
screenshots: $(VENV)/.dev
	@$(BIN)/python -m scripts.screenshots

docs: $(VENV)/.dev
	$(BIN)/python scripts/cli_reference.py
	$(BIN)/python scripts/docs_tables.py
	$(BIN)/python -m scripts.api_reference
	$(BIN)/python -m tests.tutorials

# Types of the awaitable methods, from the operations.
client: $(VENV)/.dev
	$(BIN)/python scripts/make_async_stub.py

# Pins every version for make setup. Needs `uv`; names no index, so any mirror serves it.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --all-extras --no-emit-index-url \
	  --no-annotate --no-header pyproject.toml -o constraints.txt

clean:
	rm -rf $(VENV) $(PEERS) $(RELEASE) .venv-recorded dist .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
