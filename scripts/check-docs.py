#!/usr/bin/env python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Checks the documentation: every relative link leads to a file, and every invariant that the code cites by its tag,
such as [rvm.log.torn-tail], is stated in docs/. Prints FILE:LINE: MESSAGE, and fails if there was anything."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
TAG = re.compile(r"\[((?:os|rvm|classic|types|heap|cache|pobj|languages)(?:\.[a-z0-9-]+)+)\]")


def lines_of(pattern, directories):
    for directory in directories:
        for file in sorted((ROOT / directory).glob(pattern)):
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
                yield file, f"{file.relative_to(ROOT)}:{number}", line


def main():
    found = []
    stated = set()
    pages = [*lines_of("*.md", ["."]), *lines_of("**/*.md", ["docs"])]
    for file, place, line in pages:
        for link in LINK.findall(line):
            if "://" not in link and not link.startswith("mailto:") and not (file.parent / link).exists():
                found.append(f"{place}: link to {link}, which does not exist")
        stated.update(TAG.findall(line))
    for _, place, line in lines_of("**/*.[ch]pp", ["include", "src", "tests", "tools"]):
        for tag in TAG.findall(line):
            if tag not in stated:
                found.append(f"{place}: [{tag}] is not stated in docs/")
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
