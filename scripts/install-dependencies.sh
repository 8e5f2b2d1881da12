#!/bin/bash
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian packages that are missing. Silent if there are none.
#
#     scripts/install-dependencies.sh [--optional] [build] [package] [test] [bench]      without groups: all
#
# build: the library, its command and the examples. package: what makes Debian packages of them. test: what `make test` needs
# besides. bench: the systems that the benchmarks measure, and what draws their plots. --optional: each package that cannot be
# installed is named, and is no failure.
set -euo pipefail

build=(cmake ninja-build g++ pkg-config libisal-dev libzstd-dev libfmt-dev libcli11-dev nlohmann-json3-dev)
package=(dpkg-dev)
test=(ccache libgtest-dev libdw-dev gdb valgrind python3 clang clang-format clang-tidy libclang-rt-14-dev libgc-dev postgresql)
bench=(valgrind libgc-dev liblmdb-dev libsqlite3-dev librocksdb-dev libwiredtiger-dev libpmemobj-dev libboost-dev python3-matplotlib)

optional=
if [[ ${1:-} == --optional ]]; then
  optional=yes
  shift
fi
(($#)) || set -- build package test bench
wanted=()
for group in "$@"; do
  case $group in
    build) wanted+=("${build[@]}") ;;
    package) wanted+=("${package[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    bench) wanted+=("${bench[@]}") ;;
    *) echo "$0: no group named $group: build, package, test or bench" >&2; exit 2 ;;
  esac
done

# Without dpkg, packages have other names: let CMake say what it misses.
command -v dpkg-query >/dev/null || exit 0

# dpkg-query fails when it does not know one of the packages; those it prints are enough. Boost's headers are in a package
# named after their version: another one than Debian's usual is in the way of libboost-dev.
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 'libboost*-dev' 2>/dev/null |
  sed -nE 's/^installed //; T; s/^libboost[0-9.]+-dev$/libboost-dev/; p') || true
missing=()
for package in "${wanted[@]}"; do
  grep -qxF -e "$package" <<<"$installed" || missing+=("$package")
done
((${#missing[@]})) || exit 0

give_up() {  # WHY
  if [[ -n $optional ]]; then
    echo "Without ${missing[*]}: $1" >&2
    exit 0
  fi
  printf '%s. Install the missing packages with:\n\n    sudo apt-get install --no-install-recommends %s\n\n' "$1" \
    "${missing[*]}" >&2
  exit 1
}

as_root=()
if ((EUID != 0)); then
  sudo -n true 2>/dev/null || give_up "only root may install packages"
  as_root=(sudo -n)
fi
echo "Installing ${missing[*]}"
# Waits for other users of the package database instead of failing.
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600)
"${apt[@]}" update || [[ -n $optional ]]
if [[ -z $optional ]]; then
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
  exit
fi
# One by one: what one of them lacks, or is in conflict with, does not keep the others away. Nothing is removed for them.
for package in "${missing[@]}"; do
  "${apt[@]}" install -y --no-install-recommends --no-remove "$package" ||
    echo "Without $package: it could not be installed" >&2
done
