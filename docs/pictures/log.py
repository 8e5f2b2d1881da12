# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""A log: its files, a batch, a group, a record."""
from svg import Picture

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
    p = Picture(960, 530, "A log: files, batch, group and record")
    p.text(20, 26, "The manifest", bold=True)
    row(p, 38, 40, [(1, "copy 0", "disk"), (1, "copy 1", "disk")], 20, 200)
    p.text(20, 94, "which files there are,\nwhere the head is", 11, faint=True)

    p.text(250, 26, "The log files: each has consecutive bytes of the log, from its base LSN on", bold=True)
    files = row(p, 38, 40, [(1, "log.3", "live"), (1, "log.1", "live"), (1, "log.4: free", "quiet"), (1, "log.2: free", "quiet")],
                250, 940)
    head, tail = files[0][0] + 60, files[1][0] + 110
    for at, words in [(head, "head"), (tail, "tail")]:
        p.line([(at, 34), (at, 86)], colour="#222222")
        p.text(at, 100, words, 12.5, "middle", bold=True)
    p.text(files[2][0] + 4, 94, "a file whose bytes are all freed becomes the last one", 11, faint=True)

    p.text(20, 138, "Commits append at the tail. One batch is\nbeing written at a time; after a crash it\ncounts whole or not at all.\n"
           "Truncation writes the oldest changes to\ntheir segments, then moves the head. The\nmanifest has the head; the tail is found by\n"
           "looking for the last whole batch.",
           11.5, faint=True)

    left, right = 350, 940
    p.text(left, 126, "A batch: one write, one sync; all or nothing", bold=True)
    batch = row(p, 138, 40, [(1, "group", "live"), (1, "group", "live"), (1, "group, the last:\nflag 1", "live")], left, right)
    p.line([(tail, 104), (left + 60, 120)], dashed=True)

    p.text(left, 226, "A group: up to 1 MiB, one checksum; begins at a multiple of the block size", bold=True)
    group = row(p, 238, 56, [(1.5, "header, 64 bytes:\nLSN, batch,\nchecksum", "disk"),
                             (1.4, "segment record:\nwhose bytes\nfollow", "disk"),
                             (1.6, "changes", "disk"), (1.6, "changes", "disk"),
                             (0.8, "padding", "quiet")], left, right)
    p.zoom((batch[0][0], batch[0][1], 178), (left, right, 238))

    p.text(left, 342, "A record of changes: what one commit has changed", bold=True)
    record = row(p, 354, 56, [(1.7, "header: type,\nlength, id,\ntime, label", "disk"), (1, "page", "disk"), (1, "offset,\nlength", "disk"),
                              (1.1, "new\nbytes", "live"), (1, "offset,\nlength", "disk"), (1.1, "new\nbytes", "live")],
                 left, right)
    p.zoom((group[2][0], group[2][1], 294), (left, right, 354))
    p.text(left, 432, "A record of bulk runs has, instead of ranges and bytes, the checksums of pages that the transaction has\n"
           "written straight to the segment. There are no old values: nothing uncommitted reaches a segment,\n"
           "so there is nothing to undo.", 11.5, faint=True)
    p.text(left, 490, "Byte by byte: docs/formats.md.", 11.5, faint=True)
    return p
