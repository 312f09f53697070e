# `make` alone lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint eval eval-table lock lock-check clean

# What `make setup` chose last, else what the machine has.
DEVICE ?= $(shell cat .venv/device 2>/dev/null || (nvidia-smi -L >/dev/null 2>&1 && echo cuda || echo cpu))
# The first of these that runs and is Python 3.11; setup says so where there is none.
PYTHON ?= $(shell for p in python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null && echo $$p && break; done)
export PYTHON
# Its name holds what it was made from: while it exists there is nothing to install.
STAMP := .venv/installed-$(shell cat requirements/$(DEVICE).txt setup.cfg pyproject.toml 2>/dev/null | sha256sum | cut -c1-16)
PACKAGES := adarl eval data_prep bench

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

setup: $(STAMP)  ## make .venv with the locked packages; DEVICE=cpu|cuda forces what is else detected
$(STAMP):
	@tools/setup.sh $(DEVICE)
	@rm -f .venv/installed-* && touch $@

demo: setup  ## train the tiny model of recipes/tiny_cpu.yaml, from nothing, in minutes
	.venv/bin/adarl train recipes/tiny_cpu.yaml

test: setup  ## run the tests; ARGS='-m slow' runs those that are left out
	.venv/bin/python -m pytest $(ARGS)

lint: setup  ## check style and types
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy $(PACKAGES)

# Settings of `make eval` as options of eval.run; anything else goes into ARGS.
EVAL_OPTIONS = $(if $(BENCHMARKS),--benchmarks $(BENCHMARKS)) $(if $(K),--k $(K)) $(if $(DATA_DIR),--data-dir $(DATA_DIR)) \
	$(if $(LIMIT),--limit $(LIMIT)) $(if $(OUT),--out $(OUT)) $(ARGS)

eval: setup  ## evaluate MODEL=... [BENCHMARKS=a,b] [K=32] [DATA_DIR=...] [LIMIT=...] [OUT=...] [ARGS=...]
	.venv/bin/python -m eval.run $(MODEL) $(EVAL_OPTIONS)

eval-table: setup  ## print the paper's Table 1 beside what was evaluated, of [RESULTS=...] or below runs/
	.venv/bin/python -m eval.table $(RESULTS)

lock:  ## resolve setup.cfg into requirements/*.txt; delete one first to take newer versions
	@tools/lock.sh

lock-check: setup  ## let pip resolve the CUDA lock without installing it
	@sed 's/ *--hash=[^ ]*//; s/ *\\$$//' requirements/cuda.txt > .venv/cuda-pins.txt
	.venv/bin/pip install -qq --dry-run --ignore-installed -r .venv/cuda-pins.txt
	@echo "requirements/cuda.txt: pip agrees with all $$(grep -c == .venv/cuda-pins.txt) pins"

clean:  ## remove .venv and caches; runs/ stays
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
