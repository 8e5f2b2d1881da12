// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/formats.md against the structures: each table of fields says what the compiler says.
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "classic/segment_header.hpp"
#include "objects/block_map.hpp"
#include "pobj/format.hpp"
#include "records/archive_format.hpp"
#include "records/format.hpp"
#include "recoverable_heap/format.hpp"
#include "replay/backup_note.hpp"

namespace tenure {
namespace {

// A field of a structure, or a row of a table. Of an array that the page describes element by element, `each` is an
// element's size.
struct field {
  std::string name;
  std::size_t offset, size, each = 0;
  [[nodiscard]] bool is_reserved() const { return name.starts_with("reserved"); }
  friend bool operator==(const field&, const field&) = default;
};

void PrintTo(const field& f, std::ostream* out) { *out << f.name << " at " << f.offset << ", " << f.size << " bytes"; }

#define FIELD(structure, name) \
  field { #name, offsetof(structure, name), sizeof(structure::name) }
#define ARRAY(structure, name) \
  field { #name, offsetof(structure, name), sizeof(structure::name), sizeof(structure::name[0]) }

// What the page has behind `anchor`, in its first table with the columns offset, size, name, meaning.
struct table {
  const char* anchor;
  std::size_t length;  // of the structure
  std::vector<field> fields;
  std::size_t begin = 0;  // what the table calls the structure's first byte
};

std::vector<table> tables() {
  using namespace rvm;
  constexpr std::size_t behind_record_header = sizeof(record_header);
  return {
      {"### Manifest",
       sizeof(manifest_header),
       {FIELD(manifest_header, magic),
        FIELD(manifest_header, version),
        FIELD(manifest_header, endian),
        FIELD(manifest_header, log_id),
        FIELD(manifest_header, sequence),
        FIELD(manifest_header, generation),
        FIELD(manifest_header, block_size),
        FIELD(manifest_header, size),
        FIELD(manifest_header, max_size),
        FIELD(manifest_header, compatible),
        FIELD(manifest_header, read_only_compatible),
        FIELD(manifest_header, incompatible),
        FIELD(manifest_header, clean),
        FIELD(manifest_header, head),
        FIELD(manifest_header, tail),
        FIELD(manifest_header, created),
        FIELD(manifest_header, written),
        FIELD(manifest_header, totals),
        FIELD(manifest_header, permissions),
        FIELD(manifest_header, length),
        FIELD(manifest_header, first),
        FIELD(manifest_header, file_count),
        FIELD(manifest_header, segment_count),
        FIELD(manifest_header, device),
        FIELD(manifest_header, inode),
        FIELD(manifest_header, unlisted),
        FIELD(manifest_header, reserved),
        FIELD(manifest_header, checksum)}},
      {"**File of a log.**",
       sizeof(log_file_entry),
       {FIELD(log_file_entry, number), FIELD(log_file_entry, reserved), FIELD(log_file_entry, length),
        FIELD(log_file_entry, device), FIELD(log_file_entry, inode)}},
      {"**Listed segment**",
       sizeof(segment_entry),
       {FIELD(segment_entry, id), FIELD(segment_entry, applied), FIELD(segment_entry, device),
        FIELD(segment_entry, inode), FIELD(segment_entry, path), FIELD(segment_entry, membership)}},
      {"### Log file",
       sizeof(log_file_header),
       {FIELD(log_file_header, magic), FIELD(log_file_header, version), FIELD(log_file_header, endian),
        FIELD(log_file_header, log_id), FIELD(log_file_header, sequence), FIELD(log_file_header, number),
        FIELD(log_file_header, block_size), FIELD(log_file_header, base), FIELD(log_file_header, length),
        FIELD(log_file_header, reserved), FIELD(log_file_header, checksum)}},
      {"### Hold",
       sizeof(hold_header),
       {FIELD(hold_header, magic), FIELD(hold_header, version), FIELD(hold_header, endian),
        FIELD(hold_header, position), FIELD(hold_header, taken), FIELD(hold_header, purpose),
        FIELD(hold_header, checksum)}},
      {"### Group",
       sizeof(group_header),
       {FIELD(group_header, magic), FIELD(group_header, checksum), FIELD(group_header, log_id),
        FIELD(group_header, lsn), FIELD(group_header, batch), FIELD(group_header, synced_through),
        FIELD(group_header, length), FIELD(group_header, previous), FIELD(group_header, generation),
        FIELD(group_header, records), FIELD(group_header, flags), FIELD(group_header, reserved)}},
      {"### Record",
       sizeof(record_header),
       {FIELD(record_header, type), FIELD(record_header, flags), FIELD(record_header, length),
        FIELD(record_header, previous), FIELD(record_header, count)}},
      {"**Segment record.**",
       sizeof(segment_body),
       {FIELD(segment_body, id), FIELD(segment_body, raw), FIELD(segment_body, pages)},
       behind_record_header},
      {"**Transaction record.**",
       sizeof(transaction_body),
       {FIELD(transaction_body, id), FIELD(transaction_body, time), FIELD(transaction_body, label),
        FIELD(transaction_body, reserved)},
       behind_record_header},
      {"**Changed page**",
       sizeof(changed_page),
       {FIELD(changed_page, page), FIELD(changed_page, bytes), FIELD(changed_page, segment),
        FIELD(changed_page, ranges)}},
      {"**Changed range**", sizeof(changed_range), {FIELD(changed_range, offset), FIELD(changed_range, length)}},
      {"**Range**",
       sizeof(range_header),
       {FIELD(range_header, offset), FIELD(range_header, length), FIELD(range_header, previous),
        FIELD(range_header, segment), FIELD(range_header, reserved)}},
      {"**Record of bulk runs.**",
       sizeof(bulk_run_header),
       {FIELD(bulk_run_header, offset), FIELD(bulk_run_header, pages), FIELD(bulk_run_header, previous),
        FIELD(bulk_run_header, segment), FIELD(bulk_run_header, flags)}},
      {"## Segment file (formatted)",
       sizeof(segment_header),
       {FIELD(segment_header, magic),
        FIELD(segment_header, version),
        FIELD(segment_header, endian),
        FIELD(segment_header, segment_id),
        FIELD(segment_header, sequence),
        FIELD(segment_header, length),
        FIELD(segment_header, max_length),
        FIELD(segment_header, data_offset),
        FIELD(segment_header, compatible),
        FIELD(segment_header, read_only_compatible),
        FIELD(segment_header, incompatible),
        FIELD(segment_header, in_log),
        FIELD(segment_header, log_id),
        FIELD(segment_header, log_path_length),
        FIELD(segment_header, log_path),
        FIELD(segment_header, bulk_count),
        FIELD(segment_header, home),
        FIELD(segment_header, tag),
        ARRAY(segment_header, bulk),
        FIELD(segment_header, applied),
        FIELD(segment_header, applied_sequence),
        FIELD(segment_header, is_member),
        FIELD(segment_header, was_blank),
        FIELD(segment_header, first_piece),
        FIELD(segment_header, since),
        FIELD(segment_header, reserved),
        FIELD(segment_header, checksum)}},
      {"An entry of `bulk`",
       sizeof(bulk_note),
       {FIELD(bulk_note, page), FIELD(bulk_note, pages), FIELD(bulk_note, transaction), FIELD(bulk_note, generation),
        FIELD(bulk_note, flags)}},
      {"**Header of a part**",
       sizeof(part_header),
       {FIELD(part_header, magic), FIELD(part_header, version), FIELD(part_header, endian), FIELD(part_header, log_id),
        FIELD(part_header, part), FIELD(part_header, created), FIELD(part_header, compatible),
        FIELD(part_header, read_only_compatible), FIELD(part_header, incompatible), FIELD(part_header, log_path_length),
        FIELD(part_header, log_path), FIELD(part_header, reserved), FIELD(part_header, checksum)}},
      {"**Frame**",
       sizeof(frame_header),
       {FIELD(frame_header, magic), FIELD(frame_header, checksum), FIELD(frame_header, part),
        FIELD(frame_header, offset), FIELD(frame_header, from), FIELD(frame_header, to),
        FIELD(frame_header, first_time), FIELD(frame_header, last_time), FIELD(frame_header, transactions),
        FIELD(frame_header, index_length), FIELD(frame_header, index_plain), FIELD(frame_header, stretch_length),
        FIELD(frame_header, stretch_plain), FIELD(frame_header, index_checksum), FIELD(frame_header, stretch_checksum),
        FIELD(frame_header, block_size), FIELD(frame_header, reserved)}},
      {"**index entry**",
       sizeof(index_entry),
       {FIELD(index_entry, id), FIELD(index_entry, raw), FIELD(index_entry, path), FIELD(index_entry, pages)}},
      {"**Header of the note**",
       sizeof(backup_header),
       {FIELD(backup_header, magic), FIELD(backup_header, version), FIELD(backup_header, endian),
        FIELD(backup_header, log_id), FIELD(backup_header, own_id), FIELD(backup_header, from),
        FIELD(backup_header, to), FIELD(backup_header, transaction), FIELD(backup_header, time),
        FIELD(backup_header, made), FIELD(backup_header, label), FIELD(backup_header, segments),
        FIELD(backup_header, length), FIELD(backup_header, incompatible), FIELD(backup_header, reserved),
        FIELD(backup_header, checksum)}},
      {"**Segment**: those that a full backup has",
       sizeof(backup_segment),
       {FIELD(backup_segment, path), FIELD(backup_segment, membership), FIELD(backup_segment, raw),
        FIELD(backup_segment, reserved)}},
      {"## Recoverable heap",
       sizeof(heap_header),
       {FIELD(heap_header, magic), FIELD(heap_header, version), FIELD(heap_header, endian), FIELD(heap_header, length),
        FIELD(heap_header, page), FIELD(heap_header, pages), FIELD(heap_header, bitmaps), FIELD(heap_header, data),
        FIELD(heap_header, compatible), FIELD(heap_header, incompatible), FIELD(heap_header, reserved),
        FIELD(heap_header, checksum), FIELD(heap_header, high_water), FIELD(heap_header, reserved_too),
        FIELD(heap_header, roots)}},
      {"Data pages are given out in **spans**",
       sizeof(page_entry),
       {FIELD(page_entry, kind), FIELD(page_entry, size_class), FIELD(page_entry, reserved), FIELD(page_entry, pages)}},
  };
}

std::vector<table> tables_of_other_layers() {
  return {
      {"## Segment of the classic interface",
       sizeof(classic::segment_header),
       {FIELD(classic::segment_header, magic), FIELD(classic::segment_header, version),
        FIELD(classic::segment_header, count), FIELD(classic::segment_header, checksum),
        FIELD(classic::segment_header, reserved), ARRAY(classic::segment_header, regions)}},
      {"| 32 | 32 each | `regions`",
       sizeof(classic::segment_entry),
       {FIELD(classic::segment_entry, offset), FIELD(classic::segment_entry, length),
        FIELD(classic::segment_entry, address), FIELD(classic::segment_entry, reserved)}},
      {"The **record of a block**",
       sizeof(heap::block_record),
       {FIELD(heap::block_record, entry), ARRAY(heap::block_record, pages), FIELD(heap::block_record, freed_at),
        FIELD(heap::block_record, reserved), FIELD(heap::block_record, starts)}},
      {"Its **entry**",
       sizeof(heap::block_entry),
       {FIELD(heap::block_entry, kind), FIELD(heap::block_entry, reserved), FIELD(heap::block_entry, used),
        FIELD(heap::block_entry, span)}},
      {"An **object's header**",
       sizeof(heap::object_header),
       {FIELD(heap::object_header, type), FIELD(heap::object_header, size)}},
      {"The **header of a database**",
       sizeof(heap::database_header),
       {FIELD(heap::database_header, magic), FIELD(heap::database_header, version), FIELD(heap::database_header, abi),
        FIELD(heap::database_header, compatible), FIELD(heap::database_header, read_only_compatible),
        FIELD(heap::database_header, incompatible), FIELD(heap::database_header, store_id),
        FIELD(heap::database_header, database_id), FIELD(heap::database_header, home),
        FIELD(heap::database_header, reservation), FIELD(heap::database_header, name),
        FIELD(heap::database_header, reserved), FIELD(heap::database_header, checksum),
        FIELD(heap::database_header, reserved_too), FIELD(heap::database_header, blocks_end),
        FIELD(heap::database_header, types), FIELD(heap::database_header, roots), FIELD(heap::database_header, trims)}},
      {"## Persistent objects of pobj",
       sizeof(pobj::store_header),
       {FIELD(pobj::store_header, magic), FIELD(pobj::store_header, version), FIELD(pobj::store_header, reserved),
        FIELD(pobj::store_header, end), FIELD(pobj::store_header, executions), FIELD(pobj::store_header, program)}},
      {"The description of a type",
       sizeof(pobj::stored_type),
       {FIELD(pobj::stored_type, number), FIELD(pobj::stored_type, references), FIELD(pobj::stored_type, transients),
        FIELD(pobj::stored_type, name_length), FIELD(pobj::stored_type, size)}},
      {"A static variable has these fields",
       sizeof(pobj::stored_static),
       {FIELD(pobj::stored_static, named), FIELD(pobj::stored_static, type), FIELD(pobj::stored_static, module_length),
        FIELD(pobj::stored_static, file_length), FIELD(pobj::stored_static, symbol_length),
        FIELD(pobj::stored_static, reserved), FIELD(pobj::stored_static, offset), FIELD(pobj::stored_static, size)}},
  };
}

// The page, which lies above this file, or above the build.
std::optional<std::filesystem::path> page() {
  for (const auto& start : {std::filesystem::absolute(__FILE__), std::filesystem::current_path()})
    for (auto at = start; at.has_relative_path(); at = at.parent_path())
      if (const auto found = at / "docs/formats.md"; std::filesystem::exists(found)) return found;
  return std::nullopt;
}

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::istringstream in(row.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) {
    const auto from = cell.find_first_not_of(' '), to = cell.find_last_not_of(' ');
    cells.push_back(from == std::string::npos ? "" : cell.substr(from, to - from + 1));
  }
  return cells;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// The rows with an offset that name a field; the others are what follows the structure, or reserved.
std::vector<field> documented(const std::vector<std::string>& lines, const table& of) {
  std::vector<field> found;
  bool behind_anchor = false, in_table = false;
  for (const std::string& line : lines) {
    behind_anchor = behind_anchor || line.find(of.anchor) != std::string::npos;
    if (!behind_anchor) continue;
    if (line.starts_with("| offset | size | name |")) {
      in_table = true;
      continue;
    }
    if (!in_table) continue;
    if (!line.starts_with("|")) break;
    const auto cells = cells_of(line);
    if (cells.size() < 3 || !is_number(cells[0]) || !cells[2].starts_with('`')) continue;
    const std::size_t size = std::stoul("0" + cells[1]);
    const bool each = cells[1].ends_with(" each");
    found.push_back({cells[2].substr(1, cells[2].size() - 2), std::stoul(cells[0]), each ? 0 : size, each ? size : 0});
  }
  return found;
}

class formats : public ::testing::Test {
 protected:
  static void compare(const std::vector<table>& all) {
    const auto where = page();
    if (!where) GTEST_SKIP() << "docs/formats.md is not above the build";
    std::vector<std::string> lines;
    std::ifstream in(*where);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    for (const table& of : all) {
      std::vector<field> expected;
      std::size_t end = 0;
      for (field f : of.fields) {
        EXPECT_EQ(f.offset, end) << of.anchor << ": before " << f.name << " a field is missing in this test";
        end = f.offset + f.size;
        f.offset += of.begin;
        if (f.each != 0) f.size = 0;
        if (!f.is_reserved()) expected.push_back(f);
      }
      EXPECT_EQ(end, of.length) << of.anchor << ": fields are missing in this test";
      EXPECT_EQ(documented(lines, of), expected) << of.anchor;
    }
  }
};

TEST_F(formats, of_recoverable_memory_are_as_the_page_says) { compare(tables()); }
TEST_F(formats, of_other_layers_are_as_the_page_says) { compare(tables_of_other_layers()); }

}  // namespace
}  // namespace tenure
