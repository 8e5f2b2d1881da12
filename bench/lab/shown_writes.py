# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""What the exhibits about writing show, of chapter 5 of the thesis."""
import re

from results import Plot, Shown, Table, fastest_and_slowest, number, times

def cases(results, cold=False):
    """{percent: case} of the updates."""
    found = {}
    for case in results.by:
        if match := re.fullmatch(rf"update-p(\d+)-{'cold-' if cold else ''}(\w+)", case):
            if cold or not match[2].startswith("cold"):
                found[int(match[1])] = case
    return dict(sorted(found.items()))


def by_percent(results, title, unit, metric="milliseconds", cold=False, value=None, but=()):
    """A row for each way, a column for each probability; the same as a plot."""
    found = cases(results, cold)
    names = [name for name in results.contenders(found.values()) if name not in but]
    get = value or (lambda name, case: results.value(case, name, metric))
    rows = [[name, *(get(name, case) for case in found.values())] for name in names]
    rows = [row for row in rows if any(cell is not None for cell in row[1:])]
    table = Table(f"{title}, {unit}", ["", *(f"p = {p / 100:.2f}" for p in found)], rows)
    lines = {row[0]: [(p / 100, cell) for p, cell in zip(found, row[1:]) if cell is not None] for row in rows}
    last = {row[0]: row[-1] for row in rows if row[0] != "plain"}
    return found, table, Plot(title, "probability of an update", unit, lines), last


def shown_by_percent(results, title, unit, **how):
    found, table, plot, last = by_percent(results, title, unit, **how)
    if not found:
        return Shown(["There are no results."])
    p = list(found)[-1] / 100
    return Shown([fastest_and_slowest(last, f"At p = {p:.2f}", unit)], [table], [plot])


def schemes(results):
    rows = results.settings(dict.fromkeys(line["contender"] for line in results.lines if line["contender"].startswith("tenure")))
    return Shown([f"{len(rows)} are measured here."], [Table("Ways to learn what was written", ["way", "what it does"], rows)])


def insert(results):
    hot = next((case for case in results.by if re.fullmatch(r"insert-(?!cold)\w+", case)), None)
    if hot is None:
        return Shown(["There are no results."])
    cold = hot.replace("insert-", "insert-cold-")
    names = results.contenders([hot])
    rows = [[name, results.value(cold, name), results.value(hot, name, "warm"), results.value(hot, name)] for name in names]
    stored = {row[0]: row[3] for row in rows if row[0] != "plain"}
    cold_ones = {row[0]: row[1] for row in rows if row[1] is not None}
    return Shown([fastest_and_slowest(stored, "Hot, with a durable commit", "ms"), fastest_and_slowest(cold_ones, "Cold", "ms")],
                 [Table("Insert, ms", ["", "cold", "warm", "hot"], rows)])


PHASES = {"running-ms": "Running", "finding-ms": "Finding what is logged, and making its records", "writing-ms": "Writing the log, and syncing it"}


def insert_phases(results):
    hot = next((case for case in results.by if re.fullmatch(r"insert-(?!cold)\w+", case)), None)
    rows = [[name, *(results.value(hot, name, phase) for phase in PHASES)] for name in results.contenders([hot])] if hot else []
    rows = [row for row in rows if row[1] is not None]
    if not rows:
        return Shown(["There are no results."])
    return Shown([fastest_and_slowest({row[0]: row[2] for row in rows}, "Finding what is logged", "ms")],
                 [Table("Hot Insert, ms", ["", *PHASES.values()], rows)])


def update_phases(results):
    tables, sentences = [], []
    for phase, what in PHASES.items():
        found, table, _, last = by_percent(results, f"{what}: hot Update", "ms", metric=phase)
        if not table.rows:
            continue
        tables.append(table)
        sentences.append(fastest_and_slowest(last, f"{what}, at p = {list(found)[-1] / 100:.2f}", "ms"))
    return Shown(sentences or ["There are no results."], tables)


def update_cold(results):
    return shown_by_percent(results, "Cold Update", "ms", cold=True)


def update_warm(results):
    return shown_by_percent(results, "Warm Update", "ms", metric="warm")


def update_hot(results):
    return shown_by_percent(results, "Hot Update", "ms")


def checkpoint(results):
    return shown_by_percent(results, "A commit (the intercept)", "ms", metric="fit_a_ms", but=("plain",))


def slope(results):
    return shown_by_percent(results, "A traversal in a long transaction (the slope)", "ms", metric="fit_b_ms")


def beyond_plain(results):
    """Nanoseconds of an update beyond one of a plain object, by the slopes; two updates for each part."""
    def value(name, case):
        own, plain, parts = (results.value(case, who, metric) for who, metric in
                             ((name, "fit_b_ms"), ("plain", "fit_b_ms"), (name, "updated")))
        return None if own is None or plain is None or not parts else 1e6 * (own - plain) / (2 * parts)
    return by_percent(results, "An update beyond that of a plain object, by the slopes", "ns", value=value, but=("plain",))


def an_update(results):
    rows = []
    for case in dict.fromkeys(line["case"] for line in results.lines if line["bench"] == "updates"):
        rows += [[name, case, *(results.value(case, name, metric) for metric in ("nanoseconds", "instructions", "data_misses"))]
                 for name in results.by[case]]
    counted = [row for row in rows if row[3] is not None]
    found, table, _, last = beyond_plain(results)
    sentences = [f"Instructions and misses of the first data cache are counted by valgrind for {len(counted)} of {len(rows)} "
                 "rows; it cannot run the others." if rows else "There are no counts."]
    if found:
        sentences.append(fastest_and_slowest(last, f"By the slopes of OO1, at p = {list(found)[-1] / 100:.2f}", "ns"))
    tables = [Table("An update alone, and a page of a transaction and a whole one with their commits", ["way", "section", "ns", "instructions", "misses, first data cache"], rows)]
    return Shown(sentences, tables + ([table] if found else []))


def break_even(results):
    def value(name, case):
        traps = [results.value(case, "tenure-traps", metric) for metric in ("fit_a_ms", "fit_b_ms")]
        own = [results.value(case, name, metric) for metric in ("fit_a_ms", "fit_b_ms")]
        if None in traps or None in own or not results.value(case, name, "updated") or own[1] <= traps[1]:
            return None
        return (traps[0] - own[0]) / (own[1] - traps[1])
    others = [name for name in results.contenders(cases(results).values())
              if not any(word in name for word in ("cards", "announced", "compiled"))]
    found, table, plot, _ = by_percent(results, "Traversals in one transaction from which on traps are cheaper", "traversals",
                                       value=value, but=others)
    if not found:
        return Shown(["There are no results."])
    cards = next((row for row in table.rows if row[0] == "tenure-cards-4096"), None)
    known = [cell for cell in cards[1:] if cell is not None] if cards else []
    if not known:
        return Shown(["With cards of a page, traps are never cheaper here, or not enough was measured."], [table], [plot])
    return Shown([f"With cards of 4096 bytes it is {number(min(known))} to {number(max(known))} traversals "
                  f"({times(max(known), min(known))} as many between the probabilities)."], [table], [plot])
