#!/bin/bash
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
#     tests/barriers/rvm_in_turn.sh INLINE OUTLINED BARE
#
# One recoverable memory, used in turn by one C program compiled in several ways, which declares nothing itself. Without
# barriers its stores are lost.
set -euo pipefail
inline=$1 outlined=$2 bare=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$inline" "$work" 300
"$outlined" "$work" 300
"$inline" "$work" 0
"$outlined" "$work" 50
"$inline" "$work" 50
if "$bare" "$work" 50 >"$work/said"; then
  echo 'no store of a program without barriers is lost' >&2
  exit 1
fi
grep -q '^failed: an abort' "$work/said" || { cat "$work/said" >&2; exit 1; }
