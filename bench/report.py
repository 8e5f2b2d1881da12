#!/usr/bin/python3
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Makes docs/results.md, its plots and its copy of the results from the JSON lines of a benchmark run.

Usage: bench/report.py build/bench.jsonl

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
import matplotlib.pyplot as plt  # noqa: E402

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
MAIN = {"tx_per_s": "transactions/s", "milliseconds": "ms", "seconds": "s"}  # the metric that a case is about
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


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("results", type=pathlib.Path)
    results = arguments.parse_args().results
    cases = collections.defaultdict(list)
    for text in results.read_text().splitlines():
        line = json.loads(text)
        cases[(line["bench"], line["case"])].append(line)
    plots = DOCS / "plots"
    shutil.rmtree(plots, ignore_errors=True)
    plots.mkdir()
    shutil.copyfile(results, DOCS / "results.jsonl")
    any_line = next(iter(cases.values()))[0]
    out = [
        "# Benchmark results",
        "",
        "Made by `bench/report.py` from [the results for machines](results.jsonl). Medians, with the range of all runs;",
        "ratios are medians of each run against the baseline's run next to it. What the cases are is in",
        "[benchmarks.md](benchmarks.md). The library is red, baselines are grey.",
        "",
        f"Kernel {any_line['kernel']}, file system {any_line['file_system']}, transparent huge pages "
        f"{any_line['huge_pages']}{'; quick run' if any_line.get('quick') else ''}.",
    ]
    for (bench, case), lines in cases.items():
        metric, text = table(case, lines)
        name = f"{bench}-{case}.svg"
        plot(case, metric, lines, plots / name)
        settings = sorted({(l["contender"], l["setting"]) for l in lines if l.get("setting")})
        discarded = max(l.get("discarded", 0) for l in lines)
        out += ["", f"## {bench}: {case}", "", f"![{case}](plots/{name})", "", text, ""]
        if settings:
            out.append("Settings: " + "; ".join(f"{who}: {how}" for who, how in settings) + ".")
        if discarded:
            out.append(f"Up to {discarded} runs of a contender were discarded and repeated: their baseline was far off.")
    (DOCS / "results.md").write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
