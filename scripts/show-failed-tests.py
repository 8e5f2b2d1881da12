#!/usr/bin/env python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Prints what the tests that failed in the last run of ctest have printed: the end of it, for each.

    scripts/show-failed-tests.py build/PRESET/Testing/Temporary
"""
import pathlib
import re
import sys

LINES = 40  # of each test: ends of logs are what people get to see

directory = pathlib.Path(sys.argv[1])
failed = {line.split(":", 1)[1] for line in (directory / "LastTestsFailed.log").read_text().splitlines()}
log = (directory / "LastTest.log").read_text(errors="replace")
for name, output in re.findall(r"^\d+/\d+ Test: (.*?)\n.*?^Output:\n-+\n(.*?)^<end of output>", log, re.M | re.S):
    if name in failed:
        print(f"--- {name}", *output.splitlines()[-LINES:], sep="\n")
