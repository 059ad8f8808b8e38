# make demo: install into .venv and show answers about samples. make test: the same with the test tools, then every check.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Compiled modules are kept, also where an image says otherwise: the tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-unit test-cases test-system test-external oracle recorded record team lint docs site bench eval eval-agent fuzz check-amd dist mcpb clean

demo: $(VENV)/installed
	$(BIN)/rooflens demo

# Checks of the source and tests of shared stores run beside the other tests, because each leaves a processor idle at times.
test: $(VENV)/tested
	@mkdir -p build
	@$(BESIDE) lint team >build/beside.log 2>&1 & beside=$$!; status=0; \
	  $(PYTEST) tests/unit tests/cases tests/system tests/external --ignore tests/external/team || status=$$?; \
	  wait $$beside || status=$$?; cat build/beside.log; exit $$status
BESIDE := $(MAKE) --no-print-directory --jobs 2 --output-sync=target
PYTEST := $(BIN)/python -m pytest -q -n auto --dist worksteal

# One of the four suites of `make test`: pure functions, profiles and what is read of them, whole programs, and what needs
# compilers, a browser, PostgreSQL or a GPU.
test-unit test-cases test-system: $(VENV)/tested
	$(PYTEST) tests/$(@:test-%=%)

test-external: team
	$(PYTEST) tests/external --ignore tests/external/team

# What repeats a test of `make test` over further recorded profiles, and the tests of the programs in examples/ and eval/.
oracle: $(VENV)/tested
	$(PYTEST) tests/oracle eval/tests

# What the tools answer over the recorded profiles, against what they answered when it was recorded; `make record` after a
# change that is meant to be seen. CASES="name ..." takes some of them.
recorded: $(VENV)/tested
	$(BIN)/python -m rooflens.tests.cases.answers compare $(CASES)

record: $(VENV)/tested
	$(BIN)/python -m rooflens.tests.cases.answers record $(CASES)

# Stores that a team shares, against a PostgreSQL and an S3 server on loopback. Their extensions of DuckDB exist for one
# version of it, so these tests have an environment of their own on top of the other. Where it cannot be made they skip.
TEAM := $(VENV)/team
team: $(VENV)/tested
	@$(MAKE) --no-print-directory $(TEAM)/installed || echo "tests of shared stores are skipped: their packages cannot be installed here"
	@if [ -e $(TEAM)/installed ]; then $(TEAM)/bin/python -m pytest -q tests/external/team; fi

$(TEAM)/installed: pyproject.toml | $(VENV)/tested
	$(BIN)/python -m venv $(TEAM)
	echo "import site; site.addsitedir('$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')')" > \
	  "$$($(TEAM)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth"
	$(BIN)/python -c "import tomllib; extras = tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']; \
	  print(*extras['team'], *extras['team-test'], sep='\n')" > $(TEAM)/requirements
	$(TEAM)/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: -r $(TEAM)/requirements \
	  || { rm -rf $(TEAM); exit 1; }
	@touch $@

lint: $(VENV)/tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/tested
	$(BIN)/python docs/generate.py
	$(BIN)/python packaging/generate.py

# The documents as a site in build/site, for the browser and from disk; a broken link or anchor ends it.
site: $(VENV)/documented
	$(BIN)/python docs/generate.py --site
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky --doctree-dir build/doctrees -b html docs build/site
	@echo build/site/index.html

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

$(VENV)/documented: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[docs]'
	@touch $@

# Spoilt profiles of every format with random seeds, FUZZ_SECONDS (60) in all; see docs/reference/fuzzing.md.
FUZZ_SECONDS ?= 60
fuzz: $(VENV)/tested
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m rooflens.tests.fuzz.run

# On a machine with an AMD GPU: doctor, check of counters, benchmarks and live tests, in one file to send.
REPORT ?= rooflens-amd.txt
check-amd: $(VENV)/tested
	$(BIN)/python -m rooflens.tests.external.gpu.first_contact $(REPORT)

# The sdist and the wheel built from it in dist/, looked at as an index would; the same commit gives the same wheel.
dist: $(VENV)/tested
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*

# The bundle for hosts that install MCP servers from one file; uv takes the rest from a package index.
mcpb: dist
	$(BIN)/python packaging/bundle.py dist/*.whl dist/rooflens.mcpb

clean:
	rm -rf $(VENV) build dist *.egg-info
