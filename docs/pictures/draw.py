#!/usr/bin/env python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the documentation: NAME.svg from NAME.py, for each file here that has a function draw().

    docs/pictures/draw.py            draws all
    docs/pictures/draw.py --check    changes nothing; names those that are not as they would be drawn, and fails then

Needs nothing but Python. To look at one: rsvg-convert NAME.svg -o NAME.png, or a browser.
"""
import importlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))


def pictures():
    """(file, its content) of each."""
    for source in sorted(HERE.glob("*.py")):
        if source.name in ("draw.py", "svg.py"):
            continue
        yield source.with_suffix(".svg"), importlib.import_module(source.stem).draw().svg()


def outdated():
    """The files that are not as they would be drawn."""
    drawn = dict(pictures())
    wrong = [file for file, content in drawn.items() if not file.exists() or file.read_text(encoding="utf-8") != content]
    return wrong + [file for file in sorted(HERE.glob("*.svg")) if file not in drawn]


def main():
    if sys.argv[1:] == ["--check"]:
        wrong = outdated()
        for file in wrong:
            print(f"{file.name}: is not what {HERE.name}/draw.py draws")
        return 1 if wrong else 0
    for file, content in pictures():
        file.write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
