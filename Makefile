# make        set up a private environment and run the main job on built-in data
# make federation   a server and four clients as processes on this machine
# make test   run the fast tests       make check   fast tests, lint, types, import directions
# make test-all   run all tests, with more examples of each law (as .ci/run does)
# make wheel-test   build the package, install and use it with the newest and the lowest versions
# make docs   build the documentation site in build/docs
# make metrics      how easily the source is read: counts, beside what we aim at
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 3

.PHONY: all demo federation test test-all wheel-test lint check readme docs metrics bench lock clean
all: demo

# The pinned requirements carry hashes, so nothing else can be installed in their place. pip comes
# first: the pip of Python 3.11 takes the newest release of name[extra] and then refuses it as unpinned.
$(BIN)/fedfb: requirements/pip.txt requirements/run.txt pyproject.toml setup.py $(wildcard src/fedfb/engine/native/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit("fedfb needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@echo "Setting up a private environment in $(VENV) (once; about a minute) ..." >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/pip.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/run.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(BIN)/fedfb requirements/dev.txt
	@echo "Adding the test tools to $(VENV) (once) ..." >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

# The default build of torch is 3 GB, so only a CPU build, where one is at hand, is added by itself.
TORCH := 2.13.0
$(VENV)/.torch: $(VENV)/.dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==$(TORCH)+cpu 2>/dev/null \
	  || echo "No CPU build of torch $(TORCH) is at hand: tests of torch models are skipped." >&2
	@touch $@

demo: $(BIN)/fedfb
	@$(BIN)/fedfb demo

# A server and four clients as processes on this machine: docs/deploy.md.
federation: $(VENV)/.dev
	@$(BIN)/python examples/federation.py

# Parts are tested with every annotated shape checked at every call, whole methods without. So is the
# theory: it takes whole numbers where it says float, which the checks would refuse.
PARTS  := tests/tables tests/data tests/doctor tests/engine tests/notions tests/parity
THEORY := src/fedfb/theory

# Whatever the shell says, compiled files are kept: tests start hundreds of commands, and each would
# compile fedfb anew.
test test-all: export PYTHONDONTWRITEBYTECODE :=

define run_tests
	FEDFB_CHECK_SHAPES=1 $(BIN)/python -m pytest -n $(JOBS) -q $(1) $(PARTS) src --ignore=$(THEORY)
	$(BIN)/python -m pytest -n $(JOBS) -q $(1) tests $(THEORY) $(PARTS:%=--ignore=%)
endef

test: $(VENV)/.torch
	$(call run_tests,-m "not slow")

test-all: export HYPOTHESIS_PROFILE := ci
test-all: $(VENV)/.torch
	$(call run_tests)

# The package as users install it, with the newest and the lowest versions of its dependencies.
wheel-test: $(BIN)/fedfb
	.ci/wheel $(BIN)/python

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

# Whatever is missing or points nowhere is an error.
docs: $(VENV)/.dev
	$(BIN)/python -m sphinx -E -W --keep-going -n -q -b html docs build/docs
	@echo "build/docs/index.html" >&2

# Tables and pictures of README and quickstart, as fedfb makes them now.
readme: $(BIN)/fedfb
	$(BIN)/python docs/write_readme.py

# Sizes, names, comments and depth of calls. `--list` of the script names the modules.
metrics: $(BIN)/fedfb
	@$(BIN)/python benchmarks/metrics.py

# CPU time against numpy, the machine's limits and other libraries: docs/performance.md.
bench: $(BIN)/fedfb benchmarks/.venv/.ready
	$(BIN)/python benchmarks/bench.py $(if $(QUICK),--quick)

benchmarks/.venv/.ready: benchmarks/requirements.txt benchmarks/constraints.txt
	@echo "Setting up what fedfb is compared with (once; 1.3 GB) ..." >&2
	@test -x benchmarks/.venv/bin/python || $(PYTHON) -m venv benchmarks/.venv
	@benchmarks/.venv/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt -c benchmarks/constraints.txt
	@touch $@

# Renew the pins (needs uv). No address of a package index is written down.
lock:
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
	  requirements/pip.in -o requirements/pip.txt
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
	  --extra all -c requirements/constraints.in requirements/build.in pyproject.toml -o requirements/run.txt
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
	  $(addprefix --extra ,all dev docs) -c requirements/constraints.in requirements/build.in pyproject.toml -o requirements/dev.txt

clean:
	rm -rf $(VENV) benchmarks/.venv build src/fedfb/engine/native/_kernel*.so src/fedfb.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
