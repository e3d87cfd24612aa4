# make setup | demo | test | check | bench | lock | clean
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test check bench lock clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt scripts/setup
	@PYTHON=$(PYTHON) VENV=$(VENV) sh scripts/setup
	@touch $@

demo: $(STAMP)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

test: check
	$(BIN)/pytest -n 2 --cov --cov-report=term

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(STAMP)
	@for bench in bench/bench_*.py; do $(BIN)/python $$bench || exit 1; done

# Pins every version for make setup. Needs `uv`; names no index, so any mirror serves it.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --all-extras --no-emit-index-url \
	  --no-annotate --no-header pyproject.toml -o constraints.txt

clean:
	rm -rf $(VENV) dist .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
