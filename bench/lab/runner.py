# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Runs commands one after the other. What has been done is noted in a file for each, so that an interrupted run goes on.

A command runs again if it has failed, if it is another one by now, or if it is asked for.
"""
import dataclasses
import json
import os
import shutil
import subprocess
import time


@dataclasses.dataclass
class Outcome:
    status: str  # "done", "failed", "not run"
    why: str = ""
    seconds: float = 0.0
    when: str = ""


def minutes(seconds):
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Runner:
    def __init__(self, jobs, programs, directory, quick, say=print):
        self.jobs, self.programs, self.directory, self.quick, self.say = jobs, programs, directory, quick, say
        directory.mkdir(parents=True, exist_ok=True)

    def results(self, job):
        return self.directory / f"{job.name}.jsonl"

    def command(self, job):
        return [str(self.programs / job.program), *job.arguments(self.quick)]

    def outcome(self, job):
        """What is noted of it; None if it has not run, or if it was another command."""
        try:
            noted = json.loads((self.directory / f"{job.name}.json").read_text())
        except (OSError, ValueError):
            return None
        if noted.pop("command") != self.command(job):
            return None
        return Outcome(**noted)

    def note(self, job, outcome):
        file = self.directory / f"{job.name}.json"
        beside = file.with_suffix(".new")
        beside.write_text(json.dumps({"command": self.command(job), **dataclasses.asdict(outcome)}, indent=1) + "\n")
        os.replace(beside, file)

    def guess(self, job, pace):
        known = self.outcome(job)
        if known is not None and known.status == "done":
            return known.seconds
        return job.seconds[1 if self.quick else 0] * pace

    def run(self, again=()):
        """Runs what has not been done. True: nothing has failed."""
        to_do = [job for job in self.jobs
                 if job.name in again or (done := self.outcome(job)) is None or done.status != "done"]
        taken = guessed = 0.0  # by what has run now: the other guesses are as far off
        good = True
        if done := len(self.jobs) - len(to_do):
            self.say(f"{done} of {len(self.jobs)} commands have run before; --again NAME measures one again")
        for number, job in enumerate(to_do, start=1):
            pace = taken / guessed if guessed else 1.0
            left = sum(self.guess(other, pace) for other in to_do[number - 1 :] if other.why_not(self.programs) is None)
            head = f"[{number}/{len(to_do)}, about {minutes(left)} left] {job.name}"
            why_not = job.why_not(self.programs)
            if why_not is not None:
                self.say(f"{head}: not run: {why_not}")
                self.note(job, Outcome("not run", why_not))
                continue
            self.say(head)
            outcome = self.run_one(job)
            self.note(job, outcome)
            taken += outcome.seconds
            guessed += job.seconds[1 if self.quick else 0]
            if outcome.status == "failed":
                good = False
                self.say(f"  failed: {outcome.why}; its output is in {self.directory / (job.name + '.log')}")
        return good

    def run_one(self, job):
        new = self.directory / f"{job.name}.jsonl.new"
        new.unlink(missing_ok=True)
        begin = time.time()
        with open(self.directory / f"{job.name}.log", "w", encoding="utf-8") as log:
            scratch = self.directory / "scratch"
            shutil.rmtree(scratch, ignore_errors=True)  # of one that was interrupted
            scratch.mkdir()
            command = [*self.command(job), "--dir", str(scratch), "--json", str(new)]
            code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
            shutil.rmtree(scratch, ignore_errors=True)
        seconds, when = time.time() - begin, time.strftime("%Y-%m-%d %H:%M")
        if code == 0 and new.exists():
            os.replace(new, self.results(job))
            return Outcome("done", "", seconds, when)
        lines = (self.directory / f"{job.name}.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        new.unlink(missing_ok=True)
        return Outcome("failed", (lines[-1] if lines else f"exit code {code}")[:300], seconds, when)
