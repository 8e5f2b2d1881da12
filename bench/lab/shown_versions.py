# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""What the exhibits about the versions of EPVM show."""
import re

import shown_objects
from results import Plot, Shown, Table, number, times


def versions(results):
    return dict.fromkeys(line["contender"] for line in results.lines if line["bench"] == "epvm")


def table(results, title, columns, names):
    """`columns`: head -> case. A row for each version that has a figure."""
    rows = [[name, *(results.value(case, name) for case in columns.values())] for name in names]
    return Table(title, ["", *columns], [row for row in rows if any(cell is not None for cell in row[1:])])


def small(results):
    names = versions(results)
    shown = shown_objects.architectures(results)
    if not names:
        return shown
    one = {"cold": "read-one-cold", "warm": "read-one-warm", "hot": "read-one-hot", "hot, drawing random numbers": "read-one-drawing"}
    many = {"cold": "read-many-cold", "warm": "read-many-warm", "hot": "read-many-hot"}
    sentences = []
    for case, what in (("read-one-cold", "Cold"), ("read-one-warm", "Warm"), ("read-one-hot", "Hot")):
        values = {name: results.value(case, name) for name in names if name != "transient"}
        values = {name: value for name, value in values.items() if value is not None}
        if len(values) > 1:
            order = sorted(values, key=values.get)
            sentences.append(f"{what}, in the order of time: {', '.join(order)}; the last takes {times(values[order[-1]], values[order[0]])} "
                             "what the first takes.")
    mapped, pages = (results.value("read-one-hot", name) for name in ("mapped", "epvm2-pages"))
    drawn, pages_drawn = (results.value("read-one-drawing", name) for name in ("mapped", "epvm2-pages"))
    if None not in (mapped, pages, drawn, pages_drawn):
        sentences.append(f"Hot page caching takes {times(pages, mapped)} what the mapped heap takes, and {times(pages_drawn, drawn)} with a "
                         "random number at each part, which hides the difference as the paper says.")
    settings = [[name, what] for name, what in results.settings(names)]
    return Shown(sentences + shown.sentences,
                 [table(results, "Versions of EPVM: one transaction, no updates, ms", one, names),
                  table(results, "A transaction an iteration, no updates, ms", many, names), Table("Versions", ["", ""], settings), *shown.tables])


def lines(results, pattern, names):
    """{name: [(number in the case's name, value)]}"""
    cases = sorted((int(match[1]), case) for case in results.by if (match := re.fullmatch(pattern, case)))
    return cases, {name: [(n, value) for n, case in cases if (value := results.value(case, name)) is not None] for name in names}


def writes(results):
    names = versions(results)
    shown = shown_objects.write_probability(results)
    tables, plots, sentences = [], [], []
    for title, pattern, x, unit in (
            ("One transaction, against the probability of an update", r"write-one-p(\d+)", "parts updated", "%"),
            ("A durable transaction an iteration, against the probability of an update", r"write-many-p(\d+)", "parts updated", "%"),
            ("One transaction that reads, against the number of hot iterations", r"hot-read-(\d+)", "hot iterations", ""),
            ("One transaction that updates, against the number of hot iterations", r"hot-update-(\d+)", "hot iterations", ""),
            ("One transaction, against the share of an object that is updated", r"share-(\d+)", "share updated", "%")):
        cases, found = lines(results, pattern, names)
        if not cases:
            continue
        tables.append(table(results, f"{title}: ms", {f"{n} {unit}".strip(): case for n, case in cases}, names))
        plots.append(Plot(title, f"{x}, {unit}" if unit else x, "ms", {name: points for name, points in found.items() if name != "transient"},
                          log_y=True))
        last, most = cases[-1]
        values = {name: value for name in names if name != "transient" and (value := results.value(most, name)) is not None}
        if len(values) > 1:
            best = min(values, key=values.get)
            sentences.append(f"{title}: at {last}{' ' + unit if unit else ''}, {best} is ahead with {number(values[best])} ms.")
    logged = {name: results.value("write-many-p10", name, "log_bytes") for name in ("esm", "epvm2-objects", "epvm2-whole-pages")}
    if None not in logged.values():
        sentences.append("At 10 % in several transactions, " + ", ".join(f"{name} logs {number(value / 1024)} KiB" for name, value in logged.items())
                         + " besides headers.")
    return Shown(sentences + shown.sentences, tables + shown.tables, plots + shown.plots)


def large(results):
    names = versions(results)
    columns = {"cold": "large-read-many-cold", "warm": "large-read-many-warm", "hot": "large-read-many-hot",
               "updating, ten iterations and hot ones": "large-write-many-p10"}
    found = table(results, "A transaction an iteration: ms", columns, names)
    if not found.rows:
        return Shown(["There are no results."])
    waits = [[name, results.value("large-read-many-hot", name, "pages"), results.value("large-read-many-hot", name, "waited")] for name in names]
    values = {name: value for name in names if name != "transient" and (value := results.value(columns["warm"], name)) is not None}
    best = min(values, key=values.get)
    sentences = [f"Warm, {best} is ahead with {number(values[best])} ms; the mapped heap takes {number(values.get('mapped'))}."]
    return Shown(sentences, [found, Table("Pages in a run that reads", ["", "read into the pool", "waited for by page faults"], waits)])
