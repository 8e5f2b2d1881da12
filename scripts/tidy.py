#!/usr/bin/env python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy on sources, as build/lint compiles them: all below the directories given, or the files given.

    scripts/tidy.py [--syntax] PATH...

Most of clang-tidy's time goes into the standard library's headers. So sources that are compiled alike are looked at several at a
time, one behind the other in one file. If they do not compile so, those whose names are in the way of others' are kept out of it,
and looked at in the next one. If clang-tidy objects to anything, each half is looked at by itself, and so on: what is printed is
what it says of a single source.

--syntax only compiles each with clang, and makes nothing.
"""
import argparse
import bisect
import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINT = ROOT / "build" / "lint"
TOGETHER = 24  # sources
INCLUDE = re.compile(r"\s*#\s*include\b")
MAIN = re.compile(r"int main\(")


def compilations(paths):
    """Sources below the paths, each as it is compiled first, by the options for the compiler and for clang-tidy."""
    found, seen = collections.defaultdict(list), set()
    for entry in json.loads((LINT / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"])
        if source in seen or not any(source.is_relative_to(path) for path in paths):
            continue
        seen.add(source)
        words = shlex.split(entry["command"])
        options = [w for w in words[words.index(next(w for w in words if w.startswith("-"))):] if w not in ("-c", str(source))]
        del options[options.index("-o"):options.index("-o") + 2]
        found[tuple(options), next(p for p in source.parents if (p / ".clang-tidy").exists()), source.suffix].append(source)
    return found


def join(sources, to):
    """Writes them to a file, one behind the other, behind what they include. Each program is in a namespace of its own. At which
    lines they begin."""
    includes, bodies = {}, []
    for n, source in enumerate(sources):
        depth, body = 0, []
        for line in source.read_text(encoding="utf-8").splitlines():
            depth += bool(re.match(r"\s*#\s*if", line)) - bool(re.match(r"\s*#\s*endif", line))
            is_include = depth == 0 and INCLUDE.match(line)
            if is_include:
                includes[line.split("  //")[0]] = None
            body.append("" if is_include else line)
        if any(MAIN.match(line) for line in body):
            body = [f"namespace program_{n} {{", *body, f"}}  // namespace program_{n}"]
        bodies.append(body)
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text("\n".join(itertools.chain(includes, *bodies)) + "\n", encoding="utf-8")
    return list(itertools.accumulate([len(body) for body in bodies[:-1]], initial=len(includes) + 1))


def file_of(sources):
    """Where they are joined; a single source is itself."""
    if len(sources) == 1:
        return sources[0]
    first = sources[0].relative_to(ROOT)
    return LINT / "tidy" / first.parent / f"{first.stem}-and-{len(sources) - 1}{first.suffix}"


def joined_options(sources, options):
    return [*options, "-Wno-return-type"] if len(sources) > 1 else options  # of what was main()


def groups(sources, options):
    """Sources that compile one behind the other."""
    left = sources
    while left:
        group, rest = left, []
        while len(group) > 1:
            file = file_of(group)
            starts = join(group, file)
            done = subprocess.run(["clang++", *joined_options(group, options), "-fsyntax-only", "-ferror-limit=0", file],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            lines = re.findall(rf"^{re.escape(str(file))}:(\d+):\d+: (?:error|warning):", done.stderr, flags=re.M)
            if done.returncode == 0 and not lines:
                break
            blamed = {bisect.bisect(starts, int(line)) - 1 for line in lines} or set(range(1, len(group)))
            if 0 in blamed:  # none comes before it
                blamed = set(range(1, len(group)))
            rest = [group[i] for i in sorted(blamed)] + rest
            group = [source for i, source in enumerate(group) if i not in blamed]
        yield group
        left = rest


def tidy(sources, options, rules):
    """What clang-tidy says of each source that it objects to."""
    if len(sources) > 1:
        join(sources, file_of(sources))
    done = subprocess.run(["clang-tidy", "-quiet", f"--config-file={rules / '.clang-tidy'}", file_of(sources), "--",
                           *joined_options(sources, options)],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    if done.returncode == 0:
        return []
    if len(sources) == 1:
        return [done.stdout]
    parts = list(groups(sources, options)) if "clang-diagnostic-error" in done.stdout else []
    if len(parts) < 2:
        half = len(sources) // 2
        parts = [sources[:half], sources[half:]]
    return [complaint for part in parts for complaint in tidy(part, options, rules)]


def compile_each(sources, options, _):
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
    for (options, rules, _), sources in compilations([path.resolve() for path in how.paths]).items():
        sources.sort()
        jobs += [(sources[at:at + TOGETHER], options, rules) for at in range(0, len(sources), TOGETHER)]
    jobs.sort(key=lambda job: -len(job[0]))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        complaints = [c for found in threads.map(lambda job: (compile_each if how.syntax else tidy)(*job), jobs) for c in found]
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
