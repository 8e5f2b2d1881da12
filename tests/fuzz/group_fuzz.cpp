// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The parser of groups: a group of any content behind a header that says the truth about its length.
#include <cstring>

#include "fuzz_support.hpp"
#include "records/group.hpp"

using namespace tenure;
using namespace tenure::fuzz;

namespace {

// Records that show nothing, or only an id.
std::size_t others(const rvm::group_view& view, os::const_bytes group) {
  std::size_t count = 0, at = sizeof(rvm::group_header);
  for (std::uint32_t n = 0; n < view.header().records; ++n) {
    rvm::record_header record;
    std::memcpy(&record, group.data() + at, sizeof record);
    count += record.type == rvm::record_type::prepare || record.type == rvm::record_type::outcome ? 1 : 0;
    at += record.length;
  }
  return count;
}

void look_at(const rvm::group_view& view, os::const_bytes group) {
  const auto inside = [&](const void* at, std::size_t length) {
    const auto* const from = static_cast<const std::byte*>(at);
    return length == 0 || (from >= group.data() && from + length <= group.data() + group.size());
  };
  require(view.transactions().empty() || view.prepared().empty(), "a group is of both kinds");
  const auto& transactions = view.is_prepared() ? view.prepared() : view.transactions();
  require(view.segments().size() + transactions.size() + others(view, group) == view.header().records,
          "a record was dropped");
  require(inside(view.global_id().data(), view.global_id().size()), "a global id lies outside of the group");
  for (const auto& transaction : transactions) {
    require(inside(transaction.label.data(), transaction.label.size()), "a label lies outside of the group");
    for (const auto& run : transaction.runs) {
      require(run.segment < view.segments().size(), "a bulk run has no segment");
      require(inside(run.checksums.data(), run.checksums.size()), "checksums lie outside of the group");
      require(run.pages != 0 && run.offset % 4096 == 0, "a bulk run is not of whole pages");
      require(run.offset + run.length() >= run.offset, "a bulk run wraps around");
      if (!run.is_cleared()) (void)run.checksum(run.pages - 1);
    }
    for (const auto& range : transaction.ranges) {
      require(range.segment < view.segments().size(), "a range has no segment");
      require(inside(range.value.data(), range.value.size()), "a value lies outside of the group");
      require(range.offset + range.value.size() >= range.offset, "a range wraps around");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  byte_source in(data, size);
  const std::uint8_t how = in.byte();
  // In an allocation of just this size, so that reading past its end is seen.
  const auto body = in.take_bytes(in.left());
  std::vector<std::byte> group;
  rvm::group_header header{};
  if (how & 1) {  // a header from the input, too
    group.assign(body.begin(), body.end());
    const rvm::group_expectation any{0x1122334455667788, 4096, 512};
    if (!rvm::read_group_header(group, any, header) || !rvm::group_intact(group, header)) return 0;
  } else {
    header.magic = rvm::group_magic;
    header.records = how >> 2;
    header.flags = (how & 2) != 0 ? rvm::group_prepared : 0;
    header.length = static_cast<std::uint32_t>(sizeof header + body.size());
    group.resize(sizeof header);
    group.insert(group.end(), body.begin(), body.end());
    group.shrink_to_fit();
    put(group, 0, header);
  }
  (void)accepted([&] { look_at(rvm::group_view(group, header, "a group"), group); });
  return 0;
}
