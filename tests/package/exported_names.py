#!/usr/bin/env python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""exported_names.py LIBRARY INCLUDE_DIR [CLANG]

Compares what a shared library exports with what the C++ headers below INCLUDE_DIR/tenure declare, as clang reads them:
whatever is exported is declared there, and whatever is declared there without a definition is exported. Exit code 77 if
there is no clang."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FUNCTIONS = {"FunctionDecl", "CXXMethodDecl", "CXXConstructorDecl", "CXXDestructorDecl", "CXXConversionDecl"}
CLASSES = {"CXXRecordDecl", "ClassTemplateSpecializationDecl", "ClassTemplatePartialSpecializationDecl"}
TEMPLATES = {"FunctionTemplateDecl", "ClassTemplateDecl", "VarTemplateDecl"}


class Declarations:
    """What the headers declare: names to be found in the library, and names that may be there."""

    def __init__(self):
        self.required = {}  # mangled name -> where it is declared
        self.functions = set()  # qualified names of functions and variables
        self.classes = set()  # those that are complete, and templates
        self.file = ""

    def read(self, node, scope, in_template=False):
        # Clang names a file where it changes only.
        for place in (node.get("loc", {}), node.get("loc", {}).get("expansionLoc", {}), node.get("range", {}).get("begin", {})):
            self.file = place.get("file", self.file)
        kind, name = node.get("kind"), node.get("name", "")
        inner = node.get("inner", [])
        qualified = f"{scope}::{name}" if scope else name
        if kind == "NamespaceDecl":
            for part in inner:
                self.read(part, qualified if name else scope, in_template)
        elif kind in CLASSES:
            if name and node.get("completeDefinition"):
                self.classes.add(qualified)
            template = in_template or kind != "CXXRecordDecl"
            for part in inner:
                self.read(part, qualified, template)
        elif kind in TEMPLATES:
            for part in inner:
                if part.get("kind") in CLASSES | FUNCTIONS | {"VarDecl"}:
                    self.read(part, scope, True)
        elif kind in FUNCTIONS:
            self.functions.add(qualified)
            if not in_template and not self.is_defined(node, inner):
                self.required[node.get("mangledName", qualified)] = (qualified, self.file)
        elif kind == "VarDecl":
            self.functions.add(qualified)
        elif kind in ("FriendDecl", "LinkageSpecDecl"):
            for part in inner:
                if kind == "LinkageSpecDecl":
                    self.read(part, scope, in_template)

    @staticmethod
    def is_defined(node, inner):
        return (node.get("isImplicit") or node.get("explicitlyDeleted") or node.get("explicitlyDefaulted") or node.get("pure")
                or any(part.get("kind") in ("CompoundStmt", "CXXTryStmt") for part in inner))


def declarations(clang, include):
    headers = sorted(p.relative_to(include).as_posix() for p in (include / "tenure").rglob("*.hpp"))
    source = "".join(f"#include <{h}>\n" for h in headers)
    found = Declarations()
    with tempfile.TemporaryFile("w+") as tree:
        subprocess.run([clang, "-std=c++20", "-x", "c++", f"-I{include}", "-fsyntax-only", "-Xclang", "-ast-dump=json",
                        "-Xclang", "-ast-dump-filter=tenure", "-"], input=source, text=True, stdout=tree, check=True)
        tree.seek(0)
        text = tree.read()
    decoder, at = json.JSONDecoder(), 0
    while match := re.compile(r"\s*(?=\{)").match(text, at):
        node, at = decoder.raw_decode(text, match.end())
        found.read(node, "")
    return found


def exported(library):
    """Mangled name -> demangled one."""
    names = [line.split()[-1] for line in
             subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True, capture_output=True).stdout.splitlines()]
    plain = [name.split("@")[0] for name in names]
    shown = subprocess.run(["c++filt"], input="\n".join(plain), check=True, text=True, capture_output=True).stdout.splitlines()
    return dict(zip(plain, shown))


def subject(shown):
    """The qualified name that a demangled symbol is about, without template arguments and parameters."""
    shown = re.sub(r"\[abi:\w+\]", "", shown)
    shown = re.sub(r"^(?:(?:typeinfo|typeinfo name|vtable|VTT|guard variable|construction vtable) for|(?:non-)?virtual thunk to) ", "",
                   shown)
    plain, depth, at = "", 0, 0
    while at < len(shown):
        rest = shown[at:]
        operator = re.match(r"operator(?:\(\)|->\*?|<=>|<<=?|>>=?|<=?|>=?)", rest)
        if operator and depth == 0:
            plain, at = plain + operator[0], at + len(operator[0])
            continue
        c = shown[at]
        depth += c in "<("
        if depth == 0:
            plain += c
        depth -= c in ">)"
        at += 1
    # What is left in front is the type that a template returns, behind it are qualifiers.
    match = re.search(r"\btenure::(?:[\w~]+::)*(?:operator ?[^\s\w]+|operator \w+|[\w~]+)", plain)
    return match[0] if match else plain


def main():
    library, include = sys.argv[1], pathlib.Path(sys.argv[2])
    clang = shutil.which(sys.argv[3] if len(sys.argv) > 3 else "clang++")
    if clang is None:
        print("nothing is compared: there is no clang")
        return 77
    declared, there = declarations(clang, include), exported(library)
    mistakes = []
    for name, shown in sorted(there.items(), key=lambda item: item[1]):
        about = subject(shown)
        # In front of the name of what is static in a function stands the function's.
        if not {about, about.rsplit("::", 1)[0]} & declared.functions and about not in declared.classes:
            mistakes.append(f"exported, but no public header declares it: {shown}")
    for name, (qualified, file) in sorted(declared.required.items()):
        if name not in there:
            mistakes.append(f"declared in {file}, but not exported: {qualified} ({name})")
    for mistake in mistakes:
        print(mistake)
    print(f"{library}: {len(there)} names, of which the headers require {len(declared.required)}")
    return 1 if mistakes or not declared.required else 0


if __name__ == "__main__":
    sys.exit(main())
