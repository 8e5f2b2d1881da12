#!/usr/bin/env python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Looks at a program with gdb and tools/tenure-gdb.py, and compares what is shown with what must be.

    check.py PROGRAM SCRIPT

Exits with 77, the test is skipped, if there is no gdb or it may not trace a program here.
"""
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77

# (what is printed, the whole of what is shown for it; `…` is anything)
SHOWN = [
    ("e.empty", '""'),
    ("e.small", r'"a \"small\" one"'),
    ("e.large", '"one that does not fit into the string itself"'),
    ("e.numbers", "tenure::vector of length 3, capacity … = {1, 2, 3}"),
    ("e.texts", 'tenure::vector of length 2, capacity … = {"x", "y"}'),
    ("e.map", 'tenure::map with 100 elements = {["1000"] = 0, ["1001"] = 1, …, ["1099"] = 99}'),
    ("e.multimap", 'tenure::multimap with 2 elements = {[5] = "five", [5] = "again five"}'),
    ("e.set", "tenure::set with 3 elements = {[0] = 1, [1] = 2, [2] = 3}"),
    ("e.multiset", "tenure::multiset with 3 elements = {[0] = 1, [1] = 2, [2] = 2}"),
    ("e.index", "tenure::ordered_index with 1 element = {[4] = 0x0}"),
    ("e.hash_map", 'tenure::hash_map with 1 element = {[9] = "nine"}'),
    ("e.hash_set", 'tenure::hash_set with 1 element = {[0] = "only"}'),
    ("e.nothing", "tenure::map with 0 elements"),
    ("e.no_hash", "tenure::hash_map with 0 elements"),
    ("e.number", "transient = {value = 42}"),
    ("e.inner", "transient = {value = {number = 43, next = 0x0}}"),
    ("e.announced", "44"),
    ("e.announced_part", "{number = 45, next = 0x0}"),
    ("in_map", '{* = {first = "1007", second = 7}}'),
    ("at_end", "an end"),
    ("in_hash", '{* = {first = 9, second = "nine"}}'),
    ("store", 'tenure::store "…/store", open'),
    ("moved", "tenure::store, moved from"),
    ("database", 'tenure::database "main" at 0x550001000000'),
    ("tx", "tenure::transaction, ended"),
]


def main():
    program, script = sys.argv[1:]
    gdb = shutil.which("gdb")
    if gdb is None:
        print("skipped: there is no gdb")
        return SKIPPED
    commands = ["set confirm off", "set width 0", "set print elements 0", "set style enabled off", f"source {script}",
                "tenure-faults", "break look", "run", "up"]
    commands += [f"print {what}" for what, _ in SHOWN]
    commands += ["echo --stray\\n", "continue", "backtrace"]
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run([gdb, "-nx", "-batch", *(part for c in commands for part in ("-ex", c)), "--args", program,
                               f"{directory}/store"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                              check=False)
    output = done.stdout.decode(errors="replace")
    if "Python scripting is not supported" in output or re.search(r"ptrace: Operation not permitted|(Cannot|Could not) trace", output):
        print("skipped: gdb cannot look at programs here:\n" + output)
        return SKIPPED
    shown, _, stray = output.partition("--stray\n")
    values = re.findall(r"^\$\d+ = (.*)$", shown, re.M)
    wrong = []
    for n, (what, expected) in enumerate(SHOWN):
        pattern = ".*".join(re.escape(piece) for piece in expected.split("…"))
        got = values[n] if n < len(values) else "nothing"
        if not re.fullmatch(pattern, got):
            wrong.append(f"{what}: {got}\n  instead of {expected}")
    if not re.search(r"end_by_fault.*<signal handler called>.*write_where_it_may_not", stray, re.S):
        wrong.append("the stray write does not stop where it happened:\n" + stray)
    if wrong:
        print("\n".join(wrong) + "\n\n" + output)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
