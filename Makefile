# Every target prepares .venv by itself: Python >= 3.10, a C compiler and the package registry are all that it needs.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python
JOBS ?= 2

# The first interpreter that is new enough; override with `make PYTHON=...`.
CANDIDATES := python3 python3.13 python3.12 python3.11 python3.10 python
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 10))
HAS_HEADERS := import os, sys, sysconfig as s; \
  sys.exit(not os.path.exists(s.get_path("include") + "/Python.h"))
PYTHON ?= $(shell for p in $(CANDIDATES); do "$$p" -c '$(NEW_ENOUGH)' 2>/dev/null && echo "$$p" && break; done)

CORE_SOURCES := $(wildcard emunet/_core/*.pyx emunet/_core/*.pxd)

.PHONY: help demo test test-slow bench lint clean

help:
	@echo "make demo       replay a published workload over a 400G fabric, leave demo.h5"
	@echo "make test       the test suite, on the normal and on the checked build (within 10 minutes on two cores)"
	@echo "make test-slow  the rest of the tests"
	@echo "make bench      packet-hops per CPU-second, memory, instructions per packet-hop"
	@echo "make lint       ruff and mypy"
	@echo "make clean      remove the environment and everything built"

# The environment, with the tools that build emunet.
$(VENV)/.ready:
	@test -n "$(PYTHON)" || { echo "emunet needs Python 3.10 or newer; none of: $(CANDIDATES)" >&2; \
	  echo "install one, or name it: make PYTHON=/path/to/python" >&2; exit 1; }
	@"$(PYTHON)" -c '$(NEW_ENOUGH)' || { "$(PYTHON)" --version >&2; \
	  echo "emunet needs Python 3.10 or newer" >&2; exit 1; }
	@command -v "$${CC:-cc}" >/dev/null || { \
	  echo "emunet needs a C compiler (cc): apt install build-essential" >&2; exit 1; }
	@"$(PYTHON)" -c '$(HAS_HEADERS)' || { \
	  echo "emunet needs the C headers of $(PYTHON): apt install python3-dev" >&2; exit 1; }
	@test -x $(RUN) || "$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "cannot make a virtual environment: apt install python3-venv" >&2; exit 1; }
	$(RUN) -m pip install -q --upgrade pip "setuptools>=77" wheel "cython>=3.1"
	@touch $@

# emunet itself: its dependencies, and the engine in both builds; again when one of these changes.
$(VENV)/.built: $(VENV)/.ready pyproject.toml setup.py $(CORE_SOURCES)
	PYTHONWARNINGS=ignore $(RUN) -m pip install -q --no-build-isolation -e '.[dev]'
	@touch $@

demo: $(VENV)/.built
	$(BIN)/emunet run traces/demo.yaml -o demo.h5 --force

# -p no:benchmark: measurements belong to `make bench`.
PYTEST := $(RUN) -m pytest -q -p no:benchmark -n $(JOBS)

test: $(VENV)/.built
	$(PYTEST) -m "not slow"
	EMUNET_CHECKED=1 $(PYTEST) -m "checked and not slow"

test-slow: $(VENV)/.built
	$(PYTEST) -m slow || test $$? -eq 5
	EMUNET_CHECKED=1 $(PYTEST) -m "checked and slow" || test $$? -eq 5

bench: $(VENV)/.built
	$(RUN) -m bench

lint: $(VENV)/.built
	$(BIN)/ruff check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	rm -f emunet/_core/*.so emunet/_core/*.c emunet/_core/_build.py demo.h5
	find emunet tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
