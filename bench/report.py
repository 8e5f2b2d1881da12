#!/usr/bin/python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Makes docs/results.md, its plots and its copy of the results from the JSON lines of benchmark runs.

Usage: bench/report.py build/bench.jsonl...

Of a case that is in several files, the last one's lines hold. So what was measured again replaces what is published:
bench/report.py bench/results/results.jsonl build/bench.jsonl.

What each case means is in docs/benchmarks.md; nothing here knows a figure.
"""
import argparse
import collections
import json
import pathlib
import shutil

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "tenure"  # the same input gives the same file
matplotlib.rcParams["svg.fonttype"] = "none"  # text as text: outlines take three times as many bytes
import matplotlib.pyplot as plt  # noqa: E402

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
RESULTS = pathlib.Path(__file__).resolve().parent / "results"
MAIN = {"tx_per_s": "transactions/s", "milliseconds": "ms", "seconds": "s", "ns_per_tx": "ns a transaction"}  # the metric that a case is about
# Others, as columns: a heading, and digits.
MORE = {
    "cpu_us_per_tx": ("CPU µs/tx", 2),
    "cpu_us_beyond_baseline": ("beyond the baseline", 2),
    "log_bytes_per_tx": ("log B/tx", 0),
    "device_bytes_per_tx": ("device B/tx", 0),
    "device_flushes_per_tx": ("device flushes/tx", 4),
    "truncations": ("truncations", 0),
    "peak_rss_mib": ("peak RSS MiB", 0),
    "log_mib_read": ("log MiB read", 0),
    "pages_written": ("pages written", 0),
}

# Programs with a table of their own, and what their metrics are.
FIGURES = {
    "tracking": {"cpu": "processor time"},
    "paging": {
        "build_s": "building",
        "create_ms": "until it is durable",
        "create_close_ms": "until it is closed",
        "open_ms": "opening, warm",
        "first_object_ms": "opening and the first object, warm",
        "cold_open_ms": "opening, cold",
        "cold_first_object_ms": "opening and the first object, cold",
        "cold_pages": "pages read by a cold opening",
        "mib_per_s": "a backup",
        "commits_per_s": "lazy commits during a backup",
        "walk_ms": "a walk",
        "faults": "major faults a walk",
        "whole_ms": "the first walk through all, cold",
    },
    "collect": {
        "ns_per_node": "a node of a tree",
        "longest_stop_ms": "the longest stop",
        "file_per_live": "the file by what is live",
        "ns_per_object": "an object that is replaced",
        "cpu_ns_per_object": "processor time for it",
        "built_file": "the file by what is live, before",
        "churned_file": "the file by what is live, afterwards",
        "tidied_file": "the file on the disk by what is live, compacted",
        "built_memory": "resident memory by what is live, before",
        "churned_memory": "resident memory by what is live, afterwards",
        "tidied_memory": "resident memory by what is live, compacted",
        "churned_anonymous": "what of it is no page of the file, afterwards",
        "log_mib": "the log's files",
        "tidy_ms": "compacting",
        "cycles": "collections",
        "mreferences_per_s": "references followed",
        "gib_per_s": "objects followed",
        "stop_ms": "the stop",
        "tx_per_s": "transactions",
    },
    "aged": {
        "milliseconds": "time",
        "open_ms": "opening",
        "still_cached": "part of the file that stayed in the page cache",
        "round_ms": "a round of ten parts replaced",
        "cycles": "collections while it grew old",
        "objects_mib": "MiB of objects, garbage too",
        "file_mib": "MiB of the file",
    },
    "rewriting": {
        "milliseconds": "time",
        "mib_per_s": "MiB of the new file a second",
        "before_mib": "MiB of the file before",
        "after_mib": "MiB of the file afterwards",
        "after_by_live": "the file afterwards by the bytes of its objects",
        "memory_mib": "MiB of anonymous memory that it took at most",
        "memory_allowed_mib": "64 MiB and 2 % of the file before",
    },
    "ambiguous": {
        "stabilized-objects": "objects that became persistent",
        "stabilized-bytes": "bytes that became persistent",
        "ambiguous-objects": "objects that only ambiguous roots keep",
        "ambiguous-bytes": "bytes that only ambiguous roots keep",
        "ambiguous-transient": "transient objects that only ambiguous roots keep",
        "dropped-objects": "objects taken out",
        "dropped-bytes": "bytes taken out",
        "touched-pages": "pages of 8 KiB with one of those that only ambiguous roots keep",
        "word-pages": "pages of 8 KiB to which the program's words lead",
        "kept-pages": "pages of 8 KiB that the rest would fill",
        "by-pages-objects": "objects taken out that would stay by pages",
        "by-pages-bytes": "bytes taken out that would stay by pages",
    },
    "barriers": {"microseconds": "µs a transaction", "processor": "of the processor's time"},
    "stores": {"nanoseconds": "ns"},
    "transactions": {"transaction": "µs a transaction", "begin": "begin, µs", "commit": "commit, µs", "abort": "abort, µs"},
    "making": {"milliseconds": "ms", "transaction_ns": "ns a transaction", "bytes_by_payload": "bytes by the objects' own"},
    "cache": {"nanoseconds": "ns", "microseconds": "µs"},
    "faulting": {
        "milliseconds": "ms",
        "fit_base_ms": "base, ms",
        "fit_fault_us": "a fault, µs",
        "instructions": "instructions",
        "data_misses": "misses of the first data cache",
    },
    "epvm": {"milliseconds": "ms", "pages": "pages read", "log_bytes": "bytes logged", "waited": "page faults that waited"},
    "updates": {
        "nanoseconds": "ns",
        "instructions": "instructions",
        "instruction_misses": "misses of the first instruction cache",
        "data_misses": "misses of the first data cache",
        "memory_misses": "misses of the last cache",
    },
}


def number(value):
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}"


def table(case, lines):
    """The case's Markdown table, baselines last."""
    metrics = {name: {l["contender"]: l for l in lines if l["metric"] == name} for name in [*MAIN, *MORE]}
    main = next(m for m in MAIN if metrics[m])
    extra = [m for m in MORE if metrics[m]]
    heads = ["contender", MAIN[main], "min … max", "runs", "ratio", "min … max", "of", *(MORE[m][0] for m in extra)]
    rows = [heads, ["---"] + ["---:"] * (len(heads) - 1)]
    rows[1][6] = "---"
    for who, line in sorted(metrics[main].items(), key=lambda item: "of" not in item[1]):
        row = [who, number(line["value"]), f"{number(line['min'])} … {number(line['max'])}", str(line["n"])]
        if "of" in line:
            row += [f"**{line['ratio']:.3g}**", f"{line['ratio_min']:.3g} … {line['ratio_max']:.3g}", line["of"]]
        else:
            row += ["", "", "(baseline)"]
        for m in extra:
            row.append(f"{metrics[m][who]['value']:.{MORE[m][1]}f}" if who in metrics[m] else "")
        rows.append(row)
    return main, "\n".join("| " + " | ".join(row) + " |" for row in rows)


def plot(case, main, lines, to):
    found = [l for l in lines if l["metric"] == main]
    found.sort(key=lambda l: l["value"], reverse=main != "tx_per_s")
    values = [l["value"] for l in found]
    errors = [[l["value"] - l["min"] for l in found], [l["max"] - l["value"] for l in found]]
    colors = ["#c44e52" if l["contender"].startswith("tenure") else "#8c8c8c" if "of" not in l else "#4c72b0" for l in found]
    figure, axes = plt.subplots(figsize=(7, 0.6 + 0.32 * len(found)))
    axes.barh([l["contender"] for l in found], values, xerr=errors, color=colors, error_kw={"lw": 0.8})
    axes.set_xlabel(MAIN[main])
    if min(values) * 100 < max(values):
        axes.set_xscale("log")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(to, metadata={"Date": None})
    plt.close(figure)


def objects(bench, cases, out, plots):
    """OO1 or OO7: a table for each size or configuration, a row a case; a plot of the ratios to plain objects."""
    size_of = lambda lines: lines[0].get("configuration") or lines[0]["case"].rsplit("-", 1)[1]
    sizes = collections.defaultdict(dict)  # size -> {case: {contender: line}}
    for case, lines in cases.items():
        sizes[size_of(lines)][case] = {l["contender"]: l for l in lines if l["metric"] == "milliseconds"}
    for size, by_case in sizes.items():
        contenders = list(dict.fromkeys(who for lines in by_case.values() for who in lines))
        contenders.sort(key=lambda who: (who != "plain", not who.startswith("tenure")))
        out += ["", f"## {bench}: {size}", "",
                "Milliseconds, medians; in brackets the median of the ratios to plain objects in the run next to it, with "
                "its 95 % interval.", "",
                "| case | " + " | ".join(contenders) + " |", "| --- |" + " ---: |" * len(contenders)]
        for case, lines in by_case.items():
            cells = []
            for who in contenders:
                l = lines.get(who)
                if l is None:
                    cells.append("")
                elif "of" in l:
                    low, high = l["ratio_95"]
                    cells.append(f"{number(l['value'])} ({number(l['ratio'])}; {number(low)} … {number(high)})")
                else:
                    cells.append(number(l["value"]))
            out.append(f"| {case.removesuffix('-' + size)} | " + " | ".join(cells) + " |")
        ratios = {case: {who: l["ratio"] for who, l in lines.items() if "of" in l} for case, lines in by_case.items()}
        ratios = {case: by for case, by in ratios.items() if by}
        if ratios:
            plot_ratios(bench, size, ratios, [who for who in contenders if who != "plain"], plots)
            out += ["", f"![{bench} {size}](../bench/results/{bench}-{size}.svg)"]
        more(bench, size, [l for case in by_case for l in cases[case]], out)
        settings = sorted({(l["contender"], l["setting"]) for case in by_case for l in cases[case] if l.get("setting")})
        runs = sorted({l["n"] for by in by_case.values() for who, l in by.items() if who != "plain"})
        out += ["", f"{' to '.join(map(str, dict.fromkeys([runs[0], runs[-1]])))} runs of each contender. Settings: " if runs else "Settings: "]
        out[-1] += "; ".join(f"{who}: {how}" for who, how in settings) + "."


def plot_ratios(bench, size, ratios, contenders, plots):
    figure, axes = plt.subplots(figsize=(7, 0.8 + 0.28 * len(ratios)))
    names = list(ratios)[::-1]
    for i, who in enumerate(contenders):
        points = [(ratios[case][who], at) for at, case in enumerate(names) if who in ratios[case]]
        if points:
            axes.plot(*zip(*points), "o", markersize=5, label=who,
                      color="#c44e52" if who.startswith("tenure") else f"C{i if i < 3 else i + 1}")
    axes.set_yticks(range(len(names)), [name.removesuffix("-" + size) for name in names])
    axes.set_xscale("log")
    axes.axvline(1, color="#8c8c8c", lw=0.8)
    axes.set_xlabel("time / time over plain objects")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(plots / f"{bench}-{size}.svg", metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)


def more(bench, size, lines, out):
    """What else was measured: commits, fits, and what a system tells of itself."""
    shown = {"commit_ms": "commit", "commit_cold_ms": "first commit", "open_ms": "opening", "warm": "tenth iteration",
             "fit_a_ms": "a of a + b·n", "fit_b_ms": "b of a + b·n"}
    rows = [l for l in lines if l["metric"] in ("fit_a_ms", "fit_b_ms", "commit_ms", "commit_cold_ms") or "-" in l["metric"]]
    if not rows:
        return
    out += ["", f"Of these, {'commits (ms)' if bench == 'oo7' else 'the fit of n traversals in a transaction (ms)'} and what "
            "systems tell of themselves:", "", "| case | contender | what | value | min … max |",
            "| --- | --- | --- | ---: | ---: |"]
    for l in rows:
        if l["contender"] == "plain":
            continue
        out.append(f"| {l['case'].removesuffix('-' + size)} | {l['contender']} | {shown.get(l['metric'], l['metric'])} | "
                   f"{number(l['value'])} | {number(l['min'])} … {number(l['max'])} |")


def figures(bench, lines, out):
    """Programs whose cases are not comparisons of systems: a table for all, a row a figure; those without a name are in the file for
    machines only."""
    out += ["", f"## {bench}", "", "| case | figure | value | min … max | runs | ratio |",
            "| --- | --- | ---: | ---: | ---: | ---: |"]
    for l in lines:
        metric, _, of_type = l["metric"].partition("/")
        if metric not in FIGURES[bench]:
            continue
        who = "" if l["contender"] == "tenure" else f", {l['contender'].removeprefix('tenure-')}"
        unit = "" if l["unit"] == "1" else f" {l['unit']}"
        ratio = f"**{number(l['ratio'])}** of {l['of']}" if "of" in l else ""
        if "ratio_min" in l:
            ratio += f" ({number(l['ratio_min'])} … {number(l['ratio_max'])})"
        figure = FIGURES[bench][metric] + (f": `{of_type}`" if of_type else "")
        out.append(f"| {l['case']}{who} | {figure} | {number(l['value'])}{unit} | "
                   f"{number(l['min'])} … {number(l['max'])} | {l['n']} | {ratio} |")


def sweep(lines, out, plots):
    """Table 1, figures 8 and 9 of the RVM paper: by the ratio of recoverable memory to memory."""
    by = collections.defaultdict(dict)  # (pattern, contender, metric) -> {ratio: value}
    for l in lines:
        by[(l["case"].removeprefix("table-1-"), l["contender"], l["metric"])][l["rmem_pmem"]] = l["value"]
    ratios = sorted({l["rmem_pmem"] for l in lines})
    contenders = list(dict.fromkeys(l["contender"] for l in lines))
    patterns = ["sequential", "random", "localized"]
    out += ["", "## rvm: Table 1, figures 8 and 9", "",
            f"Transactions a second (in brackets: of write and sync of the same bytes next to it, without the limit) by the "
            f"ratio of recoverable memory to the {lines[0]['memory'] >> 20} MiB of memory that the process and its page "
            f"cache have. Medians of {lines[0]['n']} runs."]
    for pattern in patterns:
        out += ["", f"| {pattern} | " + " | ".join(f"{r:g} %" for r in ratios) + " |",
                "| --- |" + " ---: |" * len(ratios)]
        for who in contenders:
            cells = []
            for r in ratios:
                value, of = (by[(pattern, who, m)].get(r) for m in ("tx_per_s", "of_raw"))
                cells.append("" if value is None else f"{number(value)} ({of:.2f})")
            out.append(f"| {who} | " + " | ".join(cells) + " |")
    for name, title, metric, shown in [("figure-8a", "transactions/s", "tx_per_s", ["sequential", "random"]),
                                       ("figure-8b", "transactions/s", "tx_per_s", ["localized"]),
                                       ("figure-9a", "CPU µs a transaction", "cpu_us_per_tx", ["sequential", "random"]),
                                       ("figure-9b", "CPU µs a transaction", "cpu_us_per_tx", ["localized"])]:
        figure, axes = plt.subplots(figsize=(7, 3.5))
        for i, who in enumerate(contenders):
            color = "#c44e52" if who == "tenure" else f"C{i if i < 3 else i + 1}"
            for pattern in shown:
                points = by[(pattern, who, metric)]
                axes.plot(sorted(points), [points[r] for r in sorted(points)], color=color, marker=".",
                          linestyle="--" if pattern == "random" else "-",
                          label=f"{who}, {pattern}" if len(shown) > 1 else who)
        axes.set_xlabel("recoverable memory / memory, %")
        axes.set_ylabel(title)
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=7, frameon=False, ncols=2, loc="upper left", bbox_to_anchor=(1, 1))
        figure.savefig(plots / f"rvm-{name}.svg", metadata={"Date": None}, bbox_inches="tight")
        plt.close(figure)
        out += ["", f"![{name}](../bench/results/rvm-{name}.svg)", "",
                f"{name.replace('-', ' ').capitalize()}: {title}, {' and '.join(shown)} access."]


def pobj_figures(cases, out, plots):
    """Figures 7 to 9 of the pobj paper: microseconds by operations in a transaction, or by bytes of the object."""
    for name, figure_number, axis in [("allocate", 7, "objects made in a transaction"),
                                      ("write", 8, "words written in a transaction"),
                                      ("partial", 9, "bytes of the object")]:
        by = {int(case.rsplit("-", 1)[1]): {l["contender"]: l for l in lines}
              for case, lines in cases.items() if case.startswith(name + "-")}
        if not by:
            continue
        xs = sorted(by)
        contenders = list(dict.fromkeys(who for x in xs for who in by[x]))
        out += ["", f"## objects: {name}", "", f"Microseconds for each, by {axis}; medians of {by[xs[0]][contenders[0]]['n']} "
                "runs, with their ranges.", "", f"| {axis} | " + " | ".join(contenders) + " |",
                "| ---: |" + " ---: |" * len(contenders)]
        figure, axes = plt.subplots(figsize=(7, 3.5))
        for x in xs:
            cells = [f"{number(l['value'])} ({number(l['min'])} … {number(l['max'])})" for l in (by[x][who] for who in contenders)]
            out.append(f"| {number(x)} | " + " | ".join(cells) + " |")
        for i, who in enumerate(contenders):
            own = who.startswith("tenure-pobj")
            axes.plot(xs, [by[x][who]["value"] for x in xs], marker=".", label=who, color="#c44e52" if own else f"C{i}",
                      linestyle={"tenure-pobj-once": "--", "tenure-pobj-whole": ":"}.get(who, "-"))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(axis)
        axes.set_ylabel("µs")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
        figure.savefig(plots / f"objects-{name}.svg", metadata={"Date": None}, bbox_inches="tight")
        plt.close(figure)
        settings = sorted({(l["contender"], l["setting"]) for x in xs for l in by[x].values()})
        out += ["", f"![{name}](../bench/results/objects-{name}.svg)", "", f"Figure {figure_number} of the paper. Settings: " +
                "; ".join(f"{who}: {how}" for who, how in settings) + "."]


def savings(lines, out):
    """Table 2 of the RVM paper."""
    out += ["", "## rvm: Table 2", "", "| trace | transactions | bytes to the log | intra | inter | together |",
            "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for who in dict.fromkeys(l["contender"] for l in lines):
        m = {l["metric"]: l["value"] for l in lines if l["contender"] == who}
        intra, inter = m["intra_saved_percent"], m["inter_saved_percent"]
        out.append(f"| {who} | {m['transactions']:.0f} | {number(m['bytes_logged'])} | {intra:.1f} % | {inter:.1f} % | "
                   f"{intra + inter:.1f} % |")
    out += ["", *(f"{l['contender']}: {l['what']}." for l in lines if l["metric"] == "transactions")]


def last_of_each_case(files):
    """The lines that hold, in the order of the first file that has their case."""
    found = {}
    for path in files:
        of_file = collections.defaultdict(list)
        for one in path.read_text().splitlines():
            line = json.loads(one)
            of_file[line["bench"], line["case"]].append(one)
        found.update(of_file)
    return "".join(one + "\n" for lines in found.values() for one in lines)


def days(cases):
    """When the programs were run: "2026-11-22: list, rvm"."""
    of = collections.defaultdict(dict)  # in order
    for lines in cases:
        for line in lines:
            of[line["date"]][line["bench"]] = True
    return "; ".join(f"{day}: {', '.join(of[day])}" for day in sorted(of))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("results", type=pathlib.Path, nargs="+")
    text = last_of_each_case(arguments.parse_args().results)
    cases = collections.defaultdict(list)
    sweeps, tables_2, of_objects = [], [], {}
    for one in text.splitlines():
        line = json.loads(one)
        if line["case"].startswith("table-1"):
            sweeps.append(line)
        elif line["case"] == "table-2":
            tables_2.append(line)
        else:
            cases[(line["bench"], line["case"])].append(line)
    plots = RESULTS
    shutil.rmtree(plots, ignore_errors=True)
    plots.mkdir()
    (RESULTS / "results.jsonl").write_text(text)
    any_line = next(l for lines in cases.values() for l in lines if "huge_pages" in l)
    out = [
        "# Benchmark results",
        "",
        "Made by `bench/report.py` from [the results for machines](../bench/results/results.jsonl). Medians, with the range of all runs;",
        "ratios are medians of each run against the baseline's run next to it. What the cases are is in",
        "[benchmarks.md](benchmarks.md). The library is red, baselines are grey.",
        "",
        f"Kernel {any_line['kernel']}, file system {any_line['file_system']}, transparent huge pages "
        f"{any_line['huge_pages']}{'; quick run' if any_line.get('quick') else ''}.",
        f"Measured on {days([*cases.values(), sweeps, tables_2])}.",
    ]
    for bench in ("oo1", "oo7"):
        of_objects[bench] = {case: lines for (name, case), lines in cases.items() if name == bench}
    for (bench, case), lines in cases.items():
        if bench in of_objects or bench in FIGURES or bench == "objects":
            continue
        metric, text = table(case, lines)
        name = f"{bench}-{case}.svg"
        plot(case, metric, lines, plots / name)
        settings = sorted({(l["contender"], l["setting"]) for l in lines if l.get("setting")})
        discarded = max(l.get("discarded", 0) for l in lines)
        out += ["", f"## {bench}: {case}", "", f"![{case}](../bench/results/{name})", "", text, ""]
        if settings:
            out.append("Settings: " + "; ".join(f"{who}: {how}" for who, how in settings) + ".")
        if discarded:
            out.append(f"Up to {discarded} runs of a contender were discarded and repeated: their baseline was far off.")
    for bench, found in of_objects.items():
        if found:
            objects(bench, found, out, plots)
    pobj_figures({case: lines for (name, case), lines in cases.items() if name == "objects"}, out, plots)
    for bench in FIGURES:
        found = [line for (name, _), lines in cases.items() if name == bench for line in lines]
        if found:
            figures(bench, found, out)
    if sweeps:
        sweep(sweeps, out, plots)
    if tables_2:
        savings(tables_2, out)
    (DOCS / "results.md").write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
