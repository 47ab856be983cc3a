# Everything a developer types. `make up` needs Python 3.11 or newer, git and make; nothing else.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
# The first Python on PATH that is new enough; asked for only when a venv is to be made.
PYTHON = $(firstword $(foreach one,python3 python3.13 python3.12 python3.11 python,$(if $(shell $(one) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo yes),$(one))))

# The tests start Coffer many hundred times: it is compiled once, also where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help venv dev compiled up down test verify bench demo hold test-agents

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

venv: $(VENV)/installed ## make .venv with the commands coffer, coffer-hook and coffer-mcp-shim
	@:

up: venv ## install, start the daemon, and show two agents sharing one memory
	@$(BIN)/coffer up
	@$(BIN)/coffer demo

down: venv ## stop the daemon
	@$(BIN)/coffer down

demo: venv ## two agents share one memory, in a temporary home and repository
	@$(BIN)/coffer demo

test: compiled ## run the tests
	@$(BIN)/python -m pytest -q -n 4

verify: dev ## format, lint, types, import contracts, documentation and tests
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@COFFER_HOME="$(CURDIR)/$(VENV)/home" $(BIN)/mypy
	@$(BIN)/lint-imports
	@$(MAKE) --no-print-directory test

bench: venv ## measure against the bars of the documentation
	@$(BIN)/coffer bench

hold: compiled ## the long tests, at full length: many rounds of crashes and races
	@COFFER_TEST_ROUNDS=full $(BIN)/python -m pytest -q -m hold || { code=$$?; [ $$code -eq 5 ] && echo "hold: skipped, there are no such tests yet"; }

test-agents: dev ## the tests with the agents' real programs, from npm
	@$(BIN)/python -m pytest -q tests/real_agents

dev: $(VENV)/installed-dev

compiled: dev
	@$(BIN)/python -m compileall -q coffer memory transcripts agents gateway tests manage.py

$(VENV)/installed: pyproject.toml
	@[ -n "$(PYTHON)" ] || { echo "Coffer needs Python 3.11 or newer on PATH; there is none." >&2; exit 1; }
	@$(BIN)/python -c "" 2>/dev/null || $(PYTHON) -m venv --clear $(VENV) || \
	{ echo "$(PYTHON) cannot make a venv; on Debian: apt install python3-venv" >&2; exit 1; }
	@echo "Installing Coffer into $(VENV); this takes a minute the first time."
	@$(PIP) install --upgrade "pip>=25.1"
	@$(PIP) install --editable .
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	@$(PIP) install --group dev
	@touch $@
