#!/usr/bin/env python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""The laboratory (bench/lab): its list of exhibits is that of docs/laboratory.md, and an interrupted run goes on. Programs that
measure nothing take the place of those that do.
"""
import fcntl
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAB = ROOT / "bench" / "lab"
sys.path.insert(0, str(LAB))
sys.dont_write_bytecode = True

import exhibits  # noqa: E402
import jobs  # noqa: E402

# Notes each call, and interrupts or fails where it is told to.
STUB = """#!{python}
import json, os, pathlib, signal, sys
given = dict(zip(sys.argv[1:], sys.argv[2:]))
name = pathlib.Path(given["--json"]).name.removesuffix(".jsonl.new")
calls = pathlib.Path({calls!r})
calls.write_text(calls.read_text() + name + "\\n" if calls.exists() else name + "\\n")
told = pathlib.Path({told!r}).read_text().split() if pathlib.Path({told!r}).exists() else []
if name in told and told[0] == "interrupt":
    os.kill(os.getppid(), signal.SIGINT)
    signal.pause()
if name in told:
    print("no room on the moon")
    sys.exit(1)
case = given.get("--operations", "table-2").split(",")[0] + "-20k"
with open(given["--json"], "w") as out:
    for contender in ("plain", "tenure"):
        for metric in ("milliseconds", "warm", "fit_a_ms", "fit_b_ms"):
            out.write(json.dumps({{"bench": "stub", "case": case, "contender": contender, "metric": metric, "value": 1.5, "n": 2}}) + "\\n")
"""


class Lists(unittest.TestCase):
    def test_exhibits_are_those_of_the_documentation(self):
        text = (ROOT / "docs" / "laboratory.md").read_text(encoding="utf-8")
        section = text.split("## All exhibits", 1)[1].split("\n## ", 1)[0]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| `")]
        documented = [(key.strip("`"), name, state) for key, name, state in rows]
        expected = [(each.key, each.name, "not yet" if not each.jobs else "in part" if each.missing else "yes")
                    for each in exhibits.all_exhibits()]
        self.assertEqual(documented, expected)

    def test_commands_are_known_and_used(self):
        used = {name for each in exhibits.all_exhibits() for name in each.jobs}
        self.assertEqual(used, {job.name for job in jobs.all_jobs()})
        self.assertEqual(len(used), len(jobs.all_jobs()))

    def test_what_is_not_measured_says_why(self):
        for each in exhibits.all_exhibits():
            self.assertIn(each.paper, exhibits.PAPERS)
            self.assertTrue(each.jobs or each.missing, each.key)
            self.assertEqual(bool(each.jobs), each.show is not None, each.key)

    def test_texts_have_no_figures(self):
        for each in exhibits.all_exhibits():
            found = re.findall(r"\d[\d.]* ?(?:ms|µs|ns|s|%|MiB|times|cycles|instructions)\b", each.about + " " + each.missing)
            self.assertEqual(found, [], each.key)

    def test_tables_of_the_papers_are_whole(self):
        papers = exhibits.of_papers()
        self.assertEqual({each.paper_table for each in exhibits.all_exhibits() if each.paper_table} - set(papers), set())
        for name, table in papers.items():
            self.assertEqual({len(row) for row in table["rows"]}, {len(table["heads"])}, name)


class Runs(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.at = pathlib.Path(self.directory.name)
        (self.at / "programs").mkdir()
        for name in {job.program for job in jobs.all_jobs()}:
            stub = self.at / "programs" / name
            stub.write_text(STUB.format(python=sys.executable, calls=str(self.at / "calls"), told=str(self.at / "told")))
            stub.chmod(0o755)

    def run_lab(self, *more):
        (self.at / "calls").unlink(missing_ok=True)
        done = subprocess.run([sys.executable, str(LAB / "run.py"), "--quick", "--no-plots", "--programs", str(self.at / "programs"), "--to",
                               str(self.at / "lab"), *more], capture_output=True, text=True, check=False,
                              env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"})
        calls = (self.at / "calls").read_text().split() if (self.at / "calls").exists() else []
        return done.returncode, done.stdout + done.stderr, calls

    def tell(self, *what):
        (self.at / "told").write_text(" ".join(what))

    def states(self):
        return {each["exhibit"]: each["state"] for each in json.loads((self.at / "lab" / "quick" / "exhibits.json").read_text())}

    def test_an_interrupted_run_goes_on(self):
        names = [job.name for job in jobs.all_jobs()]
        self.tell("interrupt", names[3])
        code, said, calls = self.run_lab()
        self.assertEqual(code, 1, said)
        self.assertEqual(calls, names[:4], said)
        self.assertIn("goes on", said)
        self.tell()
        code, said, calls = self.run_lab()
        self.assertEqual(code, 0, said)
        self.assertEqual(calls, names[3:], said)
        self.assertIn("left]", said)
        self.assertEqual(self.run_lab()[2], [])
        self.assertEqual(self.run_lab("--again", names[5])[2], [names[5]])
        expected = {each.key: "not run" if not each.jobs else "in part" if each.missing else "complete"
                    for each in exhibits.all_exhibits()}
        self.assertEqual(self.states(), expected)

    def test_what_fails_is_told_and_runs_again(self):
        self.tell("fail", "rvm-table-2")
        code, said, _ = self.run_lab("--only", "rvm-2", "pobj-list")
        self.assertEqual(code, 1, said)
        self.assertEqual((self.states()["rvm-2"], self.states()["pobj-list"]), ("not run", "complete"))
        self.assertIn("no room on the moon", (self.at / "lab" / "quick" / "index.html").read_text())
        self.tell()
        code, said, calls = self.run_lab("--only", "rvm-2", "pobj-list")
        self.assertEqual((code, calls), (0, ["rvm-table-2"]), said)

    def test_one_run_at_a_time(self):
        self.run_lab("--page")
        with open(self.at / "lab" / "quick" / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            code, said, calls = self.run_lab("--only", "rvm-2")
        self.assertEqual((code, calls), (1, []), said)
        self.assertIn("another run", said)

    def test_programs_that_are_not_built_are_told(self):
        (self.at / "programs" / "bench_list").unlink()
        code, said, calls = self.run_lab("--only", "pobj-list", "pobj-objects")
        self.assertEqual((code, calls), (0, ["pobj-objects"]), said)
        self.assertIn("bench_list is not built", (self.at / "lab" / "quick" / "index.html").read_text())


if __name__ == "__main__":
    unittest.main()
