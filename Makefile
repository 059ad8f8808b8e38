# make demo: install into .venv and show the whole loop. make test: the same with the test tools, then every check.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test lint docs bench eval eval-agent fuzz check-amd clean

demo: $(VENV)/installed
	$(BIN)/rooflens demo

test: $(VENV)/tested lint
	$(BIN)/python -m pytest -q -n auto --dist worksteal

lint: $(VENV)/tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/tested
	$(BIN)/python docs/generate.py

bench: $(VENV)/tested
	$(BIN)/python -m pytest -q benchmarks --benchmark-only

# Questions with known answers and kernels with known bottlenecks, put to the tools; see eval/README.md.
eval: $(VENV)/tested
	$(BIN)/python eval/evaluate.py

# The same with a player in the loop: here a script that knows every call; for models see eval/agent/README.md.
eval-agent: $(VENV)/tested
	$(BIN)/python eval/agent/play.py questions

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "rooflens needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/tested: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[test]'
	@touch $@ $(VENV)/installed

# Spoilt profiles of every format for FUZZ_SECONDS each (60), with random seeds; see docs/fuzzing.md.
fuzz: $(VENV)/tested
	$(BIN)/python -m rooflens.tests.fuzz.run

# On a machine with an AMD GPU: doctor, check of counters, benchmarks and live tests, in one file to send.
REPORT ?= rooflens-amd.txt
check-amd: $(VENV)/tested
	$(BIN)/python -m rooflens.tests.live.first_contact $(REPORT)

clean:
	rm -rf $(VENV) build dist *.egg-info
