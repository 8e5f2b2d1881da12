#!/usr/bin/env python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Checks the documentation. Prints FILE:LINE: MESSAGE, and fails if there was anything.

- Every relative link leads to a file.
- Every invariant that the code cites by its tag, such as [rvm.log.torn-tail], is stated in docs/.
- Every file that docs/papers.md names, such as `heap/stabilizer.*`, is there.
- Every ```cpp block is part of a program in examples/guide, which is compiled, and run by check-transcripts.py: its
  paragraphs are there line by line, in the same order, however far they are indented; comments may be in a column.
"""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
TAG = re.compile(r"\[((?:os|rvm|classic|types|heap|cache|pobj|languages)(?:\.[a-z0-9-]+)+)\]")


def lines_of(pattern, directories):
    for directory in directories:
        for file in sorted((ROOT / directory).glob(pattern)):
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
                yield file, f"{file.relative_to(ROOT)}:{number}", line


def paragraphs_of(text):
    """Pieces between blank lines, without common indentation."""
    return [textwrap.dedent(piece).strip("\n") for piece in re.split(r"\n[ \t]*\n", text) if piece.strip()]


def without_columns(text):
    """Comments that follow code do so after two spaces."""
    return re.sub(r"(?<=\S) +//", "  //", text)


def is_in(paragraphs, program):
    """Whether the program has the paragraphs, in this order. A paragraph may be a part of one of the program's."""
    lines = program.splitlines()
    at = 0
    for paragraph in paragraphs:
        wanted = paragraph.splitlines()
        for start in range(at, len(lines) - len(wanted) + 1):
            if textwrap.dedent("\n".join(lines[start : start + len(wanted)])) == paragraph:
                at = start + len(wanted)
                break
        else:
            return False
    return True


def code_that_is_nowhere(page):
    """Numbers of the lines at which ```cpp blocks begin that no program has."""
    text = page.read_text(encoding="utf-8")
    programs = [without_columns(file.read_text(encoding="utf-8")) for file in sorted((ROOT / "examples/guide").glob("*.cpp"))]
    for block in re.finditer(r"^```cpp\n(.*?)^```", text, re.S | re.M):
        paragraphs = paragraphs_of(without_columns(block.group(1)))
        if not any(is_in(paragraphs, program) for program in programs):
            yield text.count("\n", 0, block.start()) + 1


def files_that_are_nowhere():
    """(line, name) of what docs/papers.md names below the root, or a directory of a layer."""
    places = [ROOT, *(d for part in ("src", "include", "bench", "tools") for d in [ROOT / part, *(ROOT / part).iterdir()]
                      if d.is_dir())]
    for _, place, line in lines_of("papers.md", ["docs"]):
        for name in re.findall(r"`([\w/]+(?:\.(?:\*|[ch]pp|py)|[\w]/\*|_\*))`", line):
            if not any(any(where.glob(name)) for where in places):
                yield place, name


def main():
    found = []
    stated = set()
    pages = [*lines_of("*.md", ["."]), *lines_of("**/*.md", ["docs"])]
    for file, place, line in pages:
        for link in LINK.findall(line):
            if "://" not in link and not link.startswith("mailto:") and not (file.parent / link).exists():
                found.append(f"{place}: link to {link}, which does not exist")
        stated.update(TAG.findall(line))
    for page in sorted({file for file, _, _ in pages}):
        for number in code_that_is_nowhere(page):
            found.append(f"{page.relative_to(ROOT)}:{number}: no program in examples/guide has this code")
    found += [f"{place}: there is no {name}" for place, name in files_that_are_nowhere()]
    for _, place, line in lines_of("**/*.[ch]pp", ["include", "src", "tests", "tools"]):
        for tag in TAG.findall(line):
            if tag not in stated:
                found.append(f"{place}: [{tag}] is not stated in docs/")
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
