# The front door. Each target installs what it needs, configures and builds by itself.
BUILD ?= build
SHELL := /bin/bash
.DEFAULT_GOAL := all
.PHONY: all deps run test conformance bench load lint asan fuzz test-vm install clean format

# Debian's python3, not whichever comes first in PATH: the test runner is a Debian package.
PYTHON := /usr/bin/python3

all: deps
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) $(MESON_ARGS)
	@meson compile -C $(BUILD)

deps:
	@tools/deps.sh build

run: all
	@tools/demo.sh $(BUILD)

test: all
	@tools/deps.sh test
	@meson test -C $(BUILD) --print-errorlogs
	@BOX_BUILD=$(abspath $(BUILD)) $(PYTHON) -m pytest -rs -q tests/integration $(PYTEST_ARGS)

# LANES="websocket schemathesis": only these.
conformance: all
	@tools/deps.sh conformance
	@tests/conformance/run.sh $(BUILD) $(LANES)

# PARTS="warm relay": only these.
bench: all
	@tools/deps.sh bench
	@$(BUILD)/tests/bench --box $(BUILD)/box $(PARTS)

# LOAD="mixed kill9": only these. LOAD_SHORT=1: as CI runs them.
load: all
	@tools/deps.sh load
	@BOX_BUILD=$(abspath $(BUILD)) $(PYTHON) tests/load/run.py $(LOAD)

lint: all
	@tools/deps.sh lint
	@tools/lint.sh $(BUILD)

asan:
	@tools/deps.sh build
	@tools/asan.sh build-asan

fuzz:
	@tools/deps.sh fuzz
	@tools/fuzz.sh build-fuzz

test-vm: all
	@tests/vm/run.sh

install: all
	@meson install -C $(BUILD)

format:
	@tools/deps.sh lint
	@git ls-files 'src/*.[ch]' 'tests/*.[ch]' 'tools/*.[ch]' | xargs clang-format -i

clean:
	rm -rf $(BUILD) build-asan build-fuzz build-clang
