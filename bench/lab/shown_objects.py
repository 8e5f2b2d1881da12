# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""What the exhibits about objects show: OO1 in a cache, OO7, recoverable memory, and objects of pobj."""
import re

from results import Plot, Shown, Table, fastest_and_slowest, number, times


def architectures(results):
    rows, sentences = [], []
    for operation in ("lookup", "traversal", "reverse", "insert"):
        hot = next((case for case in results.by if re.fullmatch(rf"{operation}-(hot-)?(?!cold)\w+", case)), None)
        if hot is None:
            continue
        cold = hot.replace(f"{operation}-hot-", f"{operation}-").replace(f"{operation}-", f"{operation}-cold-")
        values = {}
        for name in results.contenders([hot]):
            values[name] = results.value(hot, name)
            rows.append([operation, name, results.value(cold, name), results.value(hot, name, "warm"), values[name],
                         results.value(hot, name, "cache-faults"), results.value(hot, name, "cache-page-reads")])
        mapped, cached, locked = (values.get(name) for name in ("tenure", "tenure-cache", "tenure-cache-locks"))
        if None not in (mapped, cached, locked):
            sentences.append(f"A hot {operation} in the cache takes {times(cached, mapped)} what it takes mapped, and with a lock for "
                             f"each object {times(locked, mapped)}.")
    if not rows:
        return Shown(["There are no results."])
    heads = ["operation", "", "cold, ms", "warm, ms", "hot, ms", "faults of the run", "pages read"]
    return Shown(sentences, [Table("OO1", heads, rows), Table("Settings", ["", ""], results.settings(
        dict.fromkeys(row[1] for row in rows)))])


def write_probability(results):
    found = {}
    for case in results.by:
        if match := re.fullmatch(r"update-p(\d+)-(?!cold)(\w+)", case):
            found[int(match[1])] = case
    found = dict(sorted(found.items()))
    if not found:
        return Shown(["There are no results."])
    names = results.contenders(found.values())
    def rows(value):
        return [[name, *(value(case, name) for case in found.values())] for name in names]
    cold = lambda case, name: results.value(re.sub(r"(p\d+-)", r"\1cold-", case), name)
    hot = rows(lambda case, name: results.value(case, name))
    heads = ["", *(f"p = {p / 100:.2f}" for p in found)]
    last = {row[0]: row[-1] for row in hot if row[0] != "plain"}
    lines = {row[0]: [(p / 100, cell) for p, cell in zip(found, row[1:]) if cell is not None] for row in hot}
    commits = rows(lambda case, name: results.value(case, name, "fit_a_ms"))
    return Shown([fastest_and_slowest(last, f"Hot, at p = {list(found)[-1] / 100:.2f}, each traversal a durable transaction", "ms")],
                 [Table("Hot, ms: a transaction for each traversal", heads, hot), Table("Cold, ms", heads, rows(cold)),
                  Table("A commit, ms: the intercept of many traversals in one transaction", heads, commits)],
                 [Plot("Hot Update", "probability of an update", "ms", lines)])


def stabilized(results):
    tables, sentences = [], []
    for case, what in (("figure-7", "the database is made"), ("figure-8", "one Insert")):
        found = [line for line in results.lines if line["case"].startswith(case)]
        counts, sizes = {}, {}
        for line in found:
            metric, _, kind = line["metric"].partition("/")
            if kind and metric == "stabilized-objects":
                counts[kind] = line["value"]
            elif kind and metric == "stabilized-bytes":
                sizes[kind] = line["value"]
        if counts:
            tables.append(Table(f"What becomes persistent when {what}" if case == "figure-7" else f"What becomes persistent by {what}",
                                ["type", "objects", "bytes"], [[kind, counts[kind], sizes.get(kind)] for kind in counts]))
            sentences.append(f"When {what}" if case == "figure-7" else f"By {what}")
            sentences[-1] += f", {number(sum(counts.values()))} objects become persistent."
    if not tables:
        rows = [[line["case"], line["contender"], line["metric"], line["value"]] for line in results.lines]
        tables = [Table("Results", ["case", "", "what", ""], rows)]
    return Shown(sentences or ["The table has them."], tables)


def oo7(results, chosen):
    rows, sentences = [], []
    for case in results.by:
        if not re.match(chosen, case):
            continue
        values = {}
        for name in results.contenders([case]):
            values[name] = results.value(case, name)
            rows.append([case, name, values[name], results.value(case, name, "commit_ms")])
        mapped, plain = values.get("tenure"), values.get("plain")
        if mapped is not None and plain is not None:
            sentences.append(f"{case}: {times(mapped, plain)} the time of plain objects.")
    return Shown(sentences or ["There are no results."], [Table("OO7, ms", ["case", "", "time", "commit"], rows)] if rows else [])


def oo7_insert(results):
    return oo7(results, "insert")


def oo7_traversals(results):
    return oo7(results, "T[126]")


def rvm_sweep(results):
    found = [line for line in results.lines if line["case"].startswith("table-1")]
    if not found:
        return Shown(["There are no results."])
    ratios = sorted({line["rmem_pmem"] for line in found})
    contenders = list(dict.fromkeys(line["contender"] for line in found))
    tables, plots, sentences = [], [], []
    for metric, unit, title in (("tx_per_s", "transactions/s", "Table 1, Figure 8"), ("cpu_us_per_tx", "µs of the processor", "Figure 9")):
        rows, lines = [], {}
        for pattern in dict.fromkeys(line["case"].removeprefix("table-1-") for line in found):
            for name in contenders:
                by = {line["rmem_pmem"]: line["value"] for line in found if line["metric"] == metric
                      and line["contender"] == name and line["case"].endswith(pattern)}
                rows.append([f"{name}, {pattern}", *(by.get(ratio) for ratio in ratios)])
                lines[f"{name}, {pattern}"] = sorted(by.items())
                if name == "tenure" and metric == "tx_per_s" and len(by) > 1:
                    sentences.append(f"{pattern.capitalize()} access: {number(by[min(by)])} transactions a second where recoverable "
                                     f"memory is {min(by):g} % of memory, {number(by[max(by)])} at {max(by):g} %.")
        tables.append(Table(f"{title}: {unit}", ["", *(f"{ratio:g} %" for ratio in ratios)], rows))
        plots.append(Plot(title, "recoverable memory / memory, %", unit, lines))
    return Shown(sentences, tables, plots)


def rvm_savings(results):
    rows, sentences = [], []
    for name in dict.fromkeys(line["contender"] for line in results.lines):
        intra, inter, written = (results.value("table-2", name, metric) for metric in
                                 ("intra_saved_percent", "inter_saved_percent", "bytes_logged"))
        if None in (intra, inter):
            continue
        rows.append([name, written, intra, inter, intra + inter])
        sentences.append(f"{name}: {number(intra)} % within transactions, {number(inter)} % between them.")
    return Shown(sentences or ["There are no results."],
                 [Table("Table 2", ["trace", "bytes to the log", "intra, %", "inter, %", "together, %"], rows)] if rows else [])


def by_size(results, prefix, title, x, unit, metric, log=True):
    found = {int(match[1]): case for case in results.by if (match := re.fullmatch(rf"{prefix}-(\d+)", case))}
    found = dict(sorted(found.items()))
    names = results.contenders(found.values())
    rows = [[name, *(results.value(case, name, metric) for case in found.values())] for name in names]
    lines = {row[0]: [(size, cell) for size, cell in zip(found, row[1:]) if cell is not None] for row in rows}
    return found, Table(f"{title}, {unit}, by {x}", ["", *(number(size) for size in found)], rows), Plot(
        title, x, unit, lines, log, log)


def pobj_list(results):
    shown = Shown()
    for prefix, title in (("save", "Figure 5: saving"), ("walk", "Figure 6: recovering and walking")):
        found, table, plot = by_size(results, prefix, title, "nodes", "ms", "milliseconds")
        if not found:
            continue
        largest = found[max(found)]
        own, manual = (results.value(largest, name) for name in ("tenure-pobj", "manual"))
        if own is not None and manual is not None:
            shown.sentences.append(f"{title}, {number(max(found))} nodes: pobj takes {times(own, manual)} the manual encoding.")
        shown.tables.append(table)
        shown.plots.append(plot)
    return shown if shown.tables else Shown(["There are no results."])


def pobj_objects(results):
    shown = Shown()
    for prefix, title, x in (("allocate", "Figure 7: an object made", "operations in a transaction"),
                             ("write", "Figure 8: a word written", "operations in a transaction"),
                             ("partial", "Figure 9: a word written", "bytes of the object")):
        found, table, plot = by_size(results, prefix, title, x, "µs", "microseconds")
        if not found:
            continue
        few, many = (results.value(found[end(found)], "tenure-pobj", "microseconds") for end in (min, max))
        if few is not None and many is not None:
            shown.sentences.append(f"{title}: pobj takes {number(few)} µs at {number(min(found))}, {number(many)} at "
                                   f"{number(max(found))} ({x}).")
        shown.tables.append(table)
        shown.plots.append(plot)
    return shown if shown.tables else Shown(["There are no results."])
