#!/usr/bin/env python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Checks the shape of the source tree.

1. Includes point down the layers only (RANK below). Classic and types do not know each other, nor do store and cache.
   Public headers belong to the layer that implements them and include public headers only.
2. Only src/os talks to the operating system: nobody else in src/ or include/ includes its headers, save where a public
   header has always brought them in. The run-time of compiled-in barriers does so itself: it is a library of its own, which is
   in no other, takes the place of libc's functions and runs before all of the program.
3. No source file has more than 650 lines.

Prints FILE:LINE: MESSAGE for everything it finds, and fails if there was anything. --self-test checks the checker;
--layer-of HEADER says which layer a public header belongs to.
"""
import argparse
import pathlib
import re
import sys
import tempfile

RANK = {
    "os": 0,
    "log": 1,
    "segments": 2,
    "records": 3,
    "replay": 4,
    "regions": 5,
    "transactions": 6,
    "rvm": 7,
    "recoverable_heap": 8,
    "classic": 9,
    "types": 9,
    "containers": 10,
    "objects": 11,
    "collection": 12,
    "rewrite": 13,
    "store": 14,
    "cache": 14,
    "upgrade": 15,
    "pobj": 15,
    "languages": 16,
    "barriers": 16,
}

# Layers that are in no other library of ours.
APART = {"barriers"}

# A public header's layer is its folder below include/tenure; of one that only has a short name, that of the header with
# the same name in a folder. These are the others: what lower layers take as plain data, and headers without a folder.
PUBLIC_LAYERS = {
    "tenure/callback.hpp": "os",
    "tenure/error.hpp": "os",
    "tenure/rvm/log_options.hpp": "log",
    "tenure/rvm/segment_options.hpp": "segments",
    "tenure/rvm/commit.hpp": "records",
    "tenure/rvm/prepared.hpp": "records",
    "tenure/commit_mode.hpp": "records",
    "tenure/rvm/statistics.hpp": "replay",
    "tenure/rvm/backup.hpp": "replay",
    "tenure/barriers.hpp": "regions",
    "tenure/store/collection.hpp": "objects",
    "tenure/store/weak_cell.hpp": "objects",
    "tenure/store/handle.hpp": "collection",
    "tenure/rvm/map_options.hpp": "regions",
    "tenure/rvm/options.hpp": "regions",
    "tenure/rvm/paged_segment.hpp": "regions",
    "tenure/rvm/participant.hpp": "regions",
    "tenure/rvm/region.hpp": "regions",
    "tenure/rvm/transaction.hpp": "transactions",
    "tenure/recoverable_heap.hpp": "recoverable_heap",
    "tenure/loader.hpp": "recoverable_heap",
    "tenure/store/options.hpp": "objects",
    "tenure/store/statistics.hpp": "objects",
    "tenure/upgrade.hpp": "upgrade",
    "tenure/collect.hpp": "store",
    "tenure/rewrite.hpp": "rewrite",
    "tenure/tenure.hpp": "store",
    "rvm/rvm.h": "classic",
    "rvm/rvm_segment.h": "classic",
    "rvm/rvm_statistics.h": "classic",
    "rvm/rds.h": "classic",
}

# System headers that programs get with a public header, because its interface is older than this rule.
BROUGHT_IN = {"rvm/rvm.h": {"sys/param.h", "sys/time.h"}}

SYSTEM_HEADERS = re.compile(
    r"(sys|linux|asm|arpa|netinet)/.*|(fcntl|unistd|signal|ucontext|pthread|sched|semaphore|poll|dirent|dlfcn|spawn"
    r"|termios|execinfo|syscall|link)\.h|csignal"
)
INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
SOURCE_SUFFIXES = {".cpp", ".hpp", ".c", ".h", ".py", ".sh"}
SOURCE_DIRECTORIES = ["include", "src", "tools", "examples", "bench", "tests", "scripts"]
MAX_LINES = 650


def public_layer(path, include):
    """The layer of a path below include/, or None."""
    if path in PUBLIC_LAYERS:
        return PUBLIC_LAYERS[path]
    name = path.removeprefix("tenure/")
    if "/" not in name:
        folders = [folder for folder in RANK if (include / "tenure" / folder / name).is_file()]
        if folders:
            return folders[0]
    word = re.split(r"[/._]", name)[0]
    return word if word in RANK else None


class Checker:
    def __init__(self, root):
        self.root = root
        self.found = []

    def report(self, file, line, message):
        self.found.append(f"{file.relative_to(self.root)}:{line}: {message}")

    def run(self):
        for directory in SOURCE_DIRECTORIES:
            for file in sorted((self.root / directory).rglob("*")):
                if file.suffix in SOURCE_SUFFIXES and file.is_file():
                    self.check_file(file, directory)
        return self.found

    def check_file(self, file, directory):
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        if len(lines) > MAX_LINES:
            self.report(file, MAX_LINES + 1, f"{len(lines)} lines: split the file, {MAX_LINES} are the limit")
        if directory == "src":
            self.check_source(file, lines)
        elif directory == "include":
            self.check_public_header(file, lines)

    def check_source(self, file, lines):
        layer = file.relative_to(self.root / "src").parts[0]
        if layer not in RANK:
            self.report(file, 1, f"src/{layer} is no layer: name it in RANK in scripts/check-layers.py")
            return
        for number, target in includes(lines):
            self.check_system(file, number, target, layer)
            self.check_direction(file, number, target, layer, self.layer_of(file, target))

    def check_public_header(self, file, lines):
        path = file.relative_to(self.root / "include").as_posix()
        layer = public_layer(path, self.root / "include")
        if layer is None:
            self.report(file, 1, "public header of no layer: name it in PUBLIC_LAYERS in scripts/check-layers.py")
            return
        for number, target in includes(lines):
            if target not in BROUGHT_IN.get(path, ()):
                self.check_system(file, number, target, layer=None)
            if self.is_private(file, target):
                self.report(file, number, f"public header includes {target} of src/")
            else:
                self.check_direction(file, number, target, layer, self.layer_of(file, target))

    def check_system(self, file, number, target, layer):
        if layer != "os" and layer not in APART and SYSTEM_HEADERS.fullmatch(target):
            self.report(file, number, f"includes <{target}>: only src/os talks to the operating system")

    def check_direction(self, file, number, target, layer, other):
        if other is None or other == layer or RANK[other] < RANK[layer]:
            return
        self.report(file, number, f"{layer} includes {target} of {other}: includes point down the layers")

    def is_private(self, file, target):
        if (file.parent / target).is_file() or (self.root / "include" / target).is_file():
            return False
        # Headers that do not exist yet are judged by their name: C++ headers below a layer's name are private.
        return (self.root / "src" / target).is_file() or (
            target.split("/")[0] in RANK and target.endswith(".hpp")
        )

    def layer_of(self, file, target):
        """The layer of an included file; None if it is not ours."""
        src, include = self.root / "src", self.root / "include"
        beside = (file.parent / target).resolve()
        if beside.is_file() and beside.is_relative_to(src):
            return beside.relative_to(src).parts[0]
        if (include / target).is_file() or target.startswith("tenure/"):
            return public_layer(target, include)
        first = target.split("/")[0]
        return first if "/" in target and first in RANK else None


def includes(lines):
    for number, line in enumerate(lines, start=1):
        match = INCLUDE.match(line)
        if match:
            yield number, match[1] or match[2]


# --- The checker's own test: a tree with every kind of violation, and things that look like one and are none ---

GOOD = {
    "include/tenure/error.hpp": "#include <string>\n",
    "include/tenure/rvm.hpp": "#include <tenure/error.hpp>\n",
    "include/rvm/rvm.h": "#include <stddef.h>\n#include <sys/time.h>\n",
    "include/rvm/rds.h": "#include <rvm/rvm.h>\n",
    "src/classic/map.cpp": '#include <rvm/rvm.h>\n#include <tenure/rvm.hpp>\n#include "os/file.hpp"\n#include "rvm/log.hpp"\n',
    "src/os/file.cpp": '#include "os/file.hpp"\n#include <tenure/error.hpp>\n#include <fcntl.h>\n#include <sys/mman.h>\n',
    "src/os/file.hpp": "#include <span>\n",
    "src/rvm/log.cpp": '#include "rvm/log.hpp"\n#include "os/file.hpp"\n#include <tenure/rvm.hpp>\n',
    "src/rvm/log.hpp": "// #include <unistd.h>\n#include <isa-l/crc.h>\n",
    "src/objects/block.cpp": '#include "rvm/log.hpp"\n#include "block.hpp"\n',
    "src/objects/block.hpp": "",
    "src/objects/object.cpp": "#include <tenure/type.hpp>\n",
    "include/tenure/types/detail/names.hpp": "#include <tenure/type.hpp>\n",
    "include/tenure/type.hpp": "#include <tenure/types/type.hpp>\n",
    "include/tenure/types/type.hpp": "",
    "include/tenure/containers/map.hpp": "#include <tenure/type.hpp>\n",
    "src/cache/buffer.hpp": '#include "objects/block.hpp"\n',
    "src/store/space.hpp": "",
    "src/barriers/shadow.cpp": '#include <tenure/barriers.hpp>\n#include "barriers/message.hpp"\n#include <sys/mman.h>\n',
    "tools/tenure.cpp": "#include <unistd.h>\n",
    "tests/os/file_test.cpp": "#include <sys/mman.h>\n" + "\n" * 600,
}
BAD = {  # path: (content, line, part of the message)
    "src/os/up.cpp": ('#include "os/file.hpp"\n#include "rvm/log.hpp"\n', 2, "os includes rvm/log.hpp of rvm"),
    "src/os/up_public.cpp": ("#include <tenure/rvm.hpp>\n", 1, "os includes tenure/rvm.hpp of rvm"),
    "src/rvm/up.cpp": ('#include "objects/missing.hpp"\n', 1, "rvm includes objects/missing.hpp of objects"),
    "src/rvm/relative.cpp": ('#include "../objects/block.hpp"\n', 1, "of objects"),
    "src/rvm/up_public.cpp": ("#include <rvm/rvm.h>\n", 1, "rvm includes rvm/rvm.h of classic"),
    "include/rvm/rvm_statistics.h": ("#include <sys/stat.h>\n", 1, "includes <sys/stat.h>"),
    "src/store/sideways.cpp": ('#include "cache/buffer.hpp"\n', 1, "store includes cache/buffer.hpp of cache"),
    "src/types/up.cpp": ("#include <tenure/objects.hpp>\n", 1, "types includes tenure/objects.hpp of objects"),
    "src/cache/sideways.hpp": ('#include "store/space.hpp"\n', 1, "cache includes store/space.hpp of store"),
    "src/store/up.cpp": ('#include "barriers/shadow.hpp"\n', 1, "store includes barriers/shadow.hpp of barriers"),
    "src/pobj/up.cpp": ('#include "languages/x.hpp"\n', 1, "pobj includes languages/x.hpp of languages"),
    "src/rvm/sys.cpp": ("\n#  include <sys/types.h>\n", 2, "includes <sys/types.h>"),
    "src/rvm/fcntl.hpp": ("#include <fcntl.h>\n", 1, "includes <fcntl.h>"),
    "src/objects/signal.cpp": ("#include <csignal>\n", 1, "includes <csignal>"),
    "src/objects/linux.cpp": ("#include <linux/userfaultfd.h>\n", 1, "includes <linux/userfaultfd.h>"),
    "src/objects/thread.cpp": ("#include <pthread.h>\n", 1, "includes <pthread.h>"),
    "include/tenure/rvm_bad.hpp": ('#include "rvm/log.hpp"\n', 1, "public header includes rvm/log.hpp of src/"),
    "include/tenure/rvm_sys.hpp": ("#include <unistd.h>\n", 1, "includes <unistd.h>"),
    "include/tenure/types/up.hpp": ("#include <tenure/containers/map.hpp>\n", 1, "types includes tenure/containers/map.hpp"),
    "include/tenure/os_up.hpp": ("#include <tenure/rvm.hpp>\n", 1, "os includes tenure/rvm.hpp of rvm"),
    "include/tenure/stray.hpp": ("", 1, "public header of no layer"),
    "src/util/misc.cpp": ("", 1, "src/util is no layer"),
    "bench/long.cpp": ("\n" * 651, 651, "651 lines"),
}


def self_test():
    failures = []
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory).resolve()

        def write(path, content):
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)

        for path, content in GOOD.items():
            write(path, content)
        failures += [f"reported without reason: {line}" for line in Checker(root).run()]
        for path, (content, _, _) in BAD.items():
            write(path, content)
        found = Checker(root).run()
        for path, (_, line, message) in BAD.items():
            of_file = [report for report in found if report.startswith(f"{path}:")]
            if len(of_file) != 1 or not of_file[0].startswith(f"{path}:{line}: ") or message not in of_file[0]:
                failures.append(f"expected {path}:{line}: ...{message}..., found {of_file}")
        if len(found) != len(BAD):
            failures.append(f"expected {len(BAD)} reports, found {len(found)}: {found}")
    return failures


def main():
    parser = argparse.ArgumentParser(description="Checks the shape of the source tree.")
    parser.add_argument("--self-test", action="store_true", help="check the checker instead")
    parser.add_argument("--layer-of", metavar="HEADER", help="print the layer of include/HEADER instead")
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    if arguments.layer_of:
        print(public_layer(arguments.layer_of.removeprefix("include/"), root / "include") or "")
        return 0
    found = self_test() if arguments.self_test else Checker(root).run()
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
