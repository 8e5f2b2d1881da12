# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""A log: the file, its area as a ring, a batch, a group, a record."""
import math

from svg import Picture

X, Y, INNER, OUTER = 170, 262, 74, 112  # the ring


def mark(p, angle, words, dx, dy, anchor):
    s, c = math.sin(math.radians(angle)), -math.cos(math.radians(angle))
    p.line([(X + INNER * s, Y + INNER * c), (X + (OUTER + 14) * s, Y + (OUTER + 14) * c)], colour="#222222")
    p.text(X + (OUTER + 18) * s + dx, Y + (OUTER + 18) * c + dy, words, 12.5, anchor, bold=True)


def row(p, y, height, boxes, left, right):
    """Boxes beside each other: (share, words, kind)."""
    unit = (right - left) / sum(share for share, *_ in boxes)
    places = []
    for share, words, kind in boxes:
        p.box(left, y, share * unit, height, words, kind, 11.5)
        places.append((left, left + share * unit))
        left += share * unit
    return places


def draw():
    p = Picture(960, 530, "A log: file, ring, batch, group and record")
    p.text(20, 26, "The file", bold=True)
    file = row(p, 38, 40, [(1.2, "status block,\ncopy 0", "disk"), (1.2, "status block,\ncopy 1", "disk"),
                           (6, "area: the LSN x is at offset 8192 + x mod length", "disk")], 20, 940)
    p.text(file[0][0], 94, "0", 11, faint=True)
    p.text(file[1][0], 94, "4096", 11, faint=True)
    p.text(file[2][0], 94, "8192", 11, faint=True)

    p.text(20, 126, "The area, a ring", bold=True)
    for begin, end, kind in [(40, 85, "live"), (85, 150, "live"), (150, 195, "live"), (195, 240, "open"), (240, 400, "quiet")]:
        p.ring_part(X, Y, INNER, OUTER, begin, end, kind)
    mark(p, 40, "head", 2, 0, "start")
    mark(p, 195, "tail", -2, 12, "end")
    p.text(X, Y - 14, "live: head to tail", 11.5, "middle")
    p.text(X, Y + 3, "3 batches", 11.5, "middle")
    p.text(X, Y + 20, "rest: free", 11.5, "middle", faint=True)
    p.text(20, 424, "Green: durable. Red: the one batch that is\nbeing written; after a crash it counts whole\n"
           "or not at all. Commits append at the tail.\nTruncation writes the oldest changes to their\n"
           "segments, then moves the head. The status\nblocks have the head; the tail is found by\nlooking for the last whole batch.",
           11.5, faint=True)

    left, right = 350, 940
    p.text(left, 126, "A batch: one write, one sync; all or nothing", bold=True)
    batch = row(p, 138, 40, [(1, "group", "live"), (1, "group", "live"), (1, "group, the last:\nflag 1", "live")], left, right)
    ring_end = (X + OUTER * math.sin(math.radians(100)), Y - OUTER * math.cos(math.radians(100)))
    p.line([ring_end, (left, 158)], dashed=True)

    p.text(left, 226, "A group: up to 1 MiB, one checksum; begins at a multiple of the block size", bold=True)
    group = row(p, 238, 56, [(1.5, "header, 64 bytes:\nLSN, batch,\nchecksum", "disk"),
                             (1.4, "segment record:\nwhose bytes\nfollow", "disk"),
                             (1.6, "transaction\nrecord", "disk"), (1.6, "transaction\nrecord", "disk"),
                             (0.8, "padding", "quiet")], left, right)
    p.zoom((batch[0][0], batch[0][1], 178), (left, right, 238))

    p.text(left, 342, "A transaction record: what one commit has changed", bold=True)
    record = row(p, 354, 56, [(1.7, "header: type,\nlength, id,\ntime, label", "disk"), (1.2, "range:\noffset,\nlength", "disk"),
                              (1.2, "new\nbytes", "live"), (1.2, "range:\noffset,\nlength", "disk"), (1.2, "new\nbytes", "live")],
                 left, right)
    p.zoom((group[2][0], group[2][1], 294), (left, right, 354))
    p.text(left, 432, "A record of bulk runs has, instead of ranges and bytes, the checksums of pages that the transaction has\n"
           "written straight to the segment. There are no old values: nothing uncommitted reaches a segment,\n"
           "so there is nothing to undo.", 11.5, faint=True)
    p.text(left, 490, "Byte by byte: docs/formats.md.", 11.5, faint=True)
    return p
