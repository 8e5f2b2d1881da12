# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""The mutations of src/classic, as in mutations.py."""

CLASSIC_MUTATIONS = [
    ("guard_inside_the_last_word", "classic/heap.hpp",
     [("return (length + 7) / 8 * 8;", "return length;")],
     "classic_test classic_rds.whole_words:classic_rds.guards", "programs that read whole words find a guard there"),
    ("last_word_left_as_it_was", "classic/heap.cpp",
     [("const std::size_t rest = length - wanted;", "const std::size_t rest = 0;"),
      ("tx.modify(block + wanted,", "tx.modify(block + length,")],
     "classic_test classic_rds.whole_words", "programs that read whole words find what another block has left"),
    ("begins_with_one_tid_do_not_exclude", "classic/transactions.cpp",
     [("const tid_claim alone(tid);", "")],
     "classic_test classic_transactions.one_tid_*", "two transactions begin, and one of them is never ended"),
    ("unloading_ends_with_a_failure", "classic/rds.cpp",
     [("if (const int bad = stop(); bad != SUCCESS && bad != EHEAP_INIT) return bad;", "if (const int bad = stop(); bad != SUCCESS) return bad;")],
     "classic_test classic_rds.is_unloaded_*", "a heap that was stopped by a failed try cannot be unloaded"),
    ("regions_that_stay_forgotten", "classic/segment.cpp",
     [("if (std::ranges::any_of(defs, [](const rvm_region_def_t& def) { return def.length != 0; })) return last;", "")],
     "classic_test classic_segment.is_released_*", "a region stays mapped and nobody knows it"),
    ("slots_known_after_the_end", "classic/transaction_records.cpp",
     [("known_slot = nullptr; record_pool", "record_pool")],
     "classic_test classic_transactions.of_a_thread_that_ends_*", "a thread that ends uses the slot of another one"),
    ("loaded_region_shorter_than_its_segment_says", "classic/segment.cpp",
     [("if (result != RVM_SUCCESS || region.length == wanted) return result;", "return result;")],
     "classic_test classic_segment.*", "a segment that was cut off is loaded, and the program writes beyond it"),
]
