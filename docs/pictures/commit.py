# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""One commit of a store, from begin to the segment."""
from svg import COLOURS, Picture

LINES = [("program", 80), ("store", 215), ("objects", 350), ("regions", 490), ("transactions", 630), ("records, log", 775),
         ("replay, segments", 905)]
X = dict(LINES)
# (from, to, words); from = to: what happens there. None: a line of what the steps before and after belong to.
STEPS = [
    (None, "begin", "memory"),
    ("program", "store", "begin"),
    ("store", "store", "waits until no other writer and no reader is inside"),
    ("store", "regions", "compares pages that stayed open; undoes stray writes"),
    (None, "the program changes objects", "open"),
    ("program", "objects", "make: zeroed memory in the database's own addresses"),
    ("program", "regions", "first write to a closed page: a fault opens it"),
    (None, "commit: what is to be logged", "memory"),
    ("program", "store", "commit"),
    ("store", "regions", "which bytes differ from the committed image?"),
    ("store", "objects", "follow references in them; promote what they reach"),
    ("objects", "transactions", "log promoted objects and bookkeeping"),
    (None, "commit: captured", "live"),
    ("transactions", "records, log", "commit lock: values copied into the open batch"),
    ("transactions", "regions", "before-images renewed, pages closed; next may begin"),
    ("store", "store", "lets the next writer, or readers, in"),
    (None, "durable", "disk"),
    ("store", "records, log", "waits for its batch; if nobody is writing, it writes for all"),
    ("records, log", "records, log", "one write, one sync"),
    ("records, log", "replay, segments", "tail moves, pages are dirty"),
    ("store", "program", "returns; a lazy commit returns before this"),
    (None, "later, in the background: truncation", "disk"),
    ("replay, segments", "replay, segments", "newest values from the log"),
    ("replay, segments", "records, log", "pages are synced: head moves"),
    ("replay, segments", "regions", "private copies and before-images are given back"),
]
TOP, STEP = 60, 27


def draw():
    height = TOP + STEP * len(STEPS) + 30
    p = Picture(990, height, "One commit of a store")
    for name, x in LINES:
        p.box(x - 62, 12, 124, 28, name, "quiet", 12.5, bold=True)
    y = TOP
    bands = [i for i, step in enumerate(STEPS) if step[0] is None] + [len(STEPS)]
    behind = {}  # the colour of each step's band
    for begin, end in zip(bands, bands[1:]):
        _, words, kind = STEPS[begin]
        behind.update(dict.fromkeys(range(begin, end), COLOURS[kind][0]))
        p.box(6, y + STEP * begin - 12, 978, STEP * (end - begin) - 3, kind=kind)
        p.text(14, y + STEP * begin + 5, words, 12, bold=True, halo=COLOURS[kind][0])
    for name, x in LINES:
        p.line([(x, 40), (x, height - 22)], colour="#aaaaaa")
    for number, (begin, end, words) in enumerate(STEPS):
        at = y + STEP * number + 4
        if begin is None:
            continue
        a, b = X[begin], X[end]
        if a == b:
            right = a < 700
            p.line([(a, at - 7), (a + (16 if right else -16), at - 7), (a + (16 if right else -16), at + 3)])
            p.arrow([(a + (16 if right else -16), at + 3), (a, at + 3)])
            label(p, a + 24 if right else a - 24, at + 1, words, "start" if right else "end", behind[number])
        else:
            p.arrow([(a, at + 3), (b, at + 3)])
            label(p, min(a, b) + 8, at - 2, words, "start", behind[number])
    return p


def label(p, x, y, words, anchor, behind):
    p.text(x, y, words, 11.5, anchor, halo=behind)
