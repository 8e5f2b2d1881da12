# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""One page with all exhibits: a paragraph, tables and plots for each, and for what was not run the reason."""
import html
import json
import time

import exhibits
from results import Results, Shown, Table, number

STYLE = """body{font:16px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0;font-size:14px}caption{text-align:left;font-weight:bold}
td,th{padding:.15rem .6rem;border-bottom:1px solid #ddd;text-align:right}td:first-child,th:first-child{text-align:left}
.missing{color:#a33}.state{color:#666;font-size:14px}.paper{background:#f6f6f0}img{max-width:100%}"""


def table_text(table, kind=""):
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(number(cell))}</td>" for cell in row) + "</tr>" for row in table.rows)
    heads = "".join(f"<th>{html.escape(head)}</th>" for head in table.heads)
    return f'<table class="{kind}"><caption>{html.escape(table.title)}</caption><tr>{heads}</tr>{rows}</table>'


def draw(plot, to):
    """False: there is nothing to draw with, or nothing to draw."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "tenure"  # the same input gives the same file
    matplotlib.rcParams["svg.fonttype"] = "none"
    import matplotlib.pyplot as plt
    lines = {name: points for name, points in plot.lines.items() if points}
    if not lines:
        return False
    figure, axes = plt.subplots(figsize=(7, 3.5))
    for name, points in lines.items():
        axes.plot(*zip(*points), marker=".", label=name, linestyle="--" if name == "plain" else "-")
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(to, metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)
    return True


def state_of(exhibit, runner, by_name):
    """What is there of it: "complete", "in part" or "not run"; and why not all."""
    if not exhibit.jobs:
        return "not run", [exhibit.missing]
    outcomes = {name: runner.outcome(by_name[name]) for name in exhibit.jobs}
    done = [name for name, outcome in outcomes.items() if outcome is not None and outcome.status == "done"]
    reasons = [exhibit.missing] if exhibit.missing else []
    for name, outcome in outcomes.items():
        if outcome is None:
            reasons.append(f"{name}: not run yet.")
        elif outcome.status == "failed":
            reasons.append(f"{name}: failed: {outcome.why}.")
        elif outcome.status == "not run":
            reasons.append(f"{name}: not run: {outcome.why}.")
    return ("not run" if not done else "in part" if reasons else "complete"), reasons


def write(runner, to, plots=True):
    """The page, and next to it what it shows, for machines. Returns how many exhibits are in which state."""
    by_name = {job.name: job for job in runner.jobs}
    papers = exhibits.of_papers()
    (to / "plots").mkdir(parents=True, exist_ok=True)
    sections, machine, states = [], [], {}
    paper = None
    for exhibit in exhibits.all_exhibits():
        if exhibit.paper != paper:
            paper = exhibit.paper
            sections.append(f"<h1>{html.escape(exhibits.PAPERS[paper])}</h1>")
        state, reasons = state_of(exhibit, runner, by_name)
        states[state] = states.get(state, 0) + 1
        done = [by_name[name] for name in exhibit.jobs if (outcome := runner.outcome(by_name[name])) and outcome.status == "done"]
        shown = exhibit.show(Results([runner.results(job) for job in done])) if done else Shown()
        text = [f'<h2 id="{exhibit.key}">{html.escape(exhibit.name)}</h2>',
                f"<p>{html.escape(' '.join([exhibit.about, *shown.sentences]))}</p>"]
        text += [f'<p class="missing">{html.escape(reason)}</p>' for reason in reasons]
        text += [table_text(table) for table in shown.tables]
        for place, plot in enumerate(shown.plots):
            name = f"plots/{exhibit.key}-{place + 1}.svg"
            if plots and draw(plot, to / name):
                text.append(f'<p><img src="{name}" alt="{html.escape(plot.title)}"></p>')
        if exhibit.paper_table:
            of = papers[exhibit.paper_table]
            text.append(table_text(Table(f"The paper's {exhibit.name}", of["heads"], of["rows"]), "paper"))
        if done:
            taken = [runner.outcome(job) for job in done]
            text.append(f'<p class="state">Measured {min(t.when for t in taken)} to {max(t.when for t in taken)}, in '
                        f"{sum(t.seconds for t in taken):.0f} s.</p>")
        sections.append("\n".join(text))
        machine.append({"exhibit": exhibit.key, "paper": exhibit.paper, "name": exhibit.name, "state": state, "reasons": reasons,
                        "sentences": shown.sentences,
                        "tables": [{"title": t.title, "heads": t.heads, "rows": t.rows} for t in shown.tables]})
    drawn = "" if not plots or any((to / "plots").iterdir()) else " There are no plots: Python has no matplotlib, or nothing is measured."
    kind = "Short form: figures of few runs, on little data." if runner.quick else "In full."
    counts = ", ".join(f"{states.get(state, 0)} {state}" for state in ("complete", "in part", "not run"))
    lines = [json.loads(line) for job in runner.jobs if runner.results(job).exists()
             for line in runner.results(job).read_text().splitlines()[:1]]
    where = next((f"Kernel {line['kernel']}, file system {line['file_system']}." for line in lines if "file_system" in line), "")
    page = (f"<!doctype html><html lang=en><meta charset=utf-8><title>Tenure's laboratory</title><style>{STYLE}</style>"
            f"<h1>The laboratory</h1><p>{kind} {where} Exhibits: {counts}. Medians; written {time.strftime('%Y-%m-%d %H:%M')}.{drawn}</p>"
            + "\n".join(sections) + "</html>\n")
    (to / "index.html").write_text(page, encoding="utf-8")
    (to / "exhibits.json").write_text(json.dumps(machine, indent=1) + "\n", encoding="utf-8")
    return states
