#!/bin/bash
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
# Checks what has changed, in a few minutes: format, layers, documentation, clang-tidy of the changed sources, the tests of the
# layers that changed, and that the benchmarks compile if they or public headers changed. `make test` is for the rest.
#
#     scripts/check.sh [COMMIT]
#
# What has changed is the working tree against COMMIT; without one, against the last commit that it shares with upstream/main,
# or with origin/main or main where there is none.
#
# Environment: TENURE_TEST_SCALE is 0.2 unless it is set: random tests search less than they do in `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
export TENURE_TEST_SCALE=${TENURE_TEST_SCALE:-0.2}

# Which tests a changed file asks for: directories below tests/, without the rest of a path whose every file asks for the same. A
# layer is tested with those that stand on it. What has no line asks for all tests.
all_tests="os rvm classic types containers heap upgrade pobj tools formats benchmarks fuzz docs barriers"
tests_of() {  # PATH
  case $1 in
    src/*/format.hpp | docs/formats.md) echo "$all_tests" ;;
    src/os/*) echo os rvm classic heap pobj tools fuzz ;;
    src/log/* | src/segments/* | src/records/* | src/replay/* | src/regions/* | src/transactions/* | src/rvm/* | src/recoverable_heap/*)
      echo rvm classic heap upgrade pobj tools fuzz barriers ;;
    src/classic/*) echo classic tools ;;
    src/types/*) echo types containers heap upgrade benchmarks ;;
    src/objects/* | src/store/*) echo heap containers upgrade tools fuzz ;;
    src/upgrade/* | tests/fixtures/*) echo upgrade pobj ;;
    src/pobj/*) echo pobj ;;
    src/barriers/*) echo barriers ;;
    include/*) tests_of "src/$(scripts/check-layers.py --layer-of "$1")/" ;;
    tools/*) echo tools docs ;;
    bench/*) echo benchmarks ;;
    examples/* | docs/guide-* | scripts/check-transcripts.py) echo docs ;;
    tests/heap_models/*) echo heap ;;
    tests/sim/* | tests/support/* | tests/precompiled.hpp | CMakeLists.txt | tests/CMakeLists.txt) echo "$all_tests" ;;
    tests/debugger/*) echo tools ;;
    tests/package/* | tests/mutations/*) ;;
    tests/*/*) cut -d/ -f2 <<<"$1" ;;
    docs/* | *.md | scripts/* | cmake/* | .*) ;;
    *) echo "$all_tests" ;;
  esac
}

shared_commit() {
  local branch
  for branch in upstream/main origin/main main; do
    git merge-base HEAD "$branch" 2>/dev/null && return
  done
  echo "$0: there is no upstream/main, origin/main or main; name a commit" >&2
  return 2
}

base=${1:-$(shared_commit)}
mapfile -t changed < <({ git diff --name-only "$base" --; git ls-files --others --exclude-standard; } | sort -u)
((${#changed[@]})) || { echo "nothing has changed since $base"; exit 0; }

sources=() tests="" with_benchmarks=
for path in "${changed[@]}"; do
  tests+=" $(tests_of "$path")"
  [[ $path == @(bench|include)/* ]] && with_benchmarks=yes
  [[ -f $path && $path == *.@(c|h|cpp|hpp) ]] && sources+=("$path")
done
read -ra tests < <(tr ' ' '\n' <<<"$tests" | sort -u | xargs)
echo "${#changed[@]} files changed since $(git rev-parse --short "$base"); tests: ${tests[*]:-none}"

# What clang-tidy looks at: a changed source; for a changed header, the source of the same name or else the first that includes it.
tidied() {
  local path name
  for path in "${sources[@]}"; do
    case $path in
      tests/* | bench/*) ;;  # they are compiled
      *.cpp) echo "$path" ;;
      *.hpp)
        name=${path##*/}
        { git ls-files "src/*/${name%.hpp}.cpp" "tools/${name%.hpp}.cpp"
          git grep -l -E "#include [\"<]([a-z_]+/)*$name[\">]" -- 'src/*.cpp' 'tools/*.cpp' 'examples/*.cpp'; } | sed -n 1p ;;
    esac
  done | sort -u
}

step() {  # NAME COMMAND...
  local name=$1 started=$SECONDS
  shift
  echo "--- $name"
  "$@" || { echo "--- $name FAILED"; exit 1; }
  times+=("$(printf '%4d s  %s' $((SECONDS - started)) "$name")")
}

lint_changed() {
  local files
  mapfile -t files < <(tidied)
  ((${#files[@]})) || return 0
  cmake --preset lint >build/lint.log || { cat build/lint.log; return 1; }
  scripts/tidy.py "${files[@]}"
}

build_all() {
  local targets=("${tests[@]/#/tests_}")
  [[ -z $with_benchmarks ]] || targets+=(benchmarks)
  ((${#targets[@]})) || return 0
  cmake --preset release >build/release.log || { cat build/release.log; return 1; }
  cmake --build --preset release --target "${targets[@]}"
}

run_tests() {
  ctest --preset release -j"$(nproc)" -L "^($(IFS='|'; echo "${tests[*]}"))\$"
}

mkdir -p build
times=()
((!${#sources[@]})) || step format scripts/format.sh --check "${sources[@]}"
step layers scripts/check-layers.py
step documentation scripts/check-docs.py
step clang-tidy lint_changed
step build build_all
((!${#tests[@]})) || step tests run_tests
printf '%s\n' "=== all is well, as far as this looks" "${times[@]}"
