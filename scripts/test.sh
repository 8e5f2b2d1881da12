#!/bin/bash
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
# Runs the stages named, or those of `make test`, and stops at the first that fails.
#
#     scripts/test.sh [release|package|asan|tsan|fuzz|lint|mutations]...
#
# `make test` has neither package, which release includes, nor mutations, which test the tests and take long; lint looks
# whether each of them can still be made.
#
# Environment: TSAN_TESTS, a regular expression that chooses the tests to run with ThreadSanitizer; FUZZ_SECONDS for each
# fuzzer; TENURE_TEST_SCALE makes the tests themselves search deeper.
set -euo pipefail
cd "$(dirname "$0")/.."
usual_stages=(release asan tsan fuzz lint)
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
# One more: some of them wait for the disk.
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(($(nproc) + 1))}

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

ctest_of() {  # PRESET ARGUMENTS...
  if [[ $1 == asan || $1 == tsan ]]; then
    fixed_addresses ctest --preset "$@"
  else
    ctest --preset "$@"
  fi
}

# The expression for ctest's -E that leaves out what begins with one of these. One with more than nine groups would leave out
# nothing, without a word.
without() {
  local groups=${1//[^(]/}
  ((${#groups} < 9)) || { echo "$0: too many groups for ctest: $1" >&2; return 1; }
  echo "^($1)"
}

# What failing tests have printed is printed again at the end, where people look.
run_tests() {  # PRESET ARGUMENTS...
  local last=build/$1/Testing/Temporary
  rm -f "$last/LastTestsFailed.log"
  ctest_of "$@" && return
  [[ ! -s $last/LastTestsFailed.log ]] || scripts/show-failed-tests.py "$last"
  return 1
}

stage_release() {
  configure_and_build test
  run_tests test
}

stage_package() {
  configure_and_build test
  run_tests test -L package
}

# Not the programs: what they do is in tools_test, and the benchmarks' answers are no different here. The fuzzers run their
# corpus with the same sanitizers. Random programs of the heap with small zones only: they meet the most. What is random
# searches a tenth as deep as in release: every structure is checked after every operation here, which takes up to
# eighteen times as long. What is large, and made of what others do, is not run at all. The undefined behaviour sanitizer itself
# needs descriptors. The debug information is not that of gcc.
stage_asan() {
  cmake --preset asan
  cmake --build --preset asan --target tests_{os,rvm,classic,types,containers,heap,cache,upgrade,pobj,rewrite,tools}
  local other='dwarf\.|every_|numbered_|pobj_lines|two_processes|replay_|making_files.*descriptors|.*_NOT_BUILT$'
  other+='|all/store_random|record_model|store_crash|headed_zones|collector_model'
  other+='|quarantined\.an_object_of_several|.*does_with_a_log_that_cannot_grow|read_streams\.(reading|several)'
  other+='|reachability\.(memory_of|a_large)|crashing\.with_transactions_of_several|history\.stays|garbage_queue\.what'
  other+='|exhaustive\.with_a_t|log_damage\.left_overs|transient_memory\.beside|batch\.(gives|bound)|maps\.of_millions'
  other+='|resting_pages\.finds|reachability\.large|changing_at_every_step\.(the_types|what_(was|a_d|an))'
  other+='|small\.all/store_random\..*/(growing_runs|hot|choose|private_copies)|short_memory_of_a_store\.truncations'
  other+='|log_files_in_turn|crashing\.with_bulk|cache_making_space\.(nothing|the_last)|redo\.newest|collecting_a_store\.space'
  other=$(without "$other")
  run_tests asan -E "$other"
}

# Only what threads share: types, containers and tools have no state of their own between them, and the tests that take
# crashes and damage one after the other, random programs and large objects have a single thread; they would be most of
# the time.
stage_tsan() {
  local single='every_|numbered_|pobj_lines|two_processes|each/failing|.*crash|crashing|exhaustive|log_damage|store_damage|batch|redo|sim_disk\.'
  single+='|all/tracking_(growth|model)|(heap|pobj)_model|defects\.n(09|10|11|19)|transactions\.(agree|scattered)'
  single+='|small\.|all/store_random|record_model|destroying|transient_memory\.[^o]|files_together|page_damage|damage_model'
  single+='|each/short_memory|short_memory_of|making_files|segment_header|lock_holders|descriptors|drawn'
  single+='|bulk\.|inter\.|schema\.|interval_set\.|reachability\.|headed_zones|quarantined\.a|log_files_in_turn'
  single+='|.*does_with_a_log_that_cannot_grow|read_streams\.(reading|several|a_walk|a_stream|of_too|pages)|changing_at_every'
  single+='|same_log|backup\.that_is|pobj_(refusals|limits)|copies|ordering\.references|trim|restore|reopened|zones|typed_pages\.[^o]'
  single+='|closing|classic_(regions|transactions\.a_small)|garbage_queue|evacuating(\.[^b]|_stores)|evacuation'
  single+='|weak_references_of_a_store\.[^t]|collect_model|inner\.|inner_in_short|remains_of'
  single+='|resting_pages|cache_making_space|cache_making_model|cache_making\.an_object|cache_map\.is_found'
  single+='|old_value|killed_store|changed_containers\.need|pobj_inner\.random|prepared\.damaged'
  single=$(without "$single")
  cmake --preset tsan
  cmake --build --preset tsan --target os_test rvm_test heap_test cache_test classic_test pobj_test
  run_tests tsan -L '^(os|rvm|heap|cache|classic|pobj)$' -R "${TSAN_TESTS:-.}" -E "$single"
}

stage_mutations() {
  tests/mutations/run.sh
}

# One fuzzer. What it finds is kept in build/fuzz/corpus; the corpus in the source tree is only read.
run_fuzzer() {
  local name=${1##*/fuzz_} corpus log status=0
  corpus=build/fuzz/corpus/$name log=build/fuzz/$name.log
  mkdir -p "$corpus"
  local seeds=()
  [[ -d tests/fuzz/corpus/$name ]] && seeds=("tests/fuzz/corpus/$name")
  "$1" -max_total_time="${FUZZ_SECONDS:-10}" -artifact_prefix="build/fuzz/$name-" -print_final_stats=1 \
    "$corpus" "${seeds[@]}" >"$log" 2>&1 || status=$?
  if ((status)); then
    cat "$log"
    echo "$1: failed"
    return 1
  fi
  echo "$1: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") runs"
}

stage_fuzz() {
  cmake --preset fuzz
  cmake --build --preset fuzz --target fuzzers
  find build/fuzz/tests/fuzz -maxdepth 1 -name 'fuzz_*' -type f -executable | sort |
    xargs -P "$CMAKE_BUILD_PARALLEL_LEVEL" -I{} bash -euo pipefail -c "$(declare -f run_fuzzer); run_fuzzer {}"
}

# Of the benchmarks, which no stage builds, only that they compile.
stage_lint() {
  scripts/format.sh --check
  scripts/check-layers.py
  tests/mutations/run.sh --list >/dev/null
  cmake --preset lint >/dev/null
  echo "clang-tidy"
  scripts/tidy.py src tools examples
  scripts/tidy.py --syntax bench
}

stages=("$@")
(($#)) || stages=("${usual_stages[@]}")
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
