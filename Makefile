# Two commands: `make bench` measures the ladder on the bundled Cora, `make test` runs the tests.
# Each sets up .venv at its first call, and needs no network afterwards.

PYTHON ?= python3
VENV ?= .venv
# The exact versions; `make CONSTRAINTS= bench` takes what pyproject.toml allows, such as a CUDA build of torch.
CONSTRAINTS ?= constraints.txt
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: bench test check shown clean help

help:
	@echo "make bench   measure the tutorial's ladder on the bundled Cora (two to three minutes)"
	@echo "make test    run the tests"
	@echo "make check   ruff and pyright"
	@echo "make shown   the long demonstrations; their last output is in benchmarks/results"

bench: $(STAMP)
	$(BIN)/fasthop bench

test: $(STAMP)
	$(BIN)/python -m pytest

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

shown: $(STAMP)
	PYTHON=$(abspath $(BIN)/python) bash benchmarks/shown.sh

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "fasthop needs Python 3.11 or newer; name one: make PYTHON=python3.12 bench"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build .pytest_cache .ruff_cache .hypothesis
