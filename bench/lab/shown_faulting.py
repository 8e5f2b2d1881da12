# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""What the exhibits about object faulting show, of chapter 5 of the thesis."""
from results import Plot, Shown, Table, fastest_and_slowest, number, times

PROGRAMS = {"interpreted": "checks where the cache of methods misses", "checked": "a check at each dereference"}
PHASES = ("reading_ms", "swizzling_ms", "bypassing_ms", "running_ms", "faults", "objects", "redirected", "pages")


def schemes(results):
    rows = results.settings(dict.fromkeys(line["contender"] for line in results.lines))
    return Shown([f"{len(rows)} are measured here."], [Table("Schemes", ["scheme", "what it does"], rows)])


def operation(results, name):
    tables, plots, sentences = [], [], []
    for program, what in PROGRAMS.items():
        cold, warm, hot = (f"{name}-{program}-{when}" for when in ("cold", "warm", "hot"))
        found = results.contenders([hot])
        if not found:
            continue
        counted = ("instructions", "instruction_misses", "data_misses")
        tables.append(Table(f"{what.capitalize()}: ms; instructions and misses of a hot iteration",
                            ["", "cold", "warm", "hot", "instructions", "instruction misses", "data misses"],
                            [[each, *(results.value(case, each) for case in (cold, warm, hot)),
                              *(results.value(hot, each, metric) for metric in counted)] for each in found]))
        tables.append(Table(f"{what.capitalize()}: the parts of the cold iteration",
                            ["", "reading, ms", "swizzling, ms", "bypassing, ms", "running, ms", "faults", "objects", "redirected", "pages"],
                            [[each, *(results.value(cold, each, f"cold_{phase}") for phase in PHASES)] for each in found
                             if each != "non-persistent"]))
        lines = {each: [(n, value) for n in range(1, 11)
                        if (value := results.value(f"{name}-{program}-iterations", each, "milliseconds" if n == 1 else f"iteration_{n}"))
                        is not None] for each in found}
        plots.append(Plot(f"{name.capitalize()}, {program}", "iteration", "ms", lines, log_y=True))
        persistent = {each: results.value(hot, each) for each in found if each != "non-persistent"}
        sentences.append(fastest_and_slowest(persistent, f"Hot, with {what}", "ms"))
        plain, best = results.value(hot, "non-persistent"), min((v for v in persistent.values() if v is not None), default=None)
        if plain is not None and best is not None:
            sentences.append(f"The best takes {times(best, plain)} what objects take that are all in memory.")
        sentences.append(fastest_and_slowest({each: results.value(cold, each) for each in persistent}, "Cold", "ms"))
    return Shown(sentences or ["There are no results."], tables, plots)


def lookup(results):
    return operation(results, "lookup")


def traversal(results):
    return operation(results, "traversal")


def faults(results):
    """Lines through the running times of the iterations of each run."""
    tables, sentences = [], []
    for program, what in PROGRAMS.items():
        cases = [f"{name}-{program}-hot" for name in ("lookup", "traversal")]
        found = [each for each in results.contenders(cases) if each != "non-persistent"]
        if not found:
            continue
        fitted = ("fit_base_ms", "fit_fault_us", "fit_correlation")
        tables.append(Table(f"{what.capitalize()}", ["", "Lookup: base, ms", "a fault, µs", "correlation", "Traversal: base, ms",
                                                     "a fault, µs", "correlation"],
                            [[each, *(results.value(case, each, metric) for case in cases for metric in fitted)] for each in found]))
        trapped, checked = ([results.value(case, each, "fit_fault_us") for case in cases for each in found
                             if each.startswith("trap") == traps and each.endswith("-object")] for traps in (True, False))
        trapped, checked = ([v for v in values if v is not None] for values in (trapped, checked))
        if trapped and checked:
            sentences.append(f"With {what}, a trap and the way out of it take {number(min(trapped))} to {number(max(trapped))} µs, where "
                             f"software takes {number(min(checked))} to {number(max(checked))} (an object at a time).")
    return Shown(sentences or ["There are no results."], tables)
