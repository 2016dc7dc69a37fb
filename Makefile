# Everything a newcomer runs. `make quickstart` and `make test` set up all that they need.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: quickstart test test-all check bench clean

quickstart: $(READY)
	$(BIN)/mixopt recipe recipes/quickstart.yaml

test: $(READY) check
	$(BIN)/pytest -W error -n 2 -m "not slow and not stacks"

test-all: $(READY) check
	$(BIN)/pytest -W error -n 2 -m "not stacks"

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

bench: $(READY)
	$(BIN)/python benchmarks/fit_speed.py
	$(BIN)/python benchmarks/decision.py

clean:
	rm -rf $(VENV) outputs

# The stamp is made last, so an interrupted installation starts again.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] <= (3, 13) else 'mixopt needs Python 3.11 to 3.13, this is ' + sys.version.split()[0] + '; run: make PYTHON=python3.11 ...')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all,dev]'
	touch $(READY)
