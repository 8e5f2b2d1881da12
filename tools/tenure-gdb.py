# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""For gdb: containers and handles of Tenure in words, and debugging of programs whose writes are trapped.

    (gdb) source /usr/local/share/tenure/tenure-gdb.py
    (gdb) tenure-faults

`print` then shows what is in a tenure::string, vector, map, multimap, set, multiset, ordered_index, hash_map, hash_set,
transient, field, in their iterators, and in stores and databases. Nothing of it calls functions of the program, so it works on core
dumps, too. The layouts are those of include/tenure/detail.

tenure-faults passes the SIGSEGV of trapped writes to the program without stopping, and stops where one is not to be resumed:
at a write outside of any transaction, or any other fault.
"""
import gdb
import gdb.printing


class StringPrinter:
    INSIDE_SIZE_AT = 15  # of the bytes of words_

    def __init__(self, value):
        self.value = value

    def to_string(self):
        heap = self.value["heap_"]
        if heap:
            return heap.lazy_string(length=int(self.value["words_"][0]))
        inside = self.value["words_"].address.cast(gdb.lookup_type("char").const().pointer())
        return inside.lazy_string(length=int(inside[self.INSIDE_SIZE_AT]))

    def display_hint(self):
        return "string"


class VectorPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return f"tenure::vector of length {int(self.value['size_'])}, capacity {int(self.value['capacity_'])}"

    def children(self):
        for i in range(int(self.value["size_"])):
            yield f"[{i}]", self.value["first_"][i]

    def display_hint(self):
        return "array"


def tree_entries(tree):
    """The entries of the B+-tree's leaves, in order. [types.containers.exact]"""
    leaf = tree["first_"]
    while leaf:
        node = leaf.dereference()
        for i in range(int(node["count"])):
            yield node["entries"][i]
        leaf = node["next"]


def table_entries(table):
    """The entries of the groups of a hash table: a slot is free if its tag is 0."""
    if not table["groups_"]:
        return
    for n in range(int(table["mask_"]) + 1):
        group = table["groups_"][n]
        for i in range(group["tags"].type.range()[1] + 1):
            if int(group["tags"][i]) != 0:
                yield group["entries"][i]


class SequencePrinter:
    """Sets: [i] = entry."""

    def __init__(self, value, name, entries):
        self.value, self.name, self.entries = value, name, entries

    def to_string(self):
        count = int(self.value["size_"])
        return f"tenure::{self.name} with {count} element{'' if count == 1 else 's'}"

    def children(self):
        for i, entry in enumerate(self.entries(self.value)):
            yield f"[{i}]", entry


class PairsPrinter(SequencePrinter):
    """Maps: [key] = value."""

    def children(self):
        for i, entry in enumerate(self.entries(self.value)):
            yield f"[{2 * i}]", entry["first"]
            yield f"[{2 * i + 1}]", entry["second"]

    def display_hint(self):
        return "map"


class PointedPrinter:
    """Iterators: what they point to."""

    def __init__(self, value, at, is_end):
        self.value, self.at, self.is_end = value, at, is_end

    def to_string(self):
        return "an end" if self.is_end(self.value) else None

    def children(self):
        if not self.is_end(self.value):
            yield "*", self.at(self.value)


class TransientPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return "transient"

    def children(self):
        yield "value", self.value["value_"]


class FieldPrinter:
    """A member that announces its stores looks like its value."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        return self.value["value_"].format_string()


def text(std_string):
    """Of the library's own std::string, whatever printers there are for it."""
    data = std_string["_M_dataplus"]["_M_p"]
    return data.string(length=int(std_string["_M_string_length"]))


NEEDED = "for more, the library needs debug information of its own (-g)"


class StorePrinter:
    def __init__(self, value):
        self.at = int(value["state_"]["state_"])

    def to_string(self):
        if self.at == 0:
            return "tenure::store, moved from"
        try:
            state = gdb.Value(self.at).cast(gdb.lookup_type("tenure::store_state").pointer()).dereference()
        except gdb.error:
            return f"tenure::store; {NEEDED}"
        condition = "closed" if state["closed"]["_M_base"]["_M_i"] else "open for reading" if state["read_only"] else "open"
        return f'tenure::store "{text(state["directory"])}", {condition}'


class DatabasePrinter:
    def __init__(self, value):
        self.state = value["state_"]

    def to_string(self):
        if not self.state:
            return "tenure::database of nothing"
        state = self.state.dereference()
        if not state.type.strip_typedefs().fields():
            return f"tenure::database; {NEEDED}"
        return f'tenure::database "{text(state["name"])}" at {int(state["home"]):#x}'


class TransactionPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return f"{self.value.type.strip_typedefs().unqualified()}, {'open' if self.value['state_'] else 'ended'}"


def leaf_is_left(iterator):
    leaf = iterator["leaf_"]
    return not leaf or int(iterator["at_"]) >= int(leaf.dereference()["count"])


def printers():
    found = gdb.printing.RegexpCollectionPrettyPrinter("tenure")

    def add(name, regexp, printer):
        found.add_printer(name, f"^tenure::{regexp}$", printer)

    add("string", "basic_string<.*>", StringPrinter)
    add("vector", "vector<.*>", VectorPrinter)
    for name in ("map", "multimap", "ordered_index"):
        add(name, f"{name}<.*>", lambda value, name=name: PairsPrinter(value, name, tree_entries))
    for name in ("set", "multiset"):
        add(name, f"{name}<.*>", lambda value, name=name: SequencePrinter(value, name, tree_entries))
    add("hash_map", "hash_map<.*>", lambda value: PairsPrinter(value, "hash_map", table_entries))
    add("hash_set", "hash_set<.*>", lambda value: SequencePrinter(value, "hash_set", table_entries))
    add("tree_iterator", "detail::tree_iterator<.*>",
        lambda value: PointedPrinter(value, lambda i: i["leaf_"].dereference()["entries"][int(i["at_"])], leaf_is_left))
    add("hash_iterator", "detail::hash_iterator<.*>",
        lambda value: PointedPrinter(value, lambda i: i["here_"].dereference()["entries"][int(i["at_"])],
                                     lambda i: i["here_"] == i["end_"]))
    add("transient", "transient<.*>", TransientPrinter)
    add("field", "field<.*>", FieldPrinter)
    add("store", "store", StorePrinter)
    add("database", "database", DatabasePrinter)
    add("transaction", "(read_)?transaction", TransactionPrinter)
    return found


class FaultsCommand(gdb.Command):
    """Do not stop at the writes that Tenure traps, and do stop at faults that end the program.

What was refused is in the frame behind <signal handler called>."""

    def __init__(self):
        super().__init__("tenure-faults", gdb.COMMAND_BREAKPOINTS)

    def invoke(self, _argument, _from_tty):
        gdb.execute("handle SIGSEGV SIGBUS nostop noprint pass", to_string=True)
        pending = gdb.parameter("breakpoint pending")
        gdb.execute("set breakpoint pending on")
        gdb.execute("break tenure::os::(anonymous namespace)::end_by_fault")
        gdb.execute(f"set breakpoint pending {'auto' if pending is None else 'on' if pending else 'off'}")


gdb.printing.register_pretty_printer(gdb.current_objfile(), printers(), replace=True)
FaultsCommand()
