#!/bin/bash
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
# Runs the stages named, or all but package (which release has), and stops at the first that fails.
#
#     scripts/test.sh [release|package|clang|asan|tsan|mutations|fuzz|lint]...
#
# Environment: TSAN_TESTS, a regular expression that chooses the tests to run with ThreadSanitizer; FUZZ_SECONDS for each
# fuzzer; TENURE_TEST_SCALE makes the tests themselves search deeper.
set -euo pipefail
cd "$(dirname "$0")/.."
all_stages=(release clang asan tsan mutations fuzz lint)

configure_and_build() {
  cmake --preset "$1"
  cmake --build --preset "$1"
}

# The sanitizers of gcc 12 do not start where the kernel scatters mappings over a larger range than they expect.
fixed_addresses() {
  if setarch --addr-no-randomize true 2>/dev/null; then
    setarch --addr-no-randomize "$@"
  else
    "$@"
  fi
}

stage_release() {
  configure_and_build release
  ctest --preset release
}

stage_package() {
  configure_and_build release
  ctest --preset release -L package
}

stage_clang() {
  configure_and_build clang
}

stage_asan() {
  configure_and_build asan
  fixed_addresses ctest --preset asan
}

stage_tsan() {
  configure_and_build tsan
  fixed_addresses ctest --preset tsan -R "${TSAN_TESTS:-.}"
}

stage_mutations() {
  tests/mutations/run.sh
}

stage_fuzz() {
  configure_and_build fuzz
  local program name corpus
  for program in build/fuzz/tests/fuzz/fuzz_*; do
    [[ -x $program ]] || continue
    name=${program##*/fuzz_}
    corpus=build/fuzz/corpus/$name  # what it finds is kept here; the corpus in the source tree is only read
    mkdir -p "$corpus"
    local seeds=()
    [[ -d tests/fuzz/corpus/$name ]] && seeds=("tests/fuzz/corpus/$name")
    "$program" -max_total_time="${FUZZ_SECONDS:-10}" -artifact_prefix="build/fuzz/$name-" -print_final_stats=1 \
      "$corpus" "${seeds[@]}"
  done
}

stage_lint() {
  scripts/format.sh --check
  scripts/check-layers.py
  cmake --preset clang >/dev/null
  echo "clang-tidy"
  if ! run-clang-tidy -quiet -p build/clang -j2 "^$PWD/(src|tools|examples)/" >build/clang-tidy.log 2>&1; then
    sed 's/\x1b\[[0-9;]*m//g' build/clang-tidy.log | grep -E '(warning|error):' | sort -u
    return 1
  fi
}

stages=("$@")
(($#)) || stages=("${all_stages[@]}")
for stage in "${stages[@]}"; do
  declare -F "stage_$stage" >/dev/null || { echo "$0: no stage named $stage" >&2; exit 2; }
done

times=()
for stage in "${stages[@]}"; do
  echo "=== $stage"
  started=$SECONDS
  # In a shell of its own, for `set -e` to hold inside: bash ignores it in a function whose failure is tested.
  status=0
  bash -euo pipefail -c "$(declare -f); stage_$stage" || status=$?
  times+=("$(printf '%-10s %4d s' "$stage" $((SECONDS - started)))")
  if ((status)); then
    printf '%s\n' "${times[@]}"
    echo "=== $stage FAILED"
    exit 1
  fi
done
printf '%s\n' "=== all stages passed" "${times[@]}"
