#!/usr/bin/env python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Checks the documentation. Prints FILE:LINE: MESSAGE, and fails if there was anything.

- Every relative link leads to a file.
- Every invariant that the code cites by its tag, such as [rvm.log.torn-tail], is stated in docs/; and every invariant that is
  stated there is cited in src/, include/ or tests/, by the code that keeps it or by the test that shows it.
- docs/design.md names every folder of src/.
- The pictures are as docs/pictures/draw.py draws them.
- docs/glossary.md is in alphabetical order, and has no term twice.
- Every file that docs/papers.md names, such as `heap/stabilizer.*`, is there.
- Every ```cpp block is part of a program in examples/guide, which is compiled, and run by check-transcripts.py: its
  paragraphs are there line by line, in the same order, however far they are indented; comments may be in a column.
"""
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
LAYERS = sorted(folder.name for folder in (ROOT / "src").iterdir() if folder.is_dir())
TAG_TEXT = rf"\[((?:{'|'.join([*LAYERS, 'rvm', 'heap', 'cache', 'languages', 'sim'])})(?:\.[a-z0-9-]+)+)\]"
TAG = re.compile(TAG_TEXT)
STATEMENT = re.compile(rf"\*\*{TAG_TEXT}\*\*")  # begins the paragraph of an invariant


def lines_of(pattern, directories, suffixes=None):
    for directory in directories:
        for file in sorted((ROOT / directory).glob(pattern)):
            if suffixes and file.suffix not in suffixes:
                continue
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


def uncited():
    """(place, tag) of each invariant that no source cites."""
    sources = lines_of("**/*.*", ["include", "src", "tests"], {".cpp", ".hpp", ".c", ".h", ".py"})
    cited = {tag for _, _, line in sources for tag in TAG.findall(line)}
    for _, place, line in lines_of("**/*.md", ["docs"]):
        yield from ((place, tag) for tag in STATEMENT.findall(line) if tag not in cited)


def unnamed_layers():
    """Folders of src/ that docs/design.md does not name."""
    design = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    return [layer for layer in LAYERS if not re.search(rf"\bsrc/{layer}\b|`{layer}`", design)]


def disorder_in_glossary():
    """(place, term) of each term that comes before the one above it, or is it."""
    above = ("", "")
    for _, place, line in lines_of("glossary.md", ["docs"]):
        if entry := re.match(r"\*\*(.+?)\*\*( \(.*?\))?", line):
            term = entry[1].lower()
            kind = entry[2] or ""
            if (term, kind) <= above:
                yield place, entry[1]
            above = (term, kind)


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
    found += [f"{place}: [{tag}] is cited nowhere in src/, include/ or tests/" for place, tag in uncited()]
    found += [f"docs/design.md:1: does not name src/{layer}" for layer in unnamed_layers()]
    found += [f"{place}: {term} is not in alphabetical order" for place, term in disorder_in_glossary()]
    drawn = subprocess.run([sys.executable, ROOT / "docs/pictures/draw.py", "--check"], capture_output=True, text=True, check=False)
    found += [f"docs/pictures/{line}" for line in (drawn.stdout + drawn.stderr).splitlines()]
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
