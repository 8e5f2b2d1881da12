#!/bin/bash
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
# Formats C and C++ files, without names all of the project; with --check, says what it would change and fails if there is
# anything.
#
#     scripts/format.sh [--check] [FILE]...
set -euo pipefail
cd "$(dirname "$0")/.."

how=(-i)
if [[ ${1:-} == --check ]]; then
  how=(--dry-run -Werror)
  shift
fi
if (($#)); then
  printf '%s\0' "$@"
else
  find include src tools examples bench tests \( -name '*.[ch]pp' -o -name '*.[ch]' \) -type f -print0
fi | xargs -0 -P"$(nproc)" -n16 clang-format "${how[@]}"
