# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
# Short names for what the scripts and CMakePresets.json do. `make help` lists them.
PREFIX ?= /usr/local
USER_BUILD := build/user

.PHONY: build
build: dependencies-build  ## build the library, the commands and the examples (default)
	@cmake --preset user
	@cmake --build --preset user

.PHONY: demo
demo: dependencies-build  ## build the library and the example, and run it; ARGS="..." for the example
	@scripts/demo.sh $(ARGS)

.PHONY: test
test: dependencies-all  ## run all the tests, with sanitizers, fuzzers and lint too; scripts/test.sh STAGE runs one stage
	@scripts/test.sh

.PHONY: check
check: dependencies-all  ## check what has changed since upstream/main, in a few minutes; scripts/check.sh COMMIT since a commit
	@scripts/check.sh

.PHONY: bench bench-quick
bench: build-bench  ## run every benchmark in full; results for machines in build/bench.jsonl
	@rm -f build/bench.jsonl
	@set -e; for program in $(USER_BUILD)/bench/bench_*; do $$program --json build/bench.jsonl; done
bench-quick: build-bench  ## run every benchmark in a short form, into build/bench-quick.jsonl
	@rm -f build/bench-quick.jsonl
	@set -e; for program in $(USER_BUILD)/bench/bench_*; do $$program --quick --json build/bench-quick.jsonl; done

.PHONY: bench-rvm
bench-rvm: build-bench  ## the RVM paper's evaluation: tables 1 and 2, figures 8 and 9; into build/bench-rvm.jsonl
	@rm -f build/bench-rvm.jsonl
	@$(USER_BUILD)/bench/bench_rvm --json build/bench-rvm.jsonl

# LAB: more arguments of bench/lab/run.py.
LAB ?=
.PHONY: lab
lab: build-bench  ## measure the exhibits of all papers, in half an hour, or with QUICK=1 in ten minutes; goes on where it was; build/lab
	@bench/lab/run.py $(if $(QUICK),--quick) $(LAB)

.PHONY: bench-compile
bench-compile: dependencies-build dependencies-bench  ## what including Tenure costs the compiler, with other systems beside
	@bench/compile/measure.py

.PHONY: build-bench
build-bench: dependencies-build dependencies-bench  ## build the benchmarks, with the other systems that are installed
	@cmake --preset bench
	@cmake --build --preset bench

.PHONY: bench-report
bench-report: dependencies-bench  ## make docs/results.md and bench/results of the last `make bench`
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

# Both build what is not built yet, and install no package: they may run as root.
.PHONY: install uninstall
install:  ## install below PREFIX (/usr/local), or DESTDIR/PREFIX
	@cmake --preset install -DCMAKE_INSTALL_PREFIX="$(PREFIX)"
	@cmake --build --preset install
	@cmake --install $(USER_BUILD)
uninstall:  ## remove what the last `make install` has installed; with the same DESTDIR
	@cmake -P cmake/uninstall.cmake $(USER_BUILD)

.PHONY: package
package: dependencies-package  ## make Debian packages, in build/packages; scripts/try-debian.sh tries them in a bare Debian
	@cmake --preset package
	@cmake --build --preset package
	@cpack --config $(USER_BUILD)/CPackConfig.cmake -B build/packages
	@rm -rf build/packages/_CPack_Packages

.PHONY: clean
clean:  ## remove all that was built
	@rm -rf build

.PHONY: help
help:  ## this list
	@sed -nE 's/^([a-z-]+)( [a-z-]+)?:.*  ## (.*)/\1\t\3/p' Makefile | expand -t 14

.PHONY: dependencies-build dependencies-package dependencies-bench dependencies-all
dependencies-build:
	@scripts/install-dependencies.sh build
dependencies-package:
	@scripts/install-dependencies.sh build package
dependencies-bench:
	@scripts/install-dependencies.sh --optional bench
dependencies-all:
	@scripts/install-dependencies.sh build test
	@scripts/install-dependencies.sh --optional bench
