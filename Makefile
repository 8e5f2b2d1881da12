# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
# Short names for what the scripts and CMakePresets.json do. `make help` lists them.
PREFIX ?= /usr/local
RELEASE := build/release

.PHONY: build
build: dependencies-build  ## build everything that is installed here for (default)
	@cmake --preset release
	@cmake --build --preset release

.PHONY: demo
demo: dependencies-build  ## build the library and the example, and run it; ARGS="..." for the example
	@scripts/demo.sh $(ARGS)

.PHONY: test
test: dependencies-all  ## run all the tests, with sanitizers, fuzzers and lint too; scripts/test.sh STAGE runs one stage
	@scripts/test.sh

.PHONY: bench bench-quick
bench: dependencies-bench build  ## run every benchmark in full; results for machines in build/bench.jsonl
	@rm -f build/bench.jsonl
	@set -e; for program in $(RELEASE)/bench/bench_*; do $$program --json build/bench.jsonl; done
bench-quick: dependencies-bench build  ## run every benchmark in a short form, into build/bench-quick.jsonl
	@rm -f build/bench-quick.jsonl
	@set -e; for program in $(RELEASE)/bench/bench_*; do $$program --quick --json build/bench-quick.jsonl; done

.PHONY: bench-rvm
bench-rvm: dependencies-bench build  ## the RVM paper's evaluation: tables 1 and 2, figures 8 and 9; into build/bench-rvm.jsonl
	@rm -f build/bench-rvm.jsonl
	@$(RELEASE)/bench/bench_rvm --json build/bench-rvm.jsonl

.PHONY: bench-report
bench-report: dependencies-bench  ## make docs/results.md and its plots of the last `make bench`
	@bench/report.py build/bench.jsonl

.PHONY: format
format:  ## format all sources
	@scripts/format.sh

.PHONY: lint
lint:  ## check format, layers and clang-tidy's rules
	@scripts/test.sh lint

.PHONY: docs
docs:  ## check the links, the tags and the code of the documentation
	@scripts/check-docs.py

.PHONY: install
install: build  ## install below PREFIX (/usr/local), or DESTDIR/PREFIX
	@cmake --install $(RELEASE) --prefix $(PREFIX)

.PHONY: clean
clean:  ## remove all that was built
	@rm -rf build

.PHONY: help
help:  ## this list
	@sed -nE 's/^([a-z-]+)( [a-z-]+)?:.*  ## (.*)/\1\t\3/p' Makefile | expand -t 14

.PHONY: dependencies-build dependencies-bench dependencies-all
dependencies-build:
	@scripts/install-dependencies.sh build
dependencies-bench:
	@scripts/install-dependencies.sh build bench
dependencies-all:
	@scripts/install-dependencies.sh build test bench
