.DEFAULT_GOAL := help
.PHONY: help setup demo check test pytest coverage test-slow fuzz peers bench tables docs lint style format build tag clean

PYTHON ?= python3
VENV ?= .venv
# tested (constraints.txt), oldest (the lower bounds of pyproject.toml) or newest; give the last two a VENV of their own
DEPENDENCIES ?= tested
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
SAY := $(PYTHON) tools/heartbeat.py
# Warnings are errors with the tested versions; other combinations of libraries warn about each other.
WARNINGS := $(if $(filter tested,$(DEPENDENCIES)),,-W default)

# One thread per process: pytest runs two of them, and oversubscribed OpenMP is slower by an order of magnitude.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# Two processes, each with one half of the tests until it has none left: tests/conftest.py groups tests that share
# compiled kernels.  Bytecode is written, for the processes that tests start.
PYTEST = PYTHONDONTWRITEBYTECODE= $(ONE_THREAD) $(SAY) pytest $(BIN)/pytest -n 2 --dist worksteal

help:  ## list these targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-10s %s\n", $$1, $$2 }'

# Two environments in one folder: the dependencies of the demo, and in addition those of everything else.
DEMO := $(VENV)/.jumbot-demo
TEST := $(VENV)/.jumbot-test

$(DEMO): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "jumbot needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3 ..."; exit 1; }
	@$(PYTHON) tools/environment.py demo --venv $(VENV) --dependencies $(DEPENDENCIES)

$(TEST): $(DEMO)
	@$(PYTHON) tools/environment.py test --venv $(VENV) --dependencies $(DEPENDENCIES)

setup: $(TEST)  ## create .venv with jumbot (editable), its extras and the tools; quick when up to date
	@echo "setup: $(VENV) is up to date"

demo: $(DEMO)  ## adapt the embedded digits with three methods; a table, and demo/report.html
	$(BIN)/jumbot demo

lint: style  ## check style (ruff) and types (mypy)
	@$(SAY) mypy $(BIN)/mypy

style: $(TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(TEST)  ## put the code into the style that lint wants
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# changed files are those that differ from this commit
BASE ?= HEAD
COVERED ?= 95
check: $(TEST)  ## lint, types and the tests of what changed since BASE=HEAD: quick, for the work at hand
	$(ONE_THREAD) $(BIN)/python tools/check.py --base $(BASE)

test: style pytest  ## all that must pass before a change goes in; one of the tests runs mypy

pytest: $(TEST)  ## every test that is not slow, doctests and types included
	$(PYTEST) $(WARNINGS)

coverage: $(TEST)  ## the same tests with the share of lines that they run, which must not fall below COVERED %
	$(PYTEST) $(WARNINGS) --cov=jumbot --cov-report=
	@echo "coverage in %, at least $(COVERED):"; $(BIN)/coverage report --fail-under=$(COVERED) --format=total

test-slow: $(TEST)  ## the slow tests alone
	$(PYTEST) -m slow

# SEED is drawn and printed if not given
MINUTES ?= 10
SEED ?=
fuzz: $(TEST)  ## random problems over the whole contract for MINUTES=10, from SEED=; each failure is a line to run again
	$(ONE_THREAD) $(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

peers: $(TEST)  ## the tests of the newest POT against jumbot.compat.ot; fetches them; writes build/peers.json
	$(BIN)/python -m pip install --quiet --upgrade POT
	rm -rf build/pot && mkdir -p build
	git clone --quiet --depth 1 https://github.com/PythonOT/POT build/pot \
	    --branch $$($(BIN)/python -c 'import ot; print(ot.__version__)')
	$(ONE_THREAD) $(BIN)/python tools/peers_tests.py build/pot --json build/peers.json

bench: $(TEST)  ## time jumbot beside its peers; writes to results/
	$(BIN)/python -m benchmarks

tables: $(TEST)  ## write the tables and pictures of README and the documentation from the records in results/
	$(BIN)/python tools/tables.py

docs: $(TEST)  ## build the documentation, examples executed, into docs/_build/html
	$(SAY) docs $(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	@echo "docs: open docs/_build/html/index.html"

build: $(TEST)  ## the wheel and the source distribution into dist/, tried in a new environment
	rm -rf dist
	$(SAY) build $(BIN)/python -m build
	$(BIN)/python tools/try_build.py

tag:  ## whether TAG (vX.Y.Z) is the version of the package and has a section in CHANGELOG.md
	@$(PYTHON) tools/tag.py "$(TAG)"

clean:  ## remove what was built (not .venv)
	rm -rf build dist demo docs/_build docs/gallery .coverage .pytest_cache .mypy_cache .hypothesis
	find . -path ./$(VENV) -prune -o -type d \( -name __pycache__ -o -name .ruff_cache \) -prune -exec rm -rf {} +
