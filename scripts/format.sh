#!/bin/bash
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
# Formats all C and C++ files of the project; with --check, says what it would change and fails if there is anything.
set -euo pipefail
cd "$(dirname "$0")/.."

how=(-i)
[[ ${1:-} == --check ]] && how=(--dry-run -Werror)
find include src tools examples bench tests \( -name '*.[ch]pp' -o -name '*.[ch]' \) -type f -print0 |
  xargs -0 -P2 -n16 clang-format "${how[@]}"
