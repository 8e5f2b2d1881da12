#!/bin/bash
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
#     tests/package/run.sh BUILD_DIR
#
# Installs the build into a temporary directory, builds the program beside this script against it in every way there is,
# through CMake and through pkg-config, static and shared, and runs each. The same with programs in C, which are C++ too,
# for the classic interface and for pobj. Then tries the commands, and takes everything away again.
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
  if readelf -d "$program" | grep -qE 'NEEDED.*lib(tenure|rvm|pobj)\.'; then found=shared; fi
  if [[ $found != "$linkage" ]]; then
    echo "$program is linked $found, not $linkage" >&2
    exit 1
  fi
  echo "${program##*/}: ok"
}

cmake --install "$build" --prefix "$prefix" >"$work/install.log"
for file in share/tenure/tenure-gdb.py share/man/man{1/tenure.1,3/rvm.3} \
  share/doc/tenure/{LICENSE,README.md,docs/caveats.md,examples/packages.cpp}; do
  [[ -f $prefix/$file ]] || { echo "$file is not installed" >&2; exit 1; }
done
grep -q "dynamic linker does not look into $prefix" "$work/install.log" ||
  { echo "installing does not say what programs need" >&2; exit 1; }
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

# Stores announced by the compiler, of which none goes unseen.
barriers=tenure-barriers
if "${CXX:-c++}" --version | grep -q clang; then barriers+=-clang; fi
read -ra barriers_cflags < <(pkg-config --cflags "$barriers")
read -ra barriers_libs < <(pkg-config --libs "$barriers")
"${CXX:-c++}" -std=c++20 -O2 "${cflags[@]}" "${barriers_cflags[@]}" "$here/../barriers/store_program.cpp" "${barriers_libs[@]}" \
  "${shared_libs[@]}" -o "$work/pkg_config_barriers"
for program in "$work/cmake/outside_barriers" "$work/cmake/outside_barriers_outlined" "$work/pkg_config_barriers"; do
  LD_LIBRARY_PATH=$libdir "$program" "$work/barriers" checking 100
done

# The classic interface: the same text as C and as C++, compiled with what pkg-config says and nothing else.
check shared "$work/cmake/classic_shared"
check static "$work/cmake/classic_static"
program=$here/../classic/every_name.c
read -ra classic_cflags < <(pkg-config --cflags rvm)
read -ra classic_shared_libs < <(pkg-config --libs rvm)
read -ra classic_static_libs < <(pkg-config --static --libs rvm)
for language in c c++; do
  compile=("${CC:-cc}" -std=gnu11)
  if [[ $language == c++ ]]; then compile=("${CXX:-c++}" -std=gnu++17); fi
  compile+=(-Wall -Wextra -Werror "${classic_cflags[@]}" -x "$language" "$program" -x none)
  "${compile[@]}" "${classic_shared_libs[@]}" -o "$work/classic_${language}_shared"
  "${compile[@]}" "${classic_static_libs[@]/#-lrvm/-l:librvm.a}" -o "$work/classic_${language}_static"
  check shared "$work/classic_${language}_shared"
  check static "$work/classic_${language}_static"
done
# librvm.so shows the classic names and nothing else.
if nm -D --defined-only "$libdir/librvm.so" | awk '{print $3}' | grep -vE '^(rvm_|rds_|RegionDefs$|NRegionDefs$)'; then
  echo "librvm.so exports other names" >&2
  exit 1
fi
# Neither does librvm.a, and neither wants the program's C++.
if nm -g --defined-only "$libdir/librvm.a" | awk 'NF == 3 {print $3}' | grep -vE '^(rvm_|rds_|RegionDefs$|NRegionDefs$)'; then
  echo "librvm.a shows other names" >&2
  exit 1
fi
if nm -D --undefined-only "$libdir/librvm.so" | grep -E ' U (_Zn|_Zd|_ZS|__cxa_throw)' ||
  nm --undefined-only "$libdir/librvm.a" | grep -E ' U (_Zn|_Zd|_ZS|__cxa_throw)'; then
  echo "librvm shares C++ with the program" >&2
  exit 1
fi

# The same for pobj.
check shared "$work/cmake/pobj_shared"
check static "$work/cmake/pobj_static"
program=$here/../pobj/every_call.c
read -ra pobj_cflags < <(pkg-config --cflags pobj)
read -ra pobj_shared_libs < <(pkg-config --libs pobj)
read -ra pobj_static_libs < <(pkg-config --static --libs pobj)
for language in c c++; do
  compile=("${CC:-cc}" -std=c99 -pedantic)
  if [[ $language == c++ ]]; then compile=("${CXX:-c++}" -std=c++17); fi
  compile+=(-Wall -Wextra -Werror "${pobj_cflags[@]}" -x "$language" "$program" -x none)
  "${compile[@]}" "${pobj_shared_libs[@]}" -o "$work/pobj_${language}_shared"
  "${compile[@]}" "${pobj_static_libs[@]/#-lpobj/-l:libpobj.a}" -o "$work/pobj_${language}_static"
  check shared "$work/pobj_${language}_shared"
  check static "$work/pobj_${language}_static"
done
if nm -D --defined-only "$libdir/libpobj.so" | awk '{print $3}' | grep -vE '^pobj_'; then
  echo "libpobj.so exports other names" >&2
  exit 1
fi

# Every public header stands on its own, and so do the classic ones in C.
while read -r header; do
  echo "#include <$header>" | "${CXX:-c++}" -std=c++20 -Wall -Wextra -Werror -fsyntax-only "${cflags[@]}" -x c++ -
done < <(cd "$prefix/include" && find . -name '*.hpp' -printf '%P\n' -o -name '*.h' -printf '%P\n')
for header in "$prefix"/include/{rvm,tenure}/*.h; do
  echo "#include <${header#"$prefix/include/"}>" |
    "${CC:-cc}" -std=gnu11 -Wall -Wextra -Werror -fsyntax-only "${classic_cflags[@]}" -x c -
done

# What README.md tells people to do.
readme=$(sed -n 's/^    \(c++ .*pkg-config.*\)/\1/p' "$here/../../README.md")
[[ -n $readme ]] || { echo "README.md has no line for pkg-config" >&2; exit 1; }
mkdir "$work/readme"
cp "$here/outside.cpp" "$work/readme/program.cpp"
(cd "$work/readme" && eval "$readme")
check shared "$work/readme/a.out"

[[ ! -x $prefix/bin/tenure ]] || "$here/commands.sh" "$prefix/bin"

# Nothing is left, and what belongs to others is.
touch "$prefix/include/rvm/others.h"
cmake -P "$here/../../cmake/uninstall.cmake" "$build" >"$work/uninstall.log" 2>&1 || { cat "$work/uninstall.log"; exit 1; }
left=$(cd "$prefix" && find . ! -type d -o -name 'tenure*')
if [[ $left != ./include/rvm/others.h ]]; then
  printf 'Left of the installation, or not left:\n%s\n' "$left" >&2
  exit 1
fi
