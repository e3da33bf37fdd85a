# Two commands on a fresh clone: `make demo` and `make test`. Both create the environment in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OLDEST := .venv-oldest
# The build of PyTorch, for the CPU or with CUDA, is that of your package index; torch.lock has those of PyPI, with hashes:
# make test TORCH='--require-hashes --requirement torch.lock'
TORCH ?= --constraint constraints.txt torch

.PHONY: demo test test-mathematics test-long test-oldest lint bench docs lock clean

demo: $(STAMP)
	$(BIN)/usfa reproduce trip --out runs/demo --overwrite
	$(BIN)/usfa evaluate room --task room-hard --candidates train --episodes 5

# A file at a time to each core: fixtures of a file are made once; in order, because files of one long test would come
# last (tests/conftest.py has those that come first). Processes that tests start find our modules compiled, also where
# bytecode is not written otherwise: that saves each of them half a second. Coverage is asked of the mathematics only,
# and its own tests have to reach it: tracing all others as well would cost a tenth of the time. Type checking has one
# process, so it shares the cores with the mathematics.
PARALLEL := --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder -m "not long"
MATHEMATICS := tests/functional tests/decisions
test test-mathematics: export PYTHONDONTWRITEBYTECODE =
test: $(STAMP)
	$(MAKE) --jobs 2 lint test-mathematics
	$(BIN)/pytest $(PARALLEL) $(MATHEMATICS:%=--ignore=%)

test-mathematics: $(STAMP)
	$(BIN)/pytest -m "not long" $(MATHEMATICS) --cov --cov-report=term-missing

# Tests that would make the others wait: learning and chaos on a cluster, learning in fruit-tree, of a UVFA in the room and
# of tasks that like time, compiled code with checked indices, the fuzzer, and kills at random moments.
test-long: $(STAMP)
	$(BIN)/pytest -m long
	$(BIN)/python tests/robustness/fuzz.py --corruptions 2000
	$(BIN)/python tests/robustness/kills.py --kills 200

# Environments on the oldest Gymnasium that pyproject.toml allows. MO-Gymnasium wants a newer one, so its tests are skipped.
test-oldest: $(OLDEST)/.installed
	$(OLDEST)/bin/pytest tests/environments tests/learning/test_rollout.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

docs: $(STAMP)
	$(BIN)/sphinx-build --fail-on-warning --quiet docs docs/_build

# Both files of hashes, for all platforms and versions of Python, from pyproject.toml and constraints.txt; needs uv.
# What PyTorch needs on Linux only is CUDA, and only in torch.lock.
COMPILE := uv pip compile --quiet --universal --python-version 3.11.5 --constraints constraints.txt --generate-hashes \
	--no-annotate --custom-compile-command 'make lock'
lock:
	echo torch | $(COMPILE) --output-file torch.lock -
	printf 'hatchling\neditables\n' | $(COMPILE) --output-file requirements.lock --extra dev --no-emit-package torch \
		$$(sed -n "s/^\([a-z0-9-]*\)==.*sys_platform == 'linux'.*/--no-emit-package \1/p" torch.lock) pyproject.toml -

clean:
	rm -rf $(VENV) $(OLDEST) runs docs/_build

$(STAMP): pyproject.toml constraints.txt requirements.lock
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "usfa needs Python 3.11 to 3.13")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --no-deps --requirement requirements.lock
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/pip check
	touch $(STAMP)

$(OLDEST)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(OLDEST)
	grep -v '^gymnasium==\|^mo-gymnasium==' constraints.txt > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/pip install --quiet --constraint $(OLDEST)/constraints.txt torch
	$(OLDEST)/bin/pip install --quiet --constraint $(OLDEST)/constraints.txt --editable . \
		gymnasium==1.0.0 hypothesis imageio imageio-ffmpeg pytest pytest-cov pytest-timeout
	touch $(OLDEST)/.installed
