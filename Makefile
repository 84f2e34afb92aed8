# Two commands matter: `make demo` and `make test`. Both set up what they need.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.ready
# Tests in parallel: one process a core, at least two (most of a Slurm test is waiting).
JOBS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); [ $$n -lt 3 ] && echo 3 || echo $$n)

.PHONY: demo pictures bundle test lint slurm slurm-24 bench clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

$(STAMP): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "Python 3.10 or newer is needed (PYTHON=... names another)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

setup: $(STAMP) ## the virtual environment with everything tests need

slurm: ## the Slurm 26.05 root directory that tests and the demo use (cached outside the checkout)
	@$(PYTHON) tests/slurm/slurm_root.py forky

slurm-24: ## the same for Slurm 24.11
	@$(PYTHON) tests/slurm/slurm_root.py trixie

demo: $(STAMP) ## a simulated cluster's life on a real slurmctld
	@bin=$$($(PYTHON) tests/slurm/slurm_root.py forky) || bin=; \
	$(RUN) -m topology_plugin demo $${bin:+--slurm-bin "$$bin"} $(DEMO)

pictures: $(STAMP) ## the README's pictures, made from the demo (needs Slurm and Chromium)
	@bin=$$($(PYTHON) tests/slurm/slurm_root.py forky) && $(RUN) -m docs.pictures --slurm-bin "$$bin"

bundle: $(STAMP) ## what is uploaded to S3: dist/lifecycle_scripts and the same as one file
	@$(RUN) lifecycle_scripts/build_bundle.py

lint: $(STAMP) ## style and types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

test: $(STAMP) lint ## everything: style, types, all tests
	@if [ "$$(id -u)" = 0 ]; then for r in forky trixie; do $(PYTHON) tests/slurm/slurm_root.py $$r >/dev/null || \
	  [ -z "$(REQUIRE_SLURM)" ] || exit 1; done; fi
	$(RUN) -m pytest -q -n $(JOBS) --dist worksteal $(TESTS)

soak: $(STAMP) ## random lives on a real slurmctld for longer (SOAK_SEQUENCES, SOAK_EVENTS, SOAK_SEED), with a summary
	SOAK_SEQUENCES=$${SOAK_SEQUENCES:-400} SOAK_EVENTS=$${SOAK_EVENTS:-10} SOAK_SEED=$${SOAK_SEED:-$$(date +%s)} \
	  $(RUN) -m pytest -q -n $(JOBS) -rP tests/slurm/test_life.py

bench-placement: $(STAMP) ## where jobs land under flat, tree and block sizes: a trace on real slurmctlds (10 minutes)
	@$(RUN) -m benchmarks.placement $(BENCH)

bench: $(STAMP) ## what everything costs at 16,384 nodes, against its bound (BENCH="--nodes 4096" for less)
	$(RUN) -m benchmarks.bench $(BENCH)

clean: ## what was built here
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
