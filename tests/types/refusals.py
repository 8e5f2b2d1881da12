#!/usr/bin/env python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""refusals.py COMPILER FLAG... refusals.cpp: compiles the file once for each of its cases, and checks that the first
error says what the case says in its comment. Two at a time. What the file includes is compiled once, in front: it would take
most of the time."""
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

CASE = re.compile(r"defined\(CASE_(\w+)\) +// (.*)")


def compile_case(command, name):
    result = subprocess.run([*command, f"-DCASE_{name}", "-fsyntax-only"], capture_output=True, text=True)
    errors = [line for line in result.stderr.splitlines() if " error: " in line]
    return result.returncode, errors


def judge(command, name, sentence):
    code, errors = compile_case(command, name)
    if sentence == "compiles":
        return None if code == 0 else f"{name}: does not compile: {errors[:1]}"
    if code == 0:
        return f"{name}: compiles, but must not"
    if not errors or sentence not in errors[0]:
        return f"{name}: expected \"{sentence}\", found {errors[:1]}"
    return None


def main():
    command = sys.argv[1:]
    text = pathlib.Path(command[-1]).read_text(encoding="utf-8")
    cases = CASE.findall(text)
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(2) as pool:
        header = pathlib.Path(directory, "included.hpp")
        header.write_text("".join(line + "\n" for line in text.splitlines() if line.startswith("#include")))
        compiled = header.with_suffix(".hpp.pch" if "clang" in command[0] else ".hpp.gch")
        subprocess.run([*command[:-1], "-x", "c++-header", header, "-o", compiled], check=True)
        command[-1:] = ["-include", str(header), command[-1]]
        found = [m for m in pool.map(lambda case: judge(command, *case), cases) if m]
    print("\n".join(found + [f"{len(cases)} cases, {len(found)} wrong"]))
    return 1 if found or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
