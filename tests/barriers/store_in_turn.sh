#!/bin/bash
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
#     tests/barriers/store_in_turn.sh INLINE OUTLINED BARE
#
# One store, used in turn by one program compiled in several ways. No store of an instrumented one goes unseen. The stores of
# the bare one do, if it claims to have barriers.
set -euo pipefail
inline=$1 outlined=$2 bare=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$inline" "$work/store" checking 400
"$bare" "$work/store" none 200
"$outlined" "$work/store" checking 400
"$inline" "$work/store" announced 2000
"$bare" "$work/store" none 200
"$outlined" "$work/store" announced 1000
"$inline" "$work/store" checking 100
if "$bare" "$work/store" checking 50 >"$work/said"; then
  echo 'no store of a program without barriers is unseen' >&2
  exit 1
fi
grep -q '^unseen: ' "$work/said" || { cat "$work/said" >&2; exit 1; }
