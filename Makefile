# Everything a new machine needs, with only Python and make on it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help setup demo lint test test-slow bench docs clean
help:
	@echo "make test    set up $(VENV), then run every test"
	@echo "make test-slow  train every classifier on the built-in shapes: about an hour on two cores"
	@echo "make demo    five minutes: train, turn the test data, see which model cares; runs/demo/report.html"
	@echo "make lint    ruff, pyrefly and the import contracts"
	@echo "make bench   speed, memory, exactness and data throughput, beside others, as tables"
	@echo "make docs    the documentation site, build/site/index.html; needs no network"
	@echo "make clean   remove $(VENV) and all caches"

setup: $(READY)
# torch first and pinned, so that nothing that follows replaces the build by another one.
$(READY): pyproject.toml constraints.txt src/vnt/version.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)
	$(BIN)/vnt demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check
	$(BIN)/lint-imports

# Twice: shapes in signatures are checked by jaxtyping + beartype, whose import hook torch.compile cannot trace, and
# which answers wrong input before we can.
UNHOOKED := tests/compiled tests/export tests/errors tests/data tests/cli tests/docs tests/training tests/equivariance tests/reproduction tests/slow tests/view
# And the GPU's kernels a third time, by Triton's interpreter, which must be chosen before Triton is first imported.
NOT_THERE := --ignore=src/vnt/data --ignore=src/vnt/kernels --ignore=tests/kernels
# Two tests at a time on one thread each, and so are the programs that they start.
test: export OMP_NUM_THREADS := 1
test: $(READY)
	$(BIN)/pytest -n 2 --jaxtyping-packages=vnt,beartype.beartype $(addprefix --ignore=,$(UNHOOKED)) $(NOT_THERE)
	$(BIN)/pytest -n 2 $(UNHOOKED) src/vnt/data
	TRITON_INTERPRET=1 $(BIN)/pytest tests/kernels

test-slow: $(READY)
	$(BIN)/pytest -m slow tests/slow

bench: $(READY)
	$(BIN)/vnt bench all

docs: $(READY)
	$(BIN)/python -m zensical build --strict

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist
	find . -name __pycache__ -prune -exec rm -rf {} +
