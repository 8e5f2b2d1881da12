#!/usr/bin/env python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy on sources, as build/lint compiles them: all below the directories given, or the files given.

    scripts/tidy.py [--syntax] PATH...

Most of clang-tidy's time goes into the standard library's headers. So sources of one folder that are compiled alike are looked
at several at a time, one behind the other in one file. Those whose names are in the way of others' are kept out of it, and looked
at in the next one. If clang-tidy objects to anything, each half is looked at by itself, and so on: what is printed is what it says
of a single source.

--syntax only compiles each with clang, and makes nothing.
"""
import argparse
import bisect
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINT = ROOT / "build" / "lint"
TOGETHER = 16  # sources
INCLUDE = re.compile(r"\s*#\s*include\b")


def compilations(paths):
    """Sources below the paths, by their folder, the target that they belong to and the options that they are compiled with."""
    found = collections.defaultdict(list)
    for entry in json.loads((LINT / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"])
        if not any(source.is_relative_to(path) for path in paths):
            continue
        words = shlex.split(entry["command"])
        target = words[words.index("-o") + 1].split(".dir/")[0]
        options = [w for w in words[words.index(next(w for w in words if w.startswith("-"))):] if w not in ("-c", str(source))]
        del options[options.index("-o"):options.index("-o") + 2]
        found[target, tuple(options), source.suffix, source.parent].append(source)
    return found


def join(sources, to):
    """Writes them to a file, one behind the other; what an earlier one has included is not included again. At which lines they
    begin."""
    included, text, starts = set(), [], []
    for source in sources:
        starts.append(len(text) + 1)
        lines = source.read_text(encoding="utf-8").splitlines()
        text += ["" if INCLUDE.match(line) and line in included else line for line in lines]
        included.update(line for line in lines if INCLUDE.match(line))
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text("\n".join(text) + "\n", encoding="utf-8")
    return starts


def file_of(sources):
    """Where they are joined; a single source is itself."""
    if len(sources) == 1:
        return sources[0]
    first = sources[0].relative_to(ROOT)
    return LINT / "tidy" / first.parent / f"{first.stem}-and-{len(sources) - 1}{first.suffix}"


def options_for(sources, options):
    return [*options, f"-I{sources[0].parent}"]


def groups(sources, options):
    """Sources that compile one behind the other; at most so many."""
    left = sources
    while left:
        group, rest = left[:TOGETHER], left[TOGETHER:]
        while len(group) > 1:
            file = file_of(group)
            starts = join(group, file)
            done = subprocess.run(["clang++", *options_for(group, options), "-fsyntax-only", "-ferror-limit=0", file],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            lines = re.findall(rf"^{re.escape(str(file))}:(\d+):\d+: (?:error|warning):", done.stderr, flags=re.M)
            if done.returncode == 0 and not lines:
                break
            blamed = {bisect.bisect(starts, int(line)) - 1 for line in lines} - {0} or set(range(1, len(group)))
            rest = [group[i] for i in sorted(blamed)] + rest
            group = [source for i, source in enumerate(group) if i not in blamed]
        yield group
        left = rest


def tidy(sources, options):
    """What clang-tidy says of each source that it objects to."""
    if len(sources) > 1:
        join(sources, file_of(sources))
    done = subprocess.run(["clang-tidy", "-quiet", file_of(sources), "--", *options_for(sources, options)],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    if done.returncode == 0:
        return []
    if len(sources) == 1:
        return [done.stdout]
    half = len(sources) // 2
    return tidy(sources[:half], options) + tidy(sources[half:], options)


def tidy_alike(sources, options):
    return [complaint for group in groups(sources, options) for complaint in tidy(group, options)]


def compile_each(sources, options):
    """The options are gcc's: clang does not know all of its warnings."""
    done = [subprocess.run(["clang++", *options, "-Wno-unknown-warning-option", "-fsyntax-only", source], stderr=subprocess.PIPE, text=True, check=False)
            for source in sources]
    return [d.stderr for d in done if d.returncode]


def main():
    parser = argparse.ArgumentParser(description="Runs clang-tidy on sources.")
    parser.add_argument("--syntax", action="store_true", help="only compile them")
    parser.add_argument("paths", metavar="PATH", type=pathlib.Path, nargs="+")
    how = parser.parse_args()
    jobs = []
    for (_, options, _, _), sources in compilations([path.resolve() for path in how.paths]).items():
        sources.sort()
        half = (len(sources) + 1) // 2 if len(sources) > TOGETHER else len(sources)  # for two processors to have something to do
        jobs += [(sources[at:at + half], options) for at in range(0, len(sources), half)]
    jobs.sort(key=lambda job: -len(job[0]))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        complaints = [c for found in threads.map(lambda job: (compile_each if how.syntax else tidy_alike)(*job), jobs) for c in found]
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
