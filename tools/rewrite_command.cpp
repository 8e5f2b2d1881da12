// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite_command.hpp"

#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tenure/error.hpp>
#include <tenure/rewrite.hpp>
#include <tenure/store.hpp>

#include "json_text.hpp"
#include "log_command.hpp"
#include "object_values.hpp"
#include "objects/verifier.hpp"
#include "output.hpp"
#include "progress_line.hpp"
#include "records/archive_beside.hpp"
#include "store_survey.hpp"

namespace tenure::tools {

namespace {

object_order order_of(const std::string& name) {
  constexpr std::pair<const char*, object_order> orders[] = {{"breadth-first", object_order::breadth_first},
                                                             {"depth-first", object_order::depth_first},
                                                             {"address", object_order::by_address},
                                                             {"type", object_order::by_type},
                                                             {"access", object_order::by_access}};
  for (const auto& [known, order] : orders)
    if (name == known) return order;
  throw error(errc::bad_option,
              "there is no order \"" + name + "\"; there are breadth-first, depth-first, address, type, access");
}

rewrite_options::database_home home_of(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos)
    throw error(errc::bad_option, "\"" + text + "\" is no home; give one as main=0x200000000000");
  return {text.substr(0, equals), static_cast<std::uint64_t>(parse_address(text.substr(equals + 1)))};
}

std::uint64_t bytes_of(const std::string& text) {
  std::uint64_t bytes = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size())
    throw error(errc::bad_option, "\"" + text + "\" is no number of bytes");
  return bytes;
}

}  // namespace

int rewrite_store(const wanted_rewrite& what, bool as_json, std::FILE* out, progress_line* progress) {
  rewrite_options how;
  how.order = order_of(what.order);
  how.accesses = what.accesses;
  if ((how.order == object_order::by_access) == how.accesses.empty())
    throw error(errc::bad_option, "--order access and --accesses FILE belong together");
  for (const std::string& home : what.homes) how.homes.push_back(home_of(home));
  if (!what.reservation.empty()) how.reservation = bytes_of(what.reservation);
  how.on_progress = [progress](const rvm::progress& p) {
    if (progress != nullptr) progress->show(p.phase, p.done, p.total);
  };
  if (what.is_rebase && how.homes.empty()) {
    store_options opening;
    opening.mode = rvm::open_mode::open;  // for writing: a rewriting that was interrupted is completed
    opening.memory.archive = rvm::archive_beside(os::real_disk(), what.path + "/log");
    const store before(what.path, opening);
    for (const database& d : before.databases()) how.homes.push_back({d.name(), 0});
  }
  const std::string& made = what.to.empty() ? what.path : what.to;
  const rewrite_report report = what.to.empty() ? compact(what.path, how) : clone(what.path, what.to, how);
  if (report.accesses_cut_short)
    say(stderr, "tenure",
        (what.accesses +
         ": the recording was cut short, because the kernel allowed no more mappings (vm.max_map_count); "
         "objects that were used later lie behind the others")
            .c_str());
  std::vector<std::string> wrong;
  if (what.check) wrong = heap::verify(surveyed_store(made, how.on_progress).set(), heap::verified_by::reader);
  if (progress != nullptr) progress->hide();
  if (as_json) {
    fmt::print(out, "{}\n",
               json_text({{"store", what.path},
                          {"made", made},
                          {"objects", report.objects},
                          {"bytes", report.bytes},
                          {"left_out", report.left_out},
                          {"weak_cleared", report.weak_cleared},
                          {"file_bytes_before", report.bytes_before},
                          {"file_bytes_after", report.bytes_after},
                          {"accesses_cut_short", report.accesses_cut_short},
                          {"seconds", report.seconds},
                          {"wrong", wrong}}));
  } else {
    fmt::print(out, "{}: {} objects, {} bytes, were written; {} were left out, to which no root leads\n", made,
               report.objects, report.bytes, report.left_out);
    if (report.weak_cleared != 0) fmt::print(out, "  {} weak references to these were cleared\n", report.weak_cleared);
    fmt::print(out, "  {} bytes of files became {}\n", report.bytes_before, report.bytes_after);
    for (const std::string& each : wrong) fmt::print(out, "DAMAGED: {}\n", each);
    if (what.check && wrong.empty()) fmt::print(out, "{}: nothing is wrong\n", made);
  }
  return wrong.empty() ? exit_ok : exit_damaged;
}

}  // namespace tenure::tools
