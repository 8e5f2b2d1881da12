# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""A database: addresses, zones, blocks, objects."""
from log import row
from svg import Picture


def draw():
    p = Picture(960, 640, "A database: addresses, zones, blocks and objects")
    left, right = 20, 940
    p.text(left, 26, "Addresses. What is right of home is the segment's data, byte for byte; it grows up to the reservation's end.", bold=True)
    space = row(p, 38, 44, [(1.5, "vtable slots, 16 MiB,\nin no file", "memory"), (2, "zone 0\n64 MiB", "disk"), (2, "zone 1\n64 MiB", "disk"),
                            (2, "zone 2\n64 MiB", "disk"), (2.2, "addresses that are\nkept for growth", "quiet")], left, right)
    p.text(space[1][0], 98, "home: the same address in every process, so a stored pointer is a pointer", 11.5, faint=True)

    p.text(left, 138, "A zone: 2048 blocks of 32 KiB. The first 21 are bookkeeping.", bold=True)
    zone = row(p, 150, 44, [(2.6, "bookkeeping\n21 blocks", "live"), (1, "small", "disk"), (1, "typed", "disk"),
                            (1, "large", "disk"), (1, "continued", "disk"), (1, "unused", "quiet"), (1, "…", "quiet"),
                            (1, "small", "disk")], left, right)
    p.zoom((space[1][0], space[1][1], 82), (left, right, 150))

    p.text(left, 246, "Bookkeeping: changed by commits only", bold=True)
    books = row(p, 258, 56, [(1.2, "database's\nheader\n(zone 0)", "live"), (1.2, "kind of each\nzone\n(zone 0)", "live"),
                             (3.6, "for each block: kind, length, types of its pages,\nstart bits: one for each 16 bytes,\nset where a persistent object starts", "live")],
                left, 560)
    for (at, _), offset in zip(books, ["0", "4096", "32768"]):
        p.text(at, 330, offset, 11, faint=True)
    p.zoom((zone[0][0], zone[0][1], 194), (left, 560, 258))

    p.text(600, 246, "Kinds of blocks", bold=True)
    p.text(600, 270, "small: objects up to 8 KiB, none across the border\ntyped: eight pages, each with objects of one\ntype and size, which have no headers\nlarge: the first block of one larger object\n"
           "continued: another block of that object\nunused: holds nothing that is persistent", 11.5)

    p.text(left, 372, "A small block: objects start at multiples of 16; 8 bytes before each name its type and its size", bold=True)
    row(p, 384, 50, [(0.5, "type,\nsize", "live"), (1.6, "persistent object", "disk"), (0.5, "type,\nsize", "live"),
                     (1.2, "persistent object", "disk"), (0.9, "hole", "quiet"), (0.5, "type,\nsize", "memory"),
                     (1.4, "transient object:\nnew, not in the start bits", "memory"), (1.2, "free", "quiet")], left, right)
    p.arrow([(916, 194), (916, 384)])

    p.text(left, 454, "A typed page: objects of one type and size, one behind the other; the record of the block names both", bold=True)
    row(p, 466, 40, [(1, "object", "disk"), (1, "object", "disk"), (1, "free", "quiet"), (1, "object", "disk"), (1, "transient", "memory"),
                     (1, "object", "disk"), (1, "free", "quiet"), (1, "free", "quiet"), (0.2, "", "quiet")], left, right)

    p.text(left, 540, "New objects are born in free blocks and holes of the same addresses, known to the process only (blue). A commit makes those that can be\n"
           "reached from persistent objects persistent where they are: it sets their start bits, updates the block's record, and logs their bytes.\n"
           "Type table, root table and type descriptions are objects like any others.", 11.5, faint=True)
    p.text(left, 612, "Byte by byte: docs/formats.md, Databases.", 11.5, faint=True)
    return p
