#!/usr/bin/env python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Runs what the documentation says was run, and compares what it prints.

    scripts/check-transcripts.py [--show] BUILD_DIR [PAGE...]

In ```console blocks, lines that begin with `$ ` are commands, and the others what they print. The commands of a page run in
one new directory, one after the other, with the programs of examples/guide in it, and the tenure command at hand.
--show prints the page's blocks as they would have to be.

`…` stands for anything in a line; alone on a line, for any number of lines. Addresses (0x…) are all equal, and the directory
is called /home/me. A program that is killed by a signal has the signal's name at its end.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```console\n(.*?)^```", re.S | re.M)
NAMED = "/home/me"


def commands_of(block):
    """(line in the block, command, the lines it prints)"""
    found = []
    for number, line in enumerate(block.splitlines()):
        if line.startswith("$ "):
            found.append((number, line[2:], []))
        else:
            found[-1][2].append(line)
    return found


def run(command, directory, tools):
    # In a terminal's place the shell would say what killed the program.
    done = subprocess.run(["bash", "-c", f"exec {command}" if command.startswith("./") else command], cwd=directory,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=300,
                          env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}, check=False)
    lines = done.stdout.decode(errors="replace").replace(directory, NAMED).rstrip().splitlines()
    if done.returncode < 0:
        lines.append(signal.strsignal(-done.returncode))
    return lines


def pattern(line):
    same = re.sub(r"0x[0-9a-f]+", "0x0", line)
    return re.compile(".*".join(re.escape(piece) for piece in same.split("…")))


def agree(expected, printed):
    """Whether the lines fit; `…` alone is any number of lines."""
    if not expected:
        return not printed
    if expected[0].strip() == "…":
        return any(agree(expected[1:], printed[n:]) for n in range(len(printed) + 1))
    if not printed or not pattern(expected[0]).fullmatch(re.sub(r"0x[0-9a-f]+", "0x0", printed[0])):
        return False
    return agree(expected[1:], printed[1:])


def check(page, build, show):
    text = page.read_text(encoding="utf-8")
    wrong = 0
    if not BLOCK.search(text):
        return wrong
    with tempfile.TemporaryDirectory(dir=build, prefix="transcripts-") as directory:
        for program in sorted((build / "examples/guide").iterdir()):
            if program.is_file() and os.access(program, os.X_OK):
                (pathlib.Path(directory) / program.name).symlink_to(program)
        for block in BLOCK.finditer(text):
            first = text.count("\n", 0, block.start()) + 2
            for number, command, expected in commands_of(block.group(1)):
                printed = run(command, directory, build / "tools")
                if show:
                    print("\n".join([f"$ {command}", *printed]))
                elif not agree(expected, printed):
                    wrong += 1
                    print(f"{page.relative_to(ROOT)}:{first + number}: `{command}` prints:")
                    print("\n".join("    " + line for line in printed))
            if show:
                print()
    return wrong


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    arguments.add_argument("build", type=pathlib.Path)
    arguments.add_argument("pages", nargs="*", type=pathlib.Path)
    arguments.add_argument("--show", action="store_true")
    given = arguments.parse_intermixed_args()
    pages = [page.resolve() for page in given.pages] or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    wrong = [check(page, given.build.resolve(), given.show) for page in pages]
    return 1 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
