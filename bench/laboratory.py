#!/usr/bin/python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Prints the thesis's exhibits about writing (docs/laboratory.md) from the JSON lines of laboratory_oo1 and laboratory_oo7.

Usage: bench/laboratory.py FILE...
"""
import collections
import json
import pathlib
import re
import sys


def read(paths):
    """values[bench][case][contender][metric]: the last median of each."""
    values = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(dict)))
    for path in paths:
        for line in pathlib.Path(path).read_text().splitlines():
            each = json.loads(line)
            values[each["bench"]][each["case"]][each["contender"]][each["metric"]] = each["value"]
    return values


def table(title, heads, rows):
    print(f"\n{title}\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def number(value, digits=3):
    return "–" if value is None else f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:.0f}"


def exhibits(oo1):
    percents = {}
    for case in oo1:
        if found := re.fullmatch(r"update-p(\d+)-(\w+)", case):
            percents[int(found[1])] = (case, f"update-p{found[1]}-cold-{found[2]}")
    order = sorted(percents)
    names = sorted({name for case, _ in percents.values() for name in oo1[case]}, key=lambda n: (n != "plain", n))

    def each(title, value, chosen=names):
        heads = ["", *(f"p = {p / 100:.2f}" for p in order)]
        rows = []
        for name in chosen:
            cells = [value(oo1[percents[p][0]].get(name, {}), oo1[percents[p][1]].get(name, {}), p) for p in order]
            if any(c is not None for c in cells):
                rows.append([name, *(number(c) for c in cells)])
        table(title, heads, rows)

    inserts = [(case, re.sub(r"insert-", "insert-cold-", case)) for case in oo1 if re.fullmatch(r"insert-\w+", case)
               and "cold" not in case]
    for case, cold in inserts:
        rows = [[name, *(number(v) for v in (oo1[cold].get(name, {}).get("milliseconds"), metrics.get("warm"),
                                             metrics.get("milliseconds")))] for name, metrics in sorted(oo1[case].items())]
        table("Figure 5.3, Table 5.7: Insert, ms", ["", "cold", "warm", "hot"], rows)
    each("Figures 5.5, 5.6: cold Update, ms", lambda hot, cold, p: cold.get("milliseconds"))
    each("Figures 5.7, 5.8: warm Update, ms", lambda hot, cold, p: hot.get("warm"))
    each("Figures 5.9, 5.10: hot Update, ms", lambda hot, cold, p: hot.get("milliseconds"))
    each("Figure 5.12: a commit, ms (the intercept)", lambda hot, cold, p: hot.get("fit_a_ms"))
    each("Figure 5.13 (a): a traversal, ms (the slope)", lambda hot, cold, p: hot.get("fit_b_ms"))

    def overhead(hot, p):
        plain = oo1[percents[p][0]]["plain"]
        if "fit_b_ms" not in hot or not hot.get("updated"):
            return None
        return 1e6 * (hot["fit_b_ms"] - plain["fit_b_ms"]) / (2 * hot["updated"])

    each("Tables 5.8, 5.9: an update beyond that of a plain object, ns (slope, divided by two updates of each part)",
         lambda hot, cold, p: overhead(hot, p))

    with_barriers = [n for n in names if re.search("announced|cards|compiled", n)]

    def break_even(hot, p):
        traps = oo1[percents[p][0]].get("tenure-traps", {})
        if "fit_a_ms" not in hot or "fit_a_ms" not in traps or not hot.get("updated"):
            return None
        return (traps["fit_a_ms"] - hot["fit_a_ms"]) / (hot["fit_b_ms"] - traps["fit_b_ms"])

    each("Table 5.10: traversals in one transaction from which on traps are cheaper",
         lambda hot, cold, p: break_even(hot, p), with_barriers)
    table("Parts modified by a traversal (m)", ["", *(f"p = {p / 100:.2f}" for p in order)],
          [["m", *(number(oo1[percents[p][0]]["plain"].get("updated"), 4) for p in order)]])


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    values = read(sys.argv[1:])
    exhibits(values["oo1"])
    for case in sorted(values["oo7"]):
        if re.match(r"T2[ABC]-hot", case):
            table(f"{case}, ms", ["", "iterations and commits", "commits"],
                  [[name, number(m.get("milliseconds")), number(m.get("commit_ms"))]
                   for name, m in sorted(values["oo7"][case].items())])


if __name__ == "__main__":
    main()
