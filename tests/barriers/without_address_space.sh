#!/bin/bash
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
#     tests/barriers/without_address_space.sh INLINE OUTLINED
#
# Where address space is limited, a program of the inline form says what to do and ends, before it has done anything; one of
# the outlined form works.
set -euo pipefail
inline=$1 outlined=$2
ulimit -v 4000000
status=0
said=$("$inline" 2>&1) || status=$?
if [[ $status != 127 || $said != *tenure::barriers_outlined* || $said == *constructs* ]]; then
  printf 'The inline form ended with %s and said:\n%s\n' "$status" "$said" >&2
  exit 1
fi
"$outlined"
