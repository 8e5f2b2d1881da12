# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Makes the mistakes in mutations.py, one at a time, in a copy of the tree, and requires that tests fail.

Usage: check.py [--jobs N] [--list] [NAME...]

--list only looks whether they can be made. The copy is in build/mutations. It is built once, with the test programs that the
mutations name; of each mutation only what depends on the changed file is compiled, and linked with the rest.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

from mutations import MUTATIONS

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutations"
TREE = WORK / "tree"
BUILD = WORK / "build"
TIMEOUT = 60  # seconds; a test that hangs has noticed


def environment(program):
    """Less deep than usual, but for the random programs of the heap, which come to some states rarely."""
    scale = "1" if program.endswith("heap_models_test") else "0.2"
    return {"TENURE_TEST_SCALE": scale, "GTEST_FAIL_FAST": "1"} | os.environ


def pattern(fragment):
    """Matches the fragment however it is laid out."""
    tokens = re.findall(r'"(?:[^"\\]|\\.)*"|\w+|\S', fragment)
    text = ""
    for before, token in zip([""] + tokens, tokens):
        if before:
            text += r"\s+" if before[-1:].isalnum() and token[:1].isalnum() else r"\s*"
        text += re.escape(token)
    return re.compile(text)


def mutated(name, text, changes):
    for old, new in changes:
        # Newlines are kept out, for messages of the compiler to fit; comments between statements are matched, too.
        found = list(pattern(old).finditer(text)) if old else []
        if len(found) != 1:
            raise ValueError(f"{name}: found {len(found)} times instead of once: {old}")
        text = text[: found[0].start()] + new + text[found[0].end() :]
    return text


def without_comments(text):
    """Comments become spaces, so that fragments may span them; lines stay where they are."""
    def blank(match):
        piece = match.group(0)
        return piece if piece[0] in "\"'" else re.sub(r"[^\n]", " ", piece)
    return re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", blank, text, flags=re.S)


def place_of(file):
    """The path of a mutation's file: below src/, unless it is a public header, or ../tools/ is in front."""
    return file if file.startswith("include/") else os.path.normpath(f"src/{file}")


def program_and_filter(tests):
    """"heap_test store_crash.*" names a program; without one it is rvm_test."""
    return tuple(tests.split(" ")) if " " in tests else ("rvm_test", tests)


def suites_needed(mutations):
    names = set()
    for _, _, _, tests, _ in mutations:
        for part in program_and_filter(tests)[1].split(":"):
            names.add(part.split(".")[0] if "." in part else part)
    return names


def programs_needed(mutations):
    return sorted({program_and_filter(tests)[0] for _, _, _, tests, _ in mutations})


def copy_tree(mutations):
    """Copies what is needed, keeping times, so that a build can be continued."""
    kept = set()

    def take(source):
        target = TREE / source.relative_to(ROOT)
        kept.add(target)
        if target.exists() and target.read_bytes() == source.read_bytes():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)

    for top in ("src", "include", "cmake", "tools", "tests/sim", "tests/support"):
        for source in (ROOT / top).rglob("*"):
            if source.is_file():
                take(source)
    take(ROOT / "CMakeLists.txt")
    take(ROOT / "tests" / "CMakeLists.txt")
    take(ROOT / "tests" / "precompiled.hpp")
    take(ROOT / "tests" / "fuzz" / "CMakeLists.txt")
    take(ROOT / "tests" / "classic" / "every_name.c")
    take(ROOT / "tests" / "fixtures" / "unpack.cpp")
    make_corpus = TREE / "tests" / "fuzz" / "make_corpus.cpp"
    make_corpus.write_text("int main() {}\n")
    kept.add(make_corpus)
    # Only the test programs' files with a suite that is asked for.
    wanted = [re.compile(name.split("/")[-1 if name.startswith("*") else 0].replace("*", ".*") + r"$")
              for name in suites_needed(mutations)]
    for directory in sorted({"os"} | {program.removesuffix("_test") for program in programs_needed(mutations)}):
        for source in sorted((ROOT / "tests" / directory).rglob("*.*")):
            if source.suffix not in (".c", ".cpp", ".hpp"):
                continue
            suites = re.findall(r"^\s*(?:TEST|TEST_F|TEST_P|TYPED_TEST)\((\w+),", source.read_text(), flags=re.M)
            if not suites or any(w.match(s) for w in wanted for s in suites):
                take(source)
    for target in list(TREE.rglob("*")):
        if target.is_file() and target not in kept:
            target.unlink()


def run(command, **how):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **how)


def build(jobs, programs):
    if not (BUILD / "build.ninja").exists():
        done = run(["cmake", "-S", TREE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1 -w",
                    "-DTENURE_BUILD_BENCH=OFF", "-DTENURE_BUILD_EXAMPLES=OFF"])
        if done.returncode:
            sys.exit(done.stdout)
    done = run(["ninja", "-C", BUILD, f"-j{jobs}", *programs])
    if done.returncode:
        sys.exit(done.stdout)


class Builder:
    """Compiles single files, and links, as the build does."""

    def __init__(self, programs):
        self.compile = {}  # object: command
        self.link = {}  # program: command
        for line in run(["ninja", "-C", BUILD, "-t", "commands", *programs]).stdout.splitlines():
            words = shlex.split(line.replace("&&", " "))
            words = [w for w in words if w not in (":", "cd", str(BUILD))]
            if "-o" not in words:
                continue
            target = words[words.index("-o") + 1]
            if "-c" in words:
                self.compile[target] = words
            elif os.path.basename(target) in programs:
                self.link[os.path.basename(target)] = words
        self.depends = {}  # object: files
        target = None
        for line in run(["ninja", "-C", BUILD, "-t", "deps"]).stdout.splitlines():
            if line and not line.startswith(" "):
                target = line.split(":")[0]
                self.depends[target] = set()
            elif line.strip():
                self.depends[target].add(os.path.normpath(os.path.join(BUILD, line.strip())))

    def objects_of(self, file, program):
        """Those that depend on the file, but for other programs' tests, and what the program has a version of its own of."""
        others = [f"/{other}.dir/" for other in self.link if other != program]
        found = [o for o, files in self.depends.items()
                 if str(file) in files and o in self.compile and not any(other in o for other in others)]
        own = {o.split("__/src/")[1] for o in found if f"/{program}.dir/__/src/" in o}
        # What a public header defines is in each program: the library need not be compiled again.
        if file.startswith(str(TREE / "include")):
            found = [o for o in found if f"/{program}.dir/" in o]
        return [o for o in found if o.split(".dir/")[1] not in own]

    def make(self, directory, program, file, text):
        """Builds a test program with another text for a file; returns its path, or the compiler's message."""
        overlay = directory / "overlay"
        changed = overlay / file.removeprefix("include/").removeprefix("../")
        changed.parent.mkdir(parents=True, exist_ok=True)
        changed.write_text(text)
        original = str(TREE / place_of(file))
        objects = {}
        for target in self.objects_of(original, program):
            words = list(self.compile[target])
            objects[target] = str(directory / target.replace("/", "_"))
            words[words.index("-o") + 1] = objects[target]
            for flag in ("-MF", "-MT"):
                if flag in words:
                    words[words.index(flag) + 1] = objects[target] + ".d"
            words = [str(changed) if w == original else w for w in words]
            first_include = next(i for i, w in enumerate(words) if w.startswith(("-I", "-isystem")))
            words[first_include:first_include] = [f"-I{overlay}"]
            done = run(words, cwd=BUILD)
            if done.returncode:
                return None, done.stdout
        words = list(self.link[program])
        program = directory / program
        words[words.index("-o") + 1] = str(program)
        # In front of the library, whose own version of them is then not taken.
        replaced = [objects.pop(w) if w in objects else w for w in words]
        first = next(i for i, w in enumerate(replaced) if w.endswith(".o"))
        replaced[first:first] = objects.values()
        done = run(replaced, cwd=BUILD)
        return (program, "") if done.returncode == 0 else (None, done.stdout)


def test(program, tests, directory):
    """Returns what happened: "passed", or how the tests failed."""
    directory.mkdir(parents=True, exist_ok=True)
    try:
        done = run([program, f"--gtest_filter={tests}"], env=environment(str(program)) | {"TMPDIR": str(directory)}, timeout=TIMEOUT, cwd=directory,
                   errors="replace")
    except subprocess.TimeoutExpired:
        return "hangs"
    ran = re.search(r"(\d+) tests? from \d+ test suites? ran", done.stdout)
    if done.returncode == 0:
        if not ran or ran.group(1) == "0":
            return "no such test"
        return "passed"
    failed = re.search(r"\[  FAILED  \] ([\w./]+)", done.stdout)
    if failed:
        return failed.group(1)
    begun = re.findall(r"\[ RUN      \] ([\w./]+)", done.stdout)
    return f"ends with {done.returncode}" + (f" in {begun[-1]}" if begun else "")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments.add_argument("--list", action="store_true")
    arguments.add_argument("names", nargs="*")
    how = arguments.parse_args()
    mutations = [m for m in MUTATIONS if not how.names or m[0] in how.names]
    began = time.time()
    texts, wrong = {}, []
    for name, file, changes, _, _ in mutations:
        try:
            texts[name] = mutated(name, without_comments((ROOT / place_of(file)).read_text()), changes)
        except (ValueError, OSError) as e:
            wrong.append(str(e))
    if wrong or not mutations:
        print("\n".join(wrong or ["no such mutation"]))
        return 1
    if how.list:
        for name, file, _, tests, why in mutations:
            print(f"{name:42} {file:22} {why}\n{'':42} killed by {tests}")
        return 0
    # All suites, so that the copy stays the same; only the programs that are needed.
    copy_tree(MUTATIONS)
    programs = programs_needed(mutations)
    build(how.jobs, programs)
    builder = Builder(programs)
    print(f"built in {time.time() - began:.0f} s", flush=True)

    def baseline(tests):
        program, names = program_and_filter(tests)
        result = test(BUILD / "tests" / program, names, WORK / "baseline" / str(abs(hash(tests))))
        return None if result == "passed" else f"without any mutation, {tests}: {result}"

    def judge(mutation):
        name, file, _, tests, _ = mutation
        directory = WORK / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        which, names = program_and_filter(tests)
        program, message = builder.make(directory, which, file, texts[name])
        result = test(program, names, directory / "run") if program else "does not compile"
        shutil.rmtree(directory, ignore_errors=True)
        return name, result, message

    survivors = 0
    with concurrent.futures.ThreadPoolExecutor(how.jobs) as pool:
        for result in pool.map(baseline, sorted({m[3] for m in mutations})):
            if result:
                print(result, flush=True)
                survivors += 1
        for name, result, message in pool.map(judge, mutations):
            killed = result not in ("passed", "no such test", "does not compile")
            survivors += not killed
            print(f"{'killed  ' if killed else 'SURVIVED'}  {name:42} {result}", flush=True)
            if message:
                print(message[-2000:])
    shutil.rmtree(WORK / "baseline", ignore_errors=True)
    print(f"{len(mutations)} mutations, {survivors} problems, {time.time() - began:.0f} s")
    return 1 if survivors else 0


sys.exit(main())
