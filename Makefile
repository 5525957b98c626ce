# Each target does its own set-up; a fresh machine needs Python 3.11 or newer, and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
SEEDS ?= 20000

.DEFAULT_GOAL := help
ORIGINAL := benchmarks/original
CHROMIUM ?= /usr/bin/chromium
export CHROMIUM

.PHONY: help chat test proof simulate faults mutate floors bench interop catalog format clean

help: ## show this
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.chat: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[chat]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev
	@touch $@ $(VENV)/.chat

# The tests of the web page drive a real browser.
$(CHROMIUM):
	@if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	  apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	fi || true
	@[ -x $(CHROMIUM) ] || echo "no $(CHROMIUM): the browser tests will be SKIPPED"

# The fault tests make system calls fail (strace) and mount a disk of their own (fuse3).
FAULT_TOOLS := /usr/bin/strace /usr/bin/fusermount3
$(FAULT_TOOLS):
	@if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	  apt-get install -y -qq --no-install-recommends strace fuse3 >/dev/null; \
	fi || true
	@[ -x $@ ] || echo "no $@: some fault tests will be SKIPPED"

chat: $(VENV)/.chat ## talk to an agent that keeps reminders; ARGS='--session work'
	@$(BIN)/session-schedule chat $(ARGS)

test: $(VENV)/.dev | $(CHROMIUM) $(FAULT_TOOLS) ## everything that must hold: style, types, architecture, tests, coverage
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -n $(WORKERS) --cov --cov-report=term $(PYTEST_ARGS)

proof: $(VENV)/.dev ## the property tests with fifty times as many examples; takes long
	HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -n $(WORKERS) tests/core tests/adapters/doctor \
	  tests/adapters/agents tests/adapters/stores tests/adapters/test_turn_properties.py

simulate: $(VENV)/.dev ## lives on virtual clocks and a crashing disk; SEEDS=20000 ARGS='--first 4711'
	$(BIN)/python -m schedule_adapters.testing.simulation --seeds $(SEEDS) --workers $(WORKERS) $(ARGS)

faults: $(VENV)/.dev | $(FAULT_TOOLS) ## break real processes, disks and connections; ARGS='--kills 10000'
	$(BIN)/python -m tests.faults $(ARGS)

mutate: $(VENV)/.dev ## make the core wrong on purpose: the tests must notice; ARGS='owner fold'
	$(BIN)/python -m tests.mutation --jobs $(WORKERS) $(ARGS)

floors: $(VENV)/.dev ## the adapters' tests on the oldest versions they are said to work with
	$(PYTHON) -m venv $(VENV)-floors
	$(BIN)/python -m tests.floors > $(VENV)-floors/constraints.txt
	$(VENV)-floors/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-floors/bin/python -m pip install --quiet --constraint $(VENV)-floors/constraints.txt \
	  --editable '.[all]' --group test
	$(VENV)-floors/bin/pytest -n $(WORKERS) tests/adapters

bench: $(VENV)/.dev $(ORIGINAL)/node_modules ## the promised ratios, from one run
	$(BIN)/python -m benchmarks

$(ORIGINAL)/node_modules: $(ORIGINAL)/package.json
	@if command -v npm >/dev/null; then \
	  cd $(ORIGINAL) && npm install --no-package-lock --no-audit --no-fund --silent && touch node_modules; \
	else echo "npm is missing: the published original takes no part"; fi

interop: $(VENV)/.dev $(ORIGINAL)/node_modules ## our logs read by the published original, and its by us
	$(BIN)/python -m tests.interop $(SEED)

catalog: $(VENV)/.dev ## write the generated files under docs/ anew
	$(BIN)/session-schedule catalog --write docs

format: $(VENV)/.dev ## let ruff put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the virtual environment and all caches
	rm -rf $(VENV) $(VENV)-floors build .mutation_hints.json src/schedule_adapters/doctor/*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
