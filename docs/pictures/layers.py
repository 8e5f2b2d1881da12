# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""The folders of src/ as layers."""
from svg import Picture

ROWS = [
    # (height, [(share of the width, title, words, kind)])
    (44, [(1, "your program", None, "quiet")]),
    (62, [(2, "store", "opening, transactions, roots,\nsweeping: tenure::store", "live"),
          (1.3, "pobj", "persistent objects for C,\nreconstructed in memory", "plain"),
          (1.3, "classic", "the C interface\nof Coda's librvm", "plain")]),
    (48, [(1, "collection", "which objects nothing leads to: roots of the program, marking", "live")]),
    (62, [(1.5, "objects", "databases, blocks, birth,\nstabilizing, verifying", "live"),
          (1.1, "containers", "whose memory is\nin a store", "live"),
          (1.1, "types", "pointers in C++ types;\nvtables", "live"),
          (1.4, "recoverable_heap", "an allocator and a loader\nfor recoverable memory", "memory")]),
    (48, [(1, "rvm", "the face of recoverable memory: memory, region, transaction, statistics", "memory")]),
    (48, [(1, "transactions", "what is declared, old values, commit and abort", "memory")]),
    (48, [(1, "regions", "parts of segments in memory: mapping, growth, tracking", "memory")]),
    (48, [(1, "replay", "moving changes from the log to segments: redo, recovery, truncation", "disk")]),
    (48, [(1, "records", "commits as bytes: batches, groups, writing and parsing; the archive", "disk")]),
    (48, [(1, "segments", "files of data: pages, headers, tables of checksums", "disk")]),
    (48, [(1, "log", "blocks in files: head and tail, manifest, growth", "disk")]),
    (48, [(1, "os", "files, virtual memory, faults, process: the only layer with system calls", "plain")]),
]
LEFT, WIDTH, GAP = 20, 860, 8


def draw():
    p = Picture(900, 20 + sum(height + GAP for height, _ in ROWS) + 34, "The layers of Tenure, one folder of src/ each")
    y = 16
    for height, boxes in ROWS:
        unit = (WIDTH - GAP * (len(boxes) - 1)) / sum(share for share, *_ in boxes)
        x = LEFT
        for share, title, words, kind in boxes:
            if words is None:
                p.box(x, y, share * unit, height, title, kind)
            else:
                p.titled_box(x, y, share * unit, height, title, words, kind)
            x += share * unit + GAP
        y += height + GAP
    p.text(LEFT, y + 14, "Includes point down only. Green: plain C++ objects. Blue: recoverable memory. Yellow: what is on the disk.",
           12, faint=True)
    return p
