# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""The exhibits: what each is called in its paper, what the paper says, which commands it comes from, and what it shows of their
results. Digits of the papers are in papers.json, ours in the results; no text here has any.
"""
import dataclasses
import json
import pathlib
import typing

import jobs
import shown_faulting
import shown_objects
import shown_versions
import shown_writes

PAPERS = {
    "thesis": "Hosking 1995: Lightweight Support for Fine-Grained Persistence on Stock Hardware",
    "epvm": "White and DeWitt 1992: Alternative Object Faulting and Pointer Swizzling Strategies",
    "pm3": "Hosking and Chen 1999: Mostly-Copying Reachability-Based Orthogonal Persistence",
    "rvm": "Satyanarayanan and others 1993: Lightweight Recoverable Virtual Memory",
    "pobj": "Arnold and Kamil 2005: pobj",
}


@dataclasses.dataclass(frozen=True)
class Exhibit:
    key: str
    paper: str  # of PAPERS
    name: str  # in the paper
    about: str  # what it shows, and what the paper concludes
    jobs: tuple = ()
    show: typing.Callable | None = None
    missing: str = ""  # what of it, or that all of it, cannot be measured, and why
    paper_table: str = ""  # of papers.json


NOT_BUILT = "Not run: not built yet. "
FAULTING = ("faulting-lookup", "faulting-traversal")
CACHE_READING = tuple(f"cache-{name}" for name in ("lookup", "traversal", "reverse"))
CACHE_UPDATES = tuple(f"cache-update-p{p}" for p in jobs.PERCENTS)
WAYS_UPDATES = tuple(f"ways-update-p{p}" for p in jobs.PERCENTS)


def all_exhibits():
    return [
        Exhibit("thesis-5.1", "thesis", "Table 5.1", "The faulting schemes that chapter 5 compares, as the program that measures them "
                "describes itself.", FAULTING, shown_faulting.schemes, paper_table="thesis-5.1"),
        Exhibit("thesis-5.2", "thesis", "Table 5.2", "The write schemes, as the programs that measure them describe themselves. "
                "Marks of objects and remembered sets of objects are not among ours.",
                ("ways-insert", "updates"), shown_writes.schemes),
        Exhibit("thesis-lookup", "thesis", "Figures 5.1, B.1 to B.3, Table 5.3",
                "Lookup, cold to hot, by faulting scheme. In the thesis, who swizzles least is fastest cold, who bypasses at faults is as "
                "fast hot as objects that are all in memory, and bypassing at the fault of each single object is ruinous.",
                FAULTING[:1], shown_faulting.lookup, paper_table="thesis-5.3"),
        Exhibit("thesis-traversal", "thesis", "Figures 5.2, B.4 to B.6, Table 5.5",
                "Traversal, the same. In the thesis an object at a time is fastest hot, because objects lie in memory as they were reached.",
                FAULTING[1:], shown_faulting.traversal, paper_table="thesis-5.5"),
        Exhibit("thesis-faults", "thesis", "Tables 5.4, 5.6",
                "Running time, without reading, swizzling and bypassing, against the number of faults: a line through the iterations of a "
                "run. In the thesis traps cost more by an order of magnitude and a half.",
                FAULTING, shown_faulting.faults, paper_table="thesis-5.4"),
        Exhibit("thesis-insert", "thesis", "Figure 5.3, Table 5.7",
                "Insert by barrier. In the thesis, pages are by far the worst cold, because pages are unprotected while objects are "
                "swizzled, the scan is the worst hot, and cards differ little.",
                ("ways-insert",), shown_writes.insert, paper_table="thesis-5.7"),
        Exhibit("thesis-5.4", "thesis", "Figure 5.4",
                "The parts of a hot Insert. The thesis has unswizzling of old and of new objects apart, and so has no part as finding is here.",
                ("ways-insert",), shown_writes.insert_phases),
        Exhibit("thesis-update-cold", "thesis", "Figures 5.5, 5.6",
                "Cold Update against the probability that a part is changed. In the thesis the disk hides it, and pages are worst.",
                WAYS_UPDATES, shown_writes.update_cold),
        Exhibit("thesis-update-warm", "thesis", "Figures 5.7, 5.8",
                "Warm Update. In the thesis the scan is worst, then pages; cards follow by size.", WAYS_UPDATES,
                shown_writes.update_warm),
        Exhibit("thesis-update-hot", "thesis", "Figures 5.9, 5.10",
                "Hot Update. In the thesis small cards are best where much is changed, larger ones where little is; pages come near "
                "the largest cards.", WAYS_UPDATES, shown_writes.update_hot),
        Exhibit("thesis-5.11", "thesis", "Figure 5.11",
                "The parts of a hot Update, at seven probabilities. In the thesis unswizzling of old objects, with which differences are "
                "made, decides, and running is the same for all but pages.", WAYS_UPDATES, shown_writes.update_phases),
        Exhibit("thesis-5.12", "thesis", "Figure 5.12",
                "What a checkpoint costs: the intercept of time by the number of traversals in a transaction. In the thesis pages "
                "cost more than cards at every probability.", WAYS_UPDATES, shown_writes.checkpoint),
        Exhibit("thesis-5.13", "thesis", "Figure 5.13",
                "What a traversal costs in a long transaction: the slope. The thesis shows instructions and misses of both caches "
                "beside the time.", WAYS_UPDATES, shown_writes.slope,
                missing="Instructions and misses are not those of the slope: they are counted for a single update, in Tables 5.8 and 5.9."),
        Exhibit("thesis-5.8", "thesis", "Tables 5.8, 5.9",
                "What an update costs that the transaction has made before: in the thesis three or four instructions with cards, "
                "remembered sets many more, and pages nothing but for an accident of the cache.",
                ("updates", *WAYS_UPDATES), shown_writes.an_update, paper_table="thesis-5.9"),
        Exhibit("thesis-5.10", "thesis", "Table 5.10",
                "Traversals in one transaction from which on pages are cheaper than cards of a page. The thesis concludes that pages are "
                "preferable only where transactions are very long, or updates frequent and dense.",
                WAYS_UPDATES, shown_writes.break_even, paper_table="thesis-5.10"),
        Exhibit("epvm-small", "epvm", "small database, tables",
                "OO1's traversal cold, warm and hot, by version; the mapped heap takes the place of ObjectStore, and the page cache of the kernel "
                "that of the server. Besides, all operations of OO1 in the object cache, of which one form has a lock for each object. The "
                "paper's text has no digits. It finds ESM's pins worst hot, the mapped objects worst cold and best hot, page caching ahead of "
                "object caching warm, and differences that vanish when a little is computed at each object.",
                ("epvm-read", *CACHE_READING, "cache-insert"), shown_versions.small),
        Exhibit("epvm-writes", "epvm", "small database, figures",
                "Time against the probability of an update, the number of hot iterations, and the part of an object that is updated. The paper "
                "finds that what is logged decides: whole pages lose where little is changed of many, and a record for each update where much "
                "is changed of an object.", ("epvm-write", "epvm-hot", "epvm-share", *CACHE_UPDATES), shown_versions.writes),
        Exhibit("epvm-large", "epvm", "large database",
                "The same with a database that is larger than the memory that a run may use, with its page cache. The paper finds the mapped objects "
                "worst, and copying of whole pages bad, because they are swapped out.", ("epvm-large",), shown_versions.large,
                missing="One transaction over all iterations is not run: page caching and EPVM 1 hold more there than memory, and need swap space."),
        Exhibit("pm3-stabilized", "pm3", "Figures 7, 8",
                "What becomes persistent when the database of OO7 is made, and by Insert, by type. Here that is exact; the paper counts "
                "what its ambiguous roots keep, too.", ("ambiguous",), shown_objects.stabilized),
        Exhibit("pm3-insert", "pm3", "Figure 9, Table 2", "Insert of OO7.", ("oo7",), shown_objects.oo7_insert),
        Exhibit("pm3-traversals", "pm3", "Figures 10 to 12, Table 3", "T1, T6 and T2 of OO7, cold and hot.", ("oo7",),
                shown_objects.oo7_traversals),
        Exhibit("rvm-1", "rvm", "Table 1, Figures 8, 9",
                "Transactions a second, and processor time, while recoverable memory grows beyond memory. In the paper the disk "
                "bounds everything, and recoverable memory stays ahead of Camelot.", ("rvm-table-1",), shown_objects.rvm_sweep,
                paper_table="rvm-1"),
        Exhibit("rvm-2", "rvm", "Table 2", "What optimizations within and between transactions save of the log.", ("rvm-table-2",),
                shown_objects.rvm_savings),
        Exhibit("pobj-list", "pobj", "Figures 5, 6", "A list of integers saved, and recovered.", ("pobj-list",),
                shown_objects.pobj_list),
        Exhibit("pobj-objects", "pobj", "Figures 7 to 9",
                "An object made, and a word written, by the number of operations in a transaction; a word written by the size of its "
                "object. The paper gains by an order of magnitude from operations in one transaction, and from one update for many.",
                ("pobj-objects",), shown_objects.pobj_objects),
    ]


def of_papers():
    return json.loads((pathlib.Path(__file__).parent / "papers.json").read_text(encoding="utf-8"))
