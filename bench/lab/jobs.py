# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""What is measured: a command each, whose results are appended to a file of JSON lines. Several exhibits may come from one.

`seconds` are first guesses of what a command takes, in full and in the short form. Once it has run here, its own time counts.
"""
import dataclasses
import shutil


@dataclasses.dataclass(frozen=True)
class Job:
    name: str
    program: str
    full: tuple
    quick: tuple
    seconds: tuple  # in full, in the short form
    needs: tuple = ()  # programs of others

    def arguments(self, quick):
        return [*(self.quick if quick else self.full)]

    def why_not(self, programs):
        """Why it cannot run here; None if it can."""
        for other in self.needs:
            if shutil.which(other) is None:
                return f"{other} is not installed"
        if not (programs / self.program).exists():
            return f"{self.program} is not built: run make lab, which builds it"
        return None


CACHES = ("tenure", "tenure-cache", "tenure-cache-locks")
WAYS = ("tenure-cards-16", "tenure-cards", "tenure-cards-256", "tenure-cards-1024", "tenure-cards-4096", "tenure-announced",
        "tenure-compiled-cards", "tenure-hot", "tenure-notes", "tenure-copies", "tenure-traps")
PEERS = ("boost-interprocess", "lmdb", "sqlite-wal", "rocksdb")  # of today: beside all of OO1
QUICK_WAYS = ("tenure-cards", "tenure-cards-4096", "tenure-copies", "tenure-traps")
PERCENTS = ("00", "05", "10", "15", "20", "50", "100")


def oo1(name, program, contenders, quick_contenders, operation, full, quick):
    return Job(name, program,
               ("--parts", "20k", "--contenders", ",".join(contenders + PEERS), "--operations", operation, "--repeat", "15"),
               ("--parts", "20k", "--contenders", ",".join(quick_contenders), "--operations", operation, "--quick", "--repeat", "3"),
               (full, quick))


def all_jobs():
    jobs = [oo1(f"cache-{operation}", "bench_oo1", CACHES, CACHES, operation, 10, 8)
            for operation in ("lookup", "traversal", "reverse", "insert")]
    jobs += [oo1(f"cache-update-p{p}", "bench_oo1", CACHES, CACHES, f"update-p{p}", 15, 12) for p in PERCENTS]
    jobs += [Job(f"faulting-{operation}", "bench_faulting", ("--operations", operation, "--repeat", "15"),
                 ("--operations", operation, "--quick"), (90, 12)) for operation in ("lookup", "traversal")]
    jobs += [Job(f"epvm-{name}", "bench_epvm", ("--cases", name, "--repeat", "15"), ("--cases", quick, "--quick"), seconds)
             for name, quick, seconds in (("read", "read", (60, 8)), ("write", "write-one-p10,write-many-p10,write-many-p100", (90, 12)),
                                          ("hot", "hot-read-100,hot-update-100", (60, 8)), ("share", "share-1,share-100", (40, 10)))]
    large = ("--cases", "read-many,write-many-p10", "--memory", "64", "--pool-pages", "6144", "--small-pool-pages", "4096", "--parts", "1000000")
    jobs.append(Job("epvm-large", "bench_epvm", (*large, "--repeat", "7"),
                    (*large, "--quick", "--repeat", "1"), (180, 90)))
    jobs.append(oo1("ways-insert", "laboratory_oo1", WAYS, QUICK_WAYS, "insert", 25, 12))
    jobs += [oo1(f"ways-update-p{p}", "laboratory_oo1", WAYS, QUICK_WAYS, f"update-p{p}", 25, 14) for p in PERCENTS]
    jobs += [
        Job("updates", "bench_updates", ("--repeat", "15"), ("--quick",), (60, 60)),
        Job("oo7", "bench_oo7", ("--configurations", "small3", "--operations", "T1,T6,T2A,T2B,T2C,insert", "--contenders",
                                 "tenure,boost-interprocess,sqlite"),
            ("--quick", "--configurations", "small3", "--operations", "T1,T6,T2B,insert", "--contenders", "tenure"), (60, 60)),
        Job("ambiguous", "bench_ambiguous", (), ("--quick",), (30, 30)),
        Job("rvm-table-1", "bench_rvm", ("--exhibits", "table-1"), ("--quick", "--exhibits", "table-1"), (1200, 60)),
        Job("rvm-table-2", "bench_rvm", ("--exhibits", "table-2"), ("--quick", "--exhibits", "table-2"), (60, 20)),
        Job("pobj-list", "bench_list", (), ("--quick",), (200, 40)),
        Job("pobj-objects", "bench_objects", (), ("--quick",), (40, 40)),
    ]
    return jobs
