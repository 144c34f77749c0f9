# Regard's commands. Each first makes or renews .venv where it is missing or out of date.

INSTALLED := .venv/.installed
WORKERS ?= auto
# One thread a process: several workers with several threads each would fight over the cores.
# Bytecode is cached also where the environment forbids it: commands start in less time.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 .venv/bin/python -m pytest
PARALLEL := --numprocesses $(WORKERS) --maxprocesses 8
# The types of shapes are checked in `make test`.
UNCHECKED := REGARD_TEST_SHAPES=0

WITH_MESSAGES = $(shell grep -rl --include "test_*.py" "^from tests.messages" tests)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test messages e2e lint docs long check othercpus fuzz sanitize gpu gpu-wheels format clean elsewhere

help: ## list these commands
	@echo "make COMMAND, where COMMAND is"
	@sed -n 's/^\([a-z0-9-]*\):.*## /  \1	/p' Makefile | expand -t 12

demo: $(INSTALLED) ## train a small model and plot its attention
	.venv/bin/regard demo

test: $(INSTALLED) ## run the tests, all but those of whole trainings, of the docs and of benchmarks
	$(PYTEST) $(PARALLEL) --ignore tests/docs --ignore tests/e2e --ignore tests/benchmarks tests

messages: $(INSTALLED) ## rewrite the messages that tests compare; TESTS names the tests to run
	$(UNCHECKED) REGARD_MESSAGES=1 $(PYTEST) $(PARALLEL) $(or $(TESTS),$(WITH_MESSAGES))

e2e: $(INSTALLED) ## train small models completely and check what they learn
	$(UNCHECKED) $(PYTEST) $(PARALLEL) tests/e2e

lint: $(INSTALLED) ## check style, types and which module imports which
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache --no-logo

docs: $(INSTALLED) ## run every example of the docs and check the links
	$(UNCHECKED) $(PYTEST) tests/docs

# The longest test comes first, and a process that has nothing left takes another one's.
long: $(INSTALLED) ## e2e, docs and benchmarks side by side, which takes less time than one after the other
	$(UNCHECKED) $(PYTEST) $(PARALLEL) --dist worksteal tests/e2e/test_scenes.py tests/e2e tests/docs tests/benchmarks

check: lint test long ## all of these, as before a change is taken

othercpus: $(INSTALLED) ## run kernels, contracts and small trainings as on CPUs with fewer instructions
	@$(UNCHECKED) scripts/other-cpus

fuzz: $(INSTALLED) ## read mutated files by every parser, FUZZ_SECONDS (10) each, from FUZZ_SEED
	OMP_NUM_THREADS=1 .venv/bin/python -m tests.fuzz

sanitize: $(INSTALLED) ## run the kernels under the address, undefined-behaviour and thread sanitizers
	@scripts/sanitize

# A GPU host may have no network, so this needs no .venv.
gpu: ## test and measure on a GPU in eight minutes; in a small form on a CPU
	@$(UNCHECKED) $(or $(wildcard .venv/bin/python),python3) scripts/gpu $(GPU_OPTIONS)

gpu-wheels: $(INSTALLED) ## download into wheels/ what a GPU host without a network lacks
	@.venv/bin/python benchmarks/gpu/packages.py wheels $(if $(HOST),--host $(HOST))

format: $(INSTALLED) ## format the code
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

clean: ## remove .venv and the caches; runs/ stays
	rm -rf .venv build src/*.egg-info .*_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

KERNELS := setup.py $(shell find src/regard/kernels -name "*pp" -o -name "*.txt")

$(INSTALLED): pyproject.toml constraints.txt scripts/install $(KERNELS)
	@sh scripts/install

# The stamp says in which folder .venv was made; in another, it has to be made again.
ifneq ($(shell cat $(INSTALLED) 2>/dev/null),$(CURDIR))
$(INSTALLED): elsewhere
endif
