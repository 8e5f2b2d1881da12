#!/bin/sh
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
# Usage: keys.sh KEYS_1 KEYS_2 TENURE DIRECTORY. Of each container with changed keys the program and `tenure schema check` say the
# same, and what the list says.
set -u
rm -rf "$4" && mkdir -p "$4" || exit 1
"$2" schema - - > "$4/schema" || exit 1
failed=0
"$2" list > "$4/list"
while read -r container refused; do
  store=$4/$container
  "$1" make "$container" "$store" || { echo "$container cannot be made"; exit 1; }
  "$3" schema check "$store" "$4/schema" > "$store.said" 2>&1
  checked=$?
  "$2" check "$container" "$store" > "$store.opened" 2>&1
  opened=$?
  if [ "$checked" -ne "$refused" ] || [ "$opened" -ne "$refused" ]; then
    echo "$container: 'schema check' ends with $checked, opening with $opened, and not with $refused"
    cat "$store.said" "$store.opened"
    failed=1
  fi
done < "$4/list"
exit $failed
