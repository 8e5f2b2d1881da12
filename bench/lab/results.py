# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""Results, as exhibits look at them: medians by case, contender and metric; and the tables that they make of them."""
import collections
import dataclasses
import json


def number(value, digits=3):
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}".replace(",", "\u202f") if abs(value) >= 1000 else f"{value:.{digits}g}"


@dataclasses.dataclass
class Table:
    title: str
    heads: list
    rows: list  # of texts and numbers; None: there is no such figure


@dataclasses.dataclass
class Plot:
    title: str
    x: str
    y: str
    lines: dict  # name -> [(x, y)]
    log_x: bool = False
    log_y: bool = False


@dataclasses.dataclass
class Shown:
    """What an exhibit makes of the results: sentences that say what they say, tables, plots."""
    sentences: list = dataclasses.field(default_factory=list)
    tables: list = dataclasses.field(default_factory=list)
    plots: list = dataclasses.field(default_factory=list)


class Results:
    def __init__(self, files):
        self.lines = []
        for file in files:
            if file.exists():
                self.lines += [json.loads(line) for line in file.read_text().splitlines()]
        self.by = collections.defaultdict(lambda: collections.defaultdict(dict))  # [case][contender][metric]
        for line in self.lines:
            self.by[line["case"]][line["contender"]][line["metric"]] = line

    def value(self, case, contender, metric="milliseconds"):
        line = self.by[case][contender].get(metric) if case in self.by and contender in self.by[case] else None
        return None if line is None else line["value"]

    def contenders(self, cases):
        """Those of these cases: the baseline first, and then in the order of the results."""
        found = dict.fromkeys(line["contender"] for line in self.lines if line["case"] in set(cases))
        return sorted(found, key=lambda name: name != "plain")

    def settings(self, contenders):
        found = {line["contender"]: line["setting"] for line in self.lines if line.get("setting")}
        return [[name, found[name]] for name in contenders if name in found]


def times(a, b):
    """How often b goes into a, for sentences."""
    return f"{a / b:.2g} times" if a is not None and b else "–"


def fastest_and_slowest(values, what, unit):
    """A sentence about {name: value}."""
    known = {name: value for name, value in values.items() if value is not None}
    if len(known) < 2:
        return f"{what}: {', '.join(f'{name} {number(value)} {unit}' for name, value in known.items()) or 'no figure'}."
    low, high = min(known, key=known.get), max(known, key=known.get)
    ratio = f", {times(known[high], known[low])} as much" if known[low] > 0 else ""  # a difference may be less than its error
    return f"{what}: the least is {number(known[low])} {unit} ({low}), the most {number(known[high])} {unit} ({high}){ratio}."
