#!/usr/bin/python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Measures all exhibits of the papers that can be measured here, and makes a page of them.

An interrupted run goes on where it was. Results are in build/lab/full or build/lab/quick: NAME.jsonl for machines, exhibits.json
with all tables, index.html with the page.
"""
import argparse
import fcntl
import pathlib
import sys

sys.dont_write_bytecode = True  # the sources' folder stays as it is
import exhibits  # noqa: E402
import jobs  # noqa: E402
import page  # noqa: E402
import runner  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--quick", action="store_true", help="a short form, in about ten minutes")
    arguments.add_argument("--programs", type=pathlib.Path, default=ROOT / "build" / "user" / "bench", help="where these are")
    arguments.add_argument("--to", type=pathlib.Path, default=ROOT / "build" / "lab", help="where results go")
    arguments.add_argument("--only", nargs="+", default=[], metavar="EXHIBIT", help="what these need")
    arguments.add_argument("--again", nargs="+", default=[], metavar="COMMAND", help="measure these once more")
    arguments.add_argument("--list", action="store_true", help="only list exhibits, and the commands from which they come")
    arguments.add_argument("--no-plots", action="store_true", help="a page without them")
    arguments.add_argument("--page", action="store_true", help="only make the page anew")
    how = arguments.parse_args()
    all_exhibits, all_jobs = exhibits.all_exhibits(), jobs.all_jobs()
    if how.list:
        for each in all_exhibits:
            print(f"{each.key:20} {each.paper:8} {each.name}: {', '.join(each.jobs) or each.missing}")
        return 0
    unknown = set(how.only) - {each.key for each in all_exhibits} | set(how.again) - {job.name for job in all_jobs}
    if unknown:
        sys.exit(f"there is no {', '.join(sorted(unknown))}: --list shows all")
    to = how.to / ("quick" if how.quick else "full")
    all_of = runner.Runner(all_jobs, how.programs, to, how.quick, lambda text: print(text, flush=True))
    wanted = {name for each in all_exhibits if not how.only or each.key in how.only for name in each.jobs}
    good = True
    lock = open(to / "lock", "w", encoding="utf-8")  # until this process ends, however it does
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(f"{to}: another run is measuring there")
    try:
        if not how.page:
            some = runner.Runner([job for job in all_jobs if job.name in wanted], how.programs, to, how.quick, all_of.say)
            good = some.run(how.again)
    except KeyboardInterrupt:
        print("\ninterrupted: the same command goes on from here")
        good = False
    states = page.write(all_of, to, not how.no_plots)
    print(f"{to / 'index.html'}: {', '.join(f'{count} {state}' for state, count in sorted(states.items()))}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
