// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure log history | search | diff | replay | forget: what a log and its archive remember.
#pragma once

#include <cstdio>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "history.hpp"

namespace tenure::tools {

// Which log, and where its archive is. Empty: the log that the segment's header names; the archive beside the log.
struct history_place {
  std::string log, archive;
  progress_line* progress = nullptr;
  void hide_progress() const {
    if (progress != nullptr) progress->hide();
  }
};

// All but forget change nothing but the output they are asked for. All return an exit code: exit_damaged where something is
// missing, which is named behind what could be shown.

// `range`: "SEGMENT:OFFSET", "SEGMENT:OFFSET+LENGTH" or "SEGMENT:FROM-TO", in bytes of the segment's data; "SEGMENT": all of it.
int show_history(os::disk& disk, const history_place& where, const std::string& range, bool as_json, std::FILE* out);

struct search_selection {
  std::string segment = {};  // a path; empty: all
  std::optional<std::uint64_t> transaction = {};
  std::string label = {};  // part of it
  std::string value = {};  // bytes that must be in a new value
  std::string since = {}, until = {};
  std::optional<std::uint64_t> limit = {};
  bool with_data = false;
};
int search_history(os::disk& disk, const history_place& where, const search_selection& which, bool as_json,
                   std::FILE* out);

int show_difference(os::disk& disk, const history_place& where, const std::string& range, const std::string& from,
                    const std::string& to, bool as_json, std::FILE* out);

// Makes `output`, the segment as it was. `base`: an older copy of it, for bytes whose old values nobody knows any more.
int replay_history(os::disk& disk, const history_place& where, const std::string& segment, const std::string& until,
                   const std::string& output, const std::string& base, bool as_json, std::FILE* out);

// What a walk through the history has missed.
[[nodiscard]] nlohmann::ordered_json gaps_json(const std::vector<rvm::archive_gap>& gaps);
void print_gaps(std::FILE* out, const std::vector<rvm::archive_gap>& gaps);

// Forgets what the archive has from before the moment. The log must not be in use.
int forget_history(os::disk& disk, const history_place& where, const std::string& at, bool as_json, std::FILE* out);

}  // namespace tenure::tools
