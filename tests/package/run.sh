#!/bin/bash
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
#     tests/package/run.sh BUILD_DIR
#
# Installs the build into a temporary directory, builds the program beside this script against it in every way there is,
# through CMake and through pkg-config, static and shared, and runs each.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

check() {  # LINKAGE PROGRAM: it works, and has the library inside or outside as it should
  local linkage=$1 program=$2 store found=static
  store=$(mktemp -d "$work/store.XXXXXX")
  LD_LIBRARY_PATH=$libdir "$program" "$store"
  if readelf -d "$program" | grep -q 'NEEDED.*libtenure'; then found=shared; fi
  if [[ $found != "$linkage" ]]; then
    echo "$program is linked $found, not $linkage" >&2
    exit 1
  fi
  echo "${program##*/}: ok"
}

cmake --install "$build" --prefix "$prefix" >"$work/install.log"
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tenure.pc)")
libdir=$(pkg-config --variable=libdir tenure)

cmake -S "$here" -B "$work/cmake" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" \
  >"$work/configure.log"
cmake --build "$work/cmake" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
check static "$work/cmake/outside_tenure"
check static "$work/cmake/outside_static"
check shared "$work/cmake/outside_shared"

compile=("${CXX:-c++}" -std=c++20 -O2 "$here/outside.cpp")
read -ra cflags < <(pkg-config --cflags tenure)
read -ra shared_libs < <(pkg-config --libs tenure)
read -ra static_libs < <(pkg-config --static --libs tenure)
"${compile[@]}" "${cflags[@]}" "${shared_libs[@]}" -o "$work/pkg_config_shared"
"${compile[@]}" "${cflags[@]}" "${static_libs[@]/#-ltenure/-l:libtenure.a}" -o "$work/pkg_config_static"
check shared "$work/pkg_config_shared"
check static "$work/pkg_config_static"

# Every public header stands on its own.
while read -r header; do
  echo "#include <$header>" | "${CXX:-c++}" -std=c++20 -Wall -Wextra -Werror -fsyntax-only "${cflags[@]}" -x c++ -
done < <(cd "$prefix/include" && find . -name '*.hpp' -printf '%P\n')

# The installed command starts.
command=$prefix/bin/tenure
if [[ -x $command ]]; then "$command" --help >/dev/null; fi
