# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""The states of a page: in a tracked region, and in one whose changes are declared."""
from svg import Picture


def state(p, x, y, title, words, kind, width=190, height=76):
    p.titled_box(x, y, width, height, title, words, kind)


def draw():
    p = Picture(960, 640, "The states of a page")
    p.text(20, 26, "A page of a tracked region (every page of a store)", 14, bold=True)

    state(p, 20, 70, "closed, as in the file", "read-only; the kernel may\nevict it: costs no memory\nof the process", "live")
    state(p, 390, 70, "open", "writable; listed, so that the\ncommit compares it with the\ncommitted image", "open")
    state(p, 740, 70, "hot", "open, and stays open: is\ncompared at every begin\nand commit", "open", 200)
    state(p, 390, 230, "closed, with before-image", "read-only; a private copy;\nthe before-image equals it.\nThe log has the change", "memory", 210)
    state(p, 740, 230, "untracked", "writable; new objects only,\nnothing here is committed\nor compared", "quiet", 200)

    p.arrow([(210, 96), (390, 96)])
    p.text(300, 88, "first write: a fault opens it", 11.5, "middle")
    p.arrow([(390, 128), (210, 128)])
    p.text(300, 122, "abort, or nothing differs", 11.5, "middle")
    p.arrow([(580, 96), (740, 96)])
    p.text(660, 76, "written twice within\n64 transactions", 11.5, "middle")
    p.arrow([(740, 132), (700, 132), (600, 230)])
    p.text(700, 158, "left alone by\n32 transactions", 11.5)
    p.arrow([(470, 146), (470, 230)])
    p.text(464, 176, "commit: it has changed,", 11.5, "end")
    p.text(464, 192, "the before-image is renewed", 11.5, "end")
    p.arrow([(520, 230), (520, 146)])
    p.text(526, 206, "next write", 11.5)
    p.arrow([(390, 268), (115, 268), (115, 146)])
    p.text(124, 262, "truncation has written it, it equals the file:", 11.5)
    p.text(124, 286, "before-image and private copy are dropped", 11.5)
    p.arrow([(740, 268), (600, 268)])
    p.text(670, 288, "a commit logs\nobjects on it", 11.5, "middle")
    p.text(20, 332, "The committed image of a page is its before-image, or, without one, the file. A commit finds changes by\n"
           "comparing with it, an abort restores it. Where many pages are written the whole region is opened, and the kernel tells which pages to compare.", 11.5, faint=True)

    p.line([(20, 366), (940, 366)], colour="#cccccc")
    p.text(20, 394, "A page of a region whose changes are declared (set_range)", 14, bold=True)
    y = 424
    state(p, 20, y, "clean", "as in the file; the kernel\nmay evict it", "live", 165)
    state(p, 255, y, "declared", "an open transaction lists it;\nthe old bytes are saved;\na private copy", "open", 185)
    state(p, 515, y, "dirty", "the log has the change,\nthe segment not yet;\nin the page queue", "memory", 170)
    state(p, 775, y, "reserved", "truncation has written it,\ncompares memory with\nthe file", "disk", 165)
    p.arrow([(185, y + 26), (255, y + 26)])
    p.text(220, y + 18, "set_range", 11.5, "middle")
    p.arrow([(255, y + 60), (185, y + 60)])
    p.text(220, y + 52, "abort", 11.5, "middle")
    p.arrow([(440, y + 26), (515, y + 26)])
    p.text(477, y + 18, "commit", 11.5, "middle")
    p.arrow([(515, y + 60), (440, y + 60)])
    p.text(477, y + 52, "set_range", 11.5, "middle")
    p.arrow([(685, y + 38), (775, y + 38)])
    p.text(730, y + 16, "written by\ntruncation", 11.5, "middle")
    p.arrow([(855, y + 76), (855, y + 112), (105, y + 112), (105, y + 76)])
    p.text(480, y + 106, "it equals the file, and no later commit or open transaction has it: the private copy is dropped", 11.5, "middle")
    p.text(20, y + 146, "A page that differs, or that somebody has declared meanwhile, keeps its private copy. A transaction that declares a reserved page waits until it is\n"
           "released. The segment gets committed and synced values only, from the log, never from memory: so a page's state in memory decides nothing\n"
           "about what is on the disk.", 11.5, faint=True)
    return p
