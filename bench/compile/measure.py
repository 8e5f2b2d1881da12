#!/usr/bin/env python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""What programs pay for the headers that they include, while they are compiled and in their code.

    bench/compile/measure.py                        # tables, with gcc and clang, as far as they are there
    bench/compile/measure.py --json > compile.json
    bench/compile/measure.py --compilers g++ --repeat 5 tenure std
    bench/compile/measure.py --headers              # each public header alone, too

programs/ has small programs that do about the same: over a store, over the containers of the standard library, and over
other systems. Each is compiled with -O2, --repeat times, without ccache. Time is the processor time of the compiler, the
least of all runs; memory the peak of its largest process; text the section sizes that `size` adds up: code, constants and
tables for exceptions. A program whose headers are not installed is left out, and said to be.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = ["tenure", "std", "interprocess", "pmemobj", "lmdb", "sqlite", "rocksdb"]


def measured(command):
    """Processor seconds and peak MiB of a command; None if it fails, with what it says."""
    with tempfile.TemporaryFile(mode="w+") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env={**os.environ, "CCACHE_DISABLE": "1"})
        # Of the compiler's processes, too: the driver waits for them.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            said.seek(0)
            return None, said.read()
    return (used.ru_utime + used.ru_stime, used.ru_maxrss / 1024), ""


def text_bytes(compiled):
    lines = subprocess.run(["size", compiled], check=True, capture_output=True, text=True).stdout.splitlines()
    return int(lines[1].split()[0])


def case(compiler, name, source, repeat):
    with tempfile.TemporaryDirectory() as scratch:
        compiled = os.path.join(scratch, "program.o")
        command = [compiler, "-std=c++20", "-O2", f"-I{ROOT / 'include'}", "-c", str(source), "-o", compiled]
        runs = []
        for _ in range(repeat):
            figures, said = measured(command)
            if figures is None:
                missing = "file not found" in said or "No such file" in said
                if not missing:
                    sys.stderr.write(said)
                return {"compiler": compiler, "case": name, "failed": "not installed" if missing else "does not compile"}
            runs.append(figures)
        return {
            "compiler": compiler,
            "case": name,
            "cpu_s": round(min(seconds for seconds, _ in runs), 3),
            "peak_mib": round(max(mib for _, mib in runs), 1),
            "text_kb": round(text_bytes(compiled) / 1000, 1),
        }


def cases(wanted, headers, scratch):
    for name in PROGRAMS:
        if not wanted or name in wanted:
            yield name, HERE / "programs" / f"{name}.cpp"
    if not headers:
        return
    for header in sorted((ROOT / "include" / "tenure").glob("*.hpp")):
        source = pathlib.Path(scratch) / f"{header.stem}.cpp"
        source.write_text(f"#include <tenure/{header.name}>\n", encoding="utf-8")
        yield f"<tenure/{header.name}>", source


def print_table(results):
    width = max(len(result["case"]) for result in results)
    compiler = None
    for result in results:
        if result["compiler"] != compiler:
            compiler = result["compiler"]
            print(f"\n{compiler:<{width}}  {'CPU s':>7}  {'peak MiB':>8}  {'text kB':>8}")
        if "failed" in result:
            print(f"{result['case']:<{width}}  {result['failed']}")
        else:
            print(f"{result['case']:<{width}}  {result['cpu_s']:7.2f}  {result['peak_mib']:8.0f}  {result['text_kb']:8.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"some of: {' '.join(PROGRAMS)}")
    parser.add_argument("--compilers", nargs="+", default=["g++", "clang++"])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--headers", action="store_true", help="each public header alone, too")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if unknown := set(arguments.programs) - set(PROGRAMS):
        parser.error(f"no program named {' '.join(sorted(unknown))}")

    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for compiler in arguments.compilers:
            if shutil.which(compiler) is None:
                print(f"there is no {compiler}", file=sys.stderr)
                continue
            for name, source in cases(arguments.programs, arguments.headers, scratch):
                results.append(case(compiler, name, source, arguments.repeat))
    if not results:
        sys.exit("nothing was measured")
    if arguments.json:
        json.dump(results, sys.stdout, indent=1)
        print()
    else:
        print_table(results)


if __name__ == "__main__":
    main()
