# make setup | demo | tour | quick | test | coverage | golden | golden-update | check | format | frameworks | release | proof | soak | bench | screenshots | docs | client | lock | clean
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
RELEASE := .venv-release
PROMPTFOO := 0.121.20
# Otherwise each command that a test starts would compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE
INPUTS := pyproject.toml constraints.txt scripts/setup

.PHONY: setup demo tour quick test tests adapters ordinary-user coverage golden golden-update check format frameworks release proof soak bench screenshots docs client lock clean

setup: $(VENV)/.dev

# .user: what all examples need. .dev: also test tools and peers.
$(VENV)/.user: $(INPUTS)
	@PYTHON=$(PYTHON) VENV=$(VENV) sh scripts/setup '.[semantic,server]'
	@touch $@
$(VENV)/.dev: $(INPUTS)
	@PYTHON=$(PYTHON) VENV=$(VENV) sh scripts/setup '.[dev]'
	@touch $@ $(VENV)/.user

demo tour: $(VENV)/.user
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/$@.sh

# Packages that start no process and open no database, and the rules of the repository: a minute at most.
QUICK := formula ratings dimensions documents charts scoring judging runs scorers
quick: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pytest -n 2 -q $(QUICK:%=tests/%) tests/test_[elmt]*.py --ignore=$(ADAPTERS)

# Type checking uses one core and many tests wait, so both run at the same time.
test: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j2 tests ordinary-user

# Libraries that take longer to load than their tests take: loaded once, not in each worker.
ADAPTERS := tests/scorers/adapters
# Compiled once, in a fresh clone: each worker would compile all of the package.
tests: $(VENV)/.dev
	@$(BIN)/python -m compileall -q src
	$(BIN)/pytest -n 3 --dist worksteal --ignore=$(ADAPTERS)

# Output is printed at the end, so that it does not mix with that of the tests.
adapters: check
	@said=$$($(BIN)/pytest -q $(ADAPTERS) 2>&1); status=$$?; echo "$$said"; exit $$status

ordinary-user: adapters
	@said=$$($(BIN)/python scripts/run_tests_unprivileged.py 2>&1); status=$$?; echo "$$said"; exit $$status

# Twice as slow as without, so it is not part of `make test`.
coverage: $(VENV)/.dev
	$(BIN)/pytest -n 2 --cov --cov-report=term

# Compare the output of commands with the transcripts in tests/golden/.
golden: $(VENV)/.dev
	$(BIN)/pytest -n 2 -q -p no:hypothesispytest tests/golden

# Show the difference and ask before saving it; YES=1 answers yes.
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

# Check that an install next to the newest agent frameworks downgrades none of them. Needs `uv` and a package index.
frameworks: $(VENV)/.dev
	@$(BIN)/python -m scripts.check_frameworks

# Wheel, sdist and a bill of materials of `tallymark[all]` (CycloneDX) in dist. Fails on a known vulnerability
# and on a framework that is downgraded.
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

# Long-running proofs; results go to bench/proof.md. PROOF=mutants runs only that one.
proof: $(VENV)/.dev
	@$(BIN)/python -m scripts.proof $(PROOF)

# An hour of load while everything fails (as root also with a full disk), half on each database; then two hours of
# rescoring a million attempts by every engine. SOAK="--minutes 5 --seed 2" only prints the result.
soak: $(VENV)/.dev
	@$(BIN)/python -m $(if $(SOAK),scripts.soak $(SOAK),scripts.proof soak-sqlite soak-postgres soak-million)

# Compare with peers in one run; results go to bench/results.md. BENCH=formula runs only that one.
bench: $(PEERS)/.done
	@$(PEERS)/bin/python -m bench $(BENCH)

# Peers are installed in a separate environment: they are large, and arena-rank needs another numpy.
$(PEERS)/.done: $(INPUTS) bench/peers.txt
	@$(PYTHON) -m venv $(PEERS)
	@grep -v '^numpy==' constraints.txt > $(PEERS)/constraints.txt
	@$(PEERS)/bin/python -m pip install -qq --disable-pip-version-check \
	  -c $(PEERS)/constraints.txt -r bench/peers.txt -e '.[models,postgres,server]'
	@! command -v npm >/dev/null || npm install --silent --no-fund --no-audit --prefix $(PEERS)/node \
	  promptfoo@$(PROMPTFOO) || echo "promptfoo cannot be installed: it is not compared with"
	@touch $@

# Screenshots of every page at five widths and in both themes, with data of the examples; needs chromium.
screenshots: $(VENV)/.dev
	@$(BIN)/python -m scripts.screenshots

docs: $(VENV)/.dev
	$(BIN)/python scripts/cli_reference.py
	$(BIN)/python scripts/docs_tables.py
	$(BIN)/python -m scripts.api_reference
	$(BIN)/python -m tests.tutorials

# Write the types of the async client from the operations.
client: $(VENV)/.dev
	$(BIN)/python scripts/make_async_stub.py

# Pin all versions for make setup. Needs `uv`; contains no index address, so any mirror works.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --all-extras --no-emit-index-url \
	  --no-annotate --no-header pyproject.toml -o constraints.txt

clean:
	rm -rf $(VENV) $(PEERS) $(RELEASE) .venv-recorded dist .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
