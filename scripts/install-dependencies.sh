#!/bin/bash
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian 12 packages that are missing. Silent if there are none.
#
#     scripts/install-dependencies.sh [build] [test] [bench]      without arguments: all three
#
# build: the library, its command and the examples. test: what `make test` needs besides. bench: the systems that the
# benchmarks measure, all optional, and what draws their plots.
set -euo pipefail

build=(cmake ninja-build g++ pkg-config libisal-dev libzstd-dev libfmt-dev libcli11-dev nlohmann-json3-dev)
test=(libgtest-dev libdw-dev gdb valgrind python3 clang clang-format clang-tidy libclang-rt-14-dev libgc-dev)
bench=(liblmdb-dev libsqlite3-dev librocksdb-dev libwiredtiger-dev libpmemobj-dev libboost-dev python3-matplotlib)

(($#)) || set -- build test bench
wanted=()
for group in "$@"; do
  case $group in
    build) wanted+=("${build[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    bench) wanted+=("${bench[@]}") ;;
    *) echo "$0: no group named $group: build, test or bench" >&2; exit 2 ;;
  esac
done

# Without dpkg, packages have other names: let CMake say what it misses.
command -v dpkg-query >/dev/null || exit 0

# dpkg-query fails when it does not know one of the packages; those it prints are enough.
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null | sed -n 's/^installed //p') || true
missing=()
for package in "${wanted[@]}"; do
  grep -qxF -e "$package" <<<"$installed" || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  if ! sudo -n true 2>/dev/null; then
    printf 'Missing packages. Install them with:\n\n    sudo apt-get install --no-install-recommends %s\n\n' "${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo -n)
fi
echo "Installing ${missing[*]}"
# Waits for other users of the package database instead of failing.
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600)
"${apt[@]}" update
"${apt[@]}" install -y --no-install-recommends "${missing[@]}"
