#!/bin/bash
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
#     tests/package/commands.sh BIN_DIR
#
# Tries the commands there as a shell has them: versions, names that are wrong, output that cannot be written, errors as JSON,
# and who has a log that is in use.
set -euo pipefail
bin=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "$*" >&2
  exit 1
}
run() {  # EXIT_CODE COMMAND...: into out and err
  local expected=$1 code=0
  shift
  "$@" >out 2>err || code=$?
  [[ $code == "$expected" ]] || fail "$* exited with $code, not $expected: $(cat out err)"
}
says() {  # FILE TEXT
  grep -qF -e "$2" "$1" || fail "not in $1: $2, but: $(cat "$1")"
}

for command in tenure rdsinit rvmutl; do
  run 0 "$bin/$command" --help
  run 0 "$bin/$command" --version
  grep -qE 'tenure [0-9]+\.[0-9]+\.[0-9]+$' out || fail "$command --version says $(cat out)"
done

# Names.
run 2 "$bin/tenure"
says err 'name a command: '
run 2 "$bin/tenure" inof directory
says err 'did you mean "info"?'
run 2 "$bin/tenure" log stauts file
says err 'did you mean "log status"?'
run 2 "$bin/tenure" info --jsn directory
says err '--jsn'
run 2 "$bin/tenure" inof --json directory
python3 -c 'import json, sys; assert "info" in json.load(sys.stdin)["error"]["message"]' <out

# A log.
echo "init_log log 1m" | "$bin/rvmutl" >/dev/null
run 0 "$bin/tenure" log status log
run 0 "$bin/tenure" log status --json log
python3 -c 'import json, sys; json.load(sys.stdin)' <out
run 2 "$bin/tenure" log status --json nothing
python3 -c 'import json, sys; e = json.load(sys.stdin)["error"]; assert "nothing" in e["message"] and e["category"]' <out
says err nothing

# A limit on the size of files is an error.
for command in tenure rvmutl; do
  code=0
  if [[ $command == tenure ]]; then
    (ulimit -f 8 && exec "$bin/tenure" backup log copy) >out 2>err || code=$?
  else
    (ulimit -f 8 && echo "init_log large 1m" | "$bin/rvmutl") >out 2>err || code=$?
  fi
  [[ $code == 1 || $code == 2 ]] || fail "$command beyond a limit exited with $code: $(cat out err)"
  grep -qF 'ulimit -f' out err || fail "$command says nothing of the limit: $(cat out err)"
done

# What cannot be copied leaves nothing.
for since in "" "--since copy"; do
  run 2 "$bin/tenure" backup nothing new $since
  [[ -z $(find . -name 'new*' -o -name 'nothing*') ]] || fail "a backup of nothing leaves $(ls)"
done

# Output that is lost is a failure, and does not go elsewhere. 7 is a pipe whose reader has gone.
mkfifo pipe
exec 8<>pipe 7>pipe 8<&-
before=$(sha256sum log)
for arguments in "log status log" "log records --json log" "--help" "--version"; do
  code=0
  # shellcheck disable=SC2086
  "$bin/tenure" $arguments >/dev/full 2>err || code=$?
  [[ $code == 1 || $code == 2 ]] || fail "tenure $arguments exits with $code when the disk is full"
  says err 'No space left on device'
  code=0
  # shellcheck disable=SC2086
  "$bin/tenure" $arguments >&- 2>err || code=$?
  [[ $code == 1 || $code == 2 ]] || fail "tenure $arguments exits with $code without standard output"
  for expected in 2 141; do  # without the signal, and with it
    code=0
    # shellcheck disable=SC2086
    (if ((expected == 2)); then trap '' PIPE; fi; "$bin/tenure" $arguments) >&7 2>err || code=$?
    [[ $code == "$expected" ]] || fail "tenure $arguments exits with $code into a pipe that nobody reads"
  done
done
[[ $(sha256sum log) == "$before" ]] || fail "output went into the log"
echo "show" | "$bin/rvmutl" log >/dev/full 2>err && fail "rvmutl does not notice that the disk is full"
says err 'No space left on device'

# A log in use: this shell has the lock, which a child took that has ended.
exec 9<log
if flock -xn 9; then
  touch seg
  run 2 "$bin/tenure" segment verify log seg
  says err 'has this log open; close it there first'
  says err '"tenure log status"'
  says err process
  run 0 "$bin/tenure" log status log
fi
echo "commands: ok"
