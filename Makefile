# One command each; README and CONTRIBUTING say what they do.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STACK ?= gke-h100 eks-a100
# Parallel test processes. Whole runs take about 1.5 GiB each, and less than half a core: the rest
# of their time they wait for pods, nodes and the engine. The quick tests only compute.
test test-all soak: WORKERS ?= 4
# Of the run with faults: its length, and the choices of an earlier one.
soak: export SLICEWRIGHT_SOAK_MINUTES := $(or $(MINUTES),$(SLICEWRIGHT_SOAK_MINUTES),30)
soak: export SLICEWRIGHT_SOAK_SEED := $(or $(SEED),$(SLICEWRIGHT_SOAK_SEED))
unit: WORKERS ?= 3
SETUP := $(VENV)/.ready-$(shell cat requirements.lock pyproject.toml | sha256sum | cut -c1-12)

# Beside the project's packages, which its tests need: `make mutate` puts it on the path.
MUTMUT := $(VENV)/mutmut

POLICY := policy/.venv
POLICY_SETUP := $(POLICY)/.ready-$(shell cat policy/requirements.lock | sha256sum | cut -c1-12)

QUICK := not rehearsal and not toolchain and not clouds and not soak and not long
PIP_OPTIONS := --disable-pip-version-check
PACKAGES = $(shell grep -c '^[a-z].*==' requirements.lock)

.PHONY: help rehearse destroy test test-all unit soak lint bench mutate gpu-check setup toolchain
.PHONY: policy clean

rehearse: $(SETUP)  ## gke-h100 and eks-a100 from a stack file to a verified fleet and back;
## STACK=NAME for stacks/Pulumi.NAME.yaml, KEEP=1 to leave it running,
## PLUGINS=official for Pulumi's own plugins
	@$(if $(PLUGINS),SLICEWRIGHT_PLUGINS='$(PLUGINS)' )$(BIN)/slicewright rehearse \
	  $(foreach stack,$(STACK),--stack $(stack)) $(if $(filter-out 0 no,$(KEEP)),--keep)

help:  ## what there is to make; `make` alone is `make rehearse`
	@awk -F ':.*## +' '/^[a-z-]+:.*## / { printf "%-10s %s\n", $$1, $$2 } \
	  /^## / { printf "%-10s %s\n", "", substr($$0, 4) }' Makefile

destroy: $(SETUP)  ## destroys the rehearsals that KEEP=1 left running,
## and shows that their simulated clouds are empty
	@$(BIN)/slicewright rehearse destroy \
	  $(if $(filter command line,$(origin STACK)),$(foreach stack,$(STACK),--stack $(stack)))

test: lint toolchain  ## lint, and one test of each behaviour
	@$(BIN)/pytest --numprocesses $(WORKERS) --no-loadscope-reorder -m "not soak and not long"

test-all: lint toolchain  ## everything that CI checks on each push
	@$(BIN)/pytest --numprocesses $(WORKERS) --no-loadscope-reorder -m "not soak"

unit: $(SETUP)  ## the quick tests only: no cluster, no engine, no cloud over HTTP, no builds;
## property tests with a tenth of their examples
	@$(BIN)/pytest --numprocesses $(WORKERS) --no-loadscope-reorder \
	  --hypothesis-profile quick -m "$(QUICK)"

soak: toolchain  ## the tests that repeat something for minutes, such as 200 restarts, half an
## hour of faults (MINUTES=3, SEED=42), and one that builds Flux; CI runs them nightly
	@$(BIN)/pytest --numprocesses $(WORKERS) --no-loadscope-reorder -m soak

lint: $(SETUP)  ## style, types, and import contracts between packages
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m tests.language

bench: $(SETUP)  ## measures, compares within the run, and writes docs/figures.md;
## BENCHMARKS="plan agent" for some of them
	@$(BIN)/python benchmarks/figures.py $(BENCHMARKS)

mutate: $(SETUP) $(MUTMUT)/.ready  ## changes the pure packages in small ways, and lists
## the changes that no test notices (hours);
## MUTANTS="slicewright.infra.geometry.naming.*" for some, SHOW=NAME for the change itself
	@export PYTHONPATH=$(CURDIR)/$(MUTMUT); set -e; if [ -n "$(SHOW)" ]; then \
	  $(BIN)/python -m mutmut show '$(SHOW)'; exit; fi; \
	  $(BIN)/python -m mutmut run $(foreach mutant,$(MUTANTS),'$(mutant)'); \
	  $(BIN)/python -m mutmut results | sed '/: not checked$$/d'

$(MUTMUT)/.ready: tests/mutation.lock $(SETUP)
	@$(BIN)/pip install --quiet $(PIP_OPTIONS) --require-hashes --upgrade \
	  --target $(MUTMUT) -r tests/mutation.lock
	@touch $@

gpu-check: $(SETUP)  ## on a machine with an NVIDIA GPU: reads it, compares it with the fake,
## writes docs/gpu-check/
	@$(BIN)/python -m slicewright.rehearsal.cluster.gpu_check

toolchain: $(SETUP)  ## finds, downloads or builds the third-party tools of rehearsals and
## tests, once per machine (20 to 40 minutes)
	@$(BIN)/python -m slicewright.rehearsal.host.toolchain --with all

setup: $(SETUP)  ## the Python environment from requirements.lock, hashes checked

policy: $(POLICY_SETUP)  ## the policy pack's own Python environment,
## for `pulumi preview --policy-pack policy`

$(POLICY_SETUP): policy/requirements.lock
	@echo "Python environment: building $(POLICY) from policy/requirements.lock" \
	  "(under a minute, once)"
	@$(PYTHON) -m venv $(POLICY)
	@$(POLICY)/bin/pip install --quiet $(PIP_OPTIONS) --require-hashes \
	  -r policy/requirements.lock
	@touch $@

$(SETUP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "slicewright needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V)." \
	    "Set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Python environment: building $(VENV) from requirements.lock (1 to 3 minutes, once)"
	@$(PYTHON) -m venv $(VENV)
	@{ $(BIN)/pip install $(PIP_OPTIONS) --progress-bar off --require-hashes -r requirements.lock; \
	  echo $$? > $(VENV)/.pip; } | { n=0; while read -r word rest; do case $$word in \
	  Collecting) n=$$((n + 1)); [ $$((n % 20)) -ne 0 ] || \
	    echo "Python environment: $$n of about $(PACKAGES) packages downloaded";; \
	  Installing) echo "Python environment: installing $$n packages";; esac; done; }; \
	  exit $$(cat $(VENV)/.pip)
	@$(BIN)/pip install --quiet $(PIP_OPTIONS) --no-deps --no-build-isolation -e .
	@rm $(VENV)/.pip
	@touch $@

clean:  ## removes the Python environment and the files of rehearsals; refuses while one runs
	@running=$$(ls -d .rehearsal/*/processes/*.json 2>/dev/null | \
	  cut -d/ -f2 | sort -u | xargs); \
	if [ -n "$$running" ]; then \
	  echo "make clean: a rehearsal still runs, or was killed, in .rehearsal: $$running." >&2; \
	  echo "Take it down first with" >&2; \
	  echo "  make destroy" >&2; \
	  echo "or, without asking Pulumi, with" >&2; \
	  echo "  $(BIN)/slicewright rehearse stop" >&2; \
	  exit 1; \
	fi
	rm -rf $(VENV) $(POLICY) .rehearsal mutants
