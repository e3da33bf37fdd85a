# Two commands on a fresh clone: `make demo` and `make test`. Both create the environment in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint bench docs clean

demo: $(STAMP)
	$(BIN)/usfa reproduce trip --out runs/demo --overwrite
	$(BIN)/usfa evaluate room --task room-hard --candidates train --episodes 5

test: lint
	$(BIN)/pytest --cov --cov-report=term-missing

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

docs: $(STAMP)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	$(BIN)/sphinx-build --fail-on-warning --quiet docs docs/_build

clean:
	rm -rf $(VENV) runs docs/_build

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "usfa needs Python 3.11 to 3.13")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)
