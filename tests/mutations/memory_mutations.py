# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
"""The mutations of what is done when memory is short, as in mutations.py."""

MEMORY_MUTATIONS = [
    ("files_that_were_half_moved_are_not_newer", "log/log_file.cpp",
     [("header_.sequence = sequence;", "")],
     "short_memory_of.files_of_the_log_*", "a file of the log that memory was short for is found instead of a newer one"),
    ("old_values_listed_before_they_are_kept", "transactions/transaction_state.cpp",
     [("os::reserve_one_more(undo_);", ""),
      ("const std::size_t saved = saved_.size(); saved_.insert(saved_.end(), from, from + length); undo_.push_back({from, length, saved});",
       "undo_.push_back({from, length, saved_.size()}); saved_.insert(saved_.end(), from, from + length);")],
     "short_memory_of.declarations_*", "an abort puts back what was never kept"),
]
