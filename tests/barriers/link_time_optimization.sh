#!/bin/bash
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
#     tests/barriers/link_time_optimization.sh CXX PC RUNTIME LEVEL LTO FLAGS...
#
# The constructs, optimized when they are linked: none is missed that is not otherwise. With the compiler's flags of the file PC
# before LTO, the option that asks for it, and the FLAGS that belong to it. The linker of RUNTIME's program is the compiler's.
#
#     tests/barriers/link_time_optimization.sh CXX PC
#
# Who asks for it in front of the flags does not get it, and loses no stores.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cxx=$1 pc=$2
cflags=$(sed -n 's/^Cflags: //p' "$pc")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if (($# == 2)); then
  echo 'struct two { long a[8]; }; void copy(two* to, const two* from) { *to = *from; }' >"$work/one.cpp"
  # shellcheck disable=SC2086
  "$cxx" -O2 -flto $cflags -c "$work/one.cpp" -o "$work/one.o"
  # Machine code, which calls what announces: neither bitcode nor gcc's intermediate sections.
  readelf -SW "$work/one.o" >"$work/sections"
  if grep -q gnu.lto "$work/sections" || ! nm "$work/one.o" | grep -qE ' U (memcpy|__asan_.*)$'; then
    echo "$cxx -flto $cflags: the object is left to the linker's optimization" >&2
    exit 1
  fi
  exit 0
fi

runtime=$3 level=$4
shift 4
libs=$(sed -n 's/^Libs: -L[^ ]* //p' "$pc")
for source in "$here"/*_constructs.cpp "$here"/c_constructs_in_cpp.cpp; do
  # shellcheck disable=SC2086
  "$cxx" -std=c++20 "$level" $cflags "$@" -w -fPIE "-I$here/.." -c "$source" -o "$work/$(basename "$source").o"
done
# shellcheck disable=SC2086
"$cxx" -x c -std=c11 "$level" $cflags "$@" -w -fPIE "-I$here/.." -c "$here/c_constructs.c" -o "$work/c.o"
"$cxx" -std=c++20 -O2 -w -fPIE "-I$here/.." "-I$here/../../include" -c "$here/harness.cpp" -o "$work/harness.o"
# shellcheck disable=SC2086
"$cxx" "$level" "$@" -pie "$work"/*.o "-L$(dirname "$runtime")" $libs -o "$work/constructs"
"$work/constructs"
