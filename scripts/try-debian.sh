#!/bin/bash
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
# Tries what users do in a Debian that has nothing else, below build/debian. Needs root, debootstrap and a network.
#
#     scripts/try-debian.sh packages
#         Installs the packages of build/packages (`make package`) in the Debian that this machine has, uses them as README.md
#         says, removes them, and looks for what is left.
#     scripts/try-debian.sh source SUITE [TYPE [COMPILER]]
#         In Debian SUITE (bookworm, trixie): builds the source tree with a plain `cmake -DCMAKE_BUILD_TYPE=TYPE` (Release; None
#         for no type) by COMPILER (g++ or clang++), installs it, uses it as README.md says, and uninstalls it. TYPE make: the
#         same by `make install` and `make uninstall`.
#
# Everything takes some minutes; SUITE is fetched once.
set -euo pipefail
cd "$(dirname "$0")/.."
tree=$PWD
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
readme_line=$(sed -n 's/^    \(c++ .*pkg-config.*\)/\1/p' README.md)
root=

((EUID == 0)) || { echo "$0: needs root, for chroot" >&2; exit 1; }
trap '[[ -z $root ]] || rm -rf --one-file-system "$root"' EXIT

new_root() {  # SUITE: a fresh system in $root
  local base=$tree/build/debian/$1
  if [[ ! -d $base ]]; then
    rm -rf "$base.part"
    mkdir -p "$base.part"
    debootstrap --variant=minbase "$1" "$base.part" "$mirror" >"$base.log" || { tail -5 "$base.log"; exit 1; }
    mv "$base.part" "$base"
  fi
  root=$(mktemp -d "$tree/build/debian/try.XXXXXX")
  cp -a --reflink=auto "$base/." "$root"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  # The user who runs apt in the sandbox could not look through directories that only root may enter.
  chmod 755 "$root"
  inside "apt-get -q update"
}

# In processes and mounts of its own: nothing stays behind when it ends.
inside() {  # COMMANDS
  unshare --mount --pid --fork bash -euc '
    mount --make-rprivate /
    mount -t proc proc "$0/proc"
    exec chroot "$0" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
      DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 bash -euo pipefail -c "$1"' "$root" "$1" >"$root.log" 2>&1 ||
    { tail -40 "$root.log"; echo "=== FAILED"; exit 1; }
  mv "$root.log" "$tree/build/debian/last.log"
}

install="apt-get -q install -y --no-install-recommends"

# A program as in README.md, with what the installation brings; and the command.
use_it() {
  mkdir -p "$root/root/program"
  cp tests/package/outside.cpp "$root/root/program/program.cpp"
  cp -r tests/package tests/classic/every_name.c tests/pobj/every_call.c "$root/root/program/"
  inside "cd /root/program; $readme_line; mkdir store; ./a.out store; tenure --version; tenure log status store/bank.log
    cc -std=gnu11 every_name.c \$(pkg-config --cflags --libs rvm) -o classic; mkdir classic.store; ./classic classic.store
    cc -std=c99 every_call.c \$(pkg-config --cflags --libs pobj) -o objects; ./objects objects.store
    rm -r /root/program"
}

files_there() {  # But for what apt and dpkg note of every installation.
  (cd "$root" && find . -xdev ! -path './proc/*' ! -path './tmp/*' ! -path './var/log/*' ! -path './var/cache/*' \
    ! -path './var/lib/apt/*' ! -path './var/lib/dpkg/*-old' ! -path './run/*' | LC_ALL=C sort)
}

try_packages() {
  # shellcheck source=/dev/null
  . /etc/os-release
  local packages=("$tree"/build/packages/*.deb) before after
  [[ -e ${packages[0]} ]] || { echo "there are no packages; make package makes them" >&2; exit 1; }
  new_root "$VERSION_CODENAME"
  before=$(files_there)
  mkdir "$root/root/packages"
  cp "${packages[@]}" "$root/root/packages/"
  inside "$install /root/packages/libtenure0_*.deb /root/packages/tenure_*.deb; tenure --version; rdsinit --version
    ldconfig -p | grep libtenure.so.0; test -f /usr/share/doc/libtenure0/copyright"
  inside "$install g++ pkg-config /root/packages/libtenure-dev_*.deb"
  use_it
  inside "apt-get -q purge -y --auto-remove g++ pkg-config libtenure-dev tenure libtenure0
    rm -r /root/packages; dpkg --audit"
  after=$(files_there)
  if ! diff <(echo "$before") <(echo "$after"); then
    echo "=== the packages leave something behind, or take something away"
    exit 1
  fi
  echo "packages: installed, used and removed without a trace"
}

try_source() {  # SUITE TYPE COMPILER
  local suite=$1 type=${2:-Release} compiler=${3:-g++} package left c
  package=${compiler/clang++/clang}
  c=${compiler/clang++/clang}
  c=${c/g++/gcc}
  new_root "$suite"
  mkdir "$root/root/tenure"
  git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$root/root/tenure"
  inside "cd /root/tenure; apt-get -q install -y --no-install-recommends make g++ $package; scripts/install-dependencies.sh build"
  # From here without apt: what is there must do.
  inside "mv /usr/bin/apt-get /usr/bin/apt-get.away"
  if [[ $type == make ]]; then
    inside "cd /root/tenure; CXX=$compiler CC=$c make install"
  else
    inside "cd /root/tenure; cmake -S . -B build/plain -DCMAKE_BUILD_TYPE=${type/None/} -DCMAKE_C_COMPILER=$c \
        -DCMAKE_CXX_COMPILER=$compiler -DTENURE_BUILD_TESTS=OFF
      cmake --build build/plain -j$(nproc); cmake --install build/plain"
  fi
  grep -E 'warning:' build/debian/last.log | sort | uniq -c || true
  use_it
  if [[ $type == make ]]; then
    inside "cd /root/tenure; make uninstall"
  else
    inside "cmake -P /root/tenure/cmake/uninstall.cmake /root/tenure/build/plain"
  fi
  left=$(cd "$root/usr/local" && find . -name '*tenure*' -o -name '*rvm*' -o -name '*pobj*')
  [[ -z $left ]] || { echo "left behind: $left"; exit 1; }
  echo "source: $suite, $compiler, build type $type: built, installed, used and uninstalled"
}

case ${1:-} in
  packages) try_packages ;;
  source) shift; [[ $# -ge 1 ]] || { echo "$0: name a suite" >&2; exit 2; }; try_source "$@" ;;
  *) sed -n 's/^# \{0,1\}//; 4,15p' "$0" >&2; exit 2 ;;
esac
