// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "object_picture.hpp"

#include <fmt/format.h>

#include "objects/object_text.hpp"

namespace tenure::tools {

using namespace heap;

namespace {

// A string of the DOT language. Backslashes would begin sequences of its own; "\n" is written for the ends of lines.
std::string dot_text(const std::string& lines) {
  std::string text = "\"";
  for (const char c : lines) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

std::string node_name(address object) { return fmt::format("o{:x}", object); }

// At most so long; not cut inside of a character of UTF-8.
std::string shortened(std::string text) {
  constexpr std::size_t most = 40;
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace

void object_picture::add(const reached_object& which, const shown_value& value) {
  constexpr std::size_t most_fields = 4;
  const sound_object& o = which.object;
  std::string label =
      (o.count() > 1 ? fmt::format("{} x ", o.count()) : "") + shortened(o.type->of->name) + "\n" + address_text(o.at);
  std::size_t fields = 0;
  for (const auto& [name, part] : value.parts) {
    const bool is_scalar = part.is == shown_value::kind::number || part.is == shown_value::kind::text;
    if (!is_scalar || fields == most_fields) continue;
    label += "\n" + name + (name.empty() ? "" : " = ") + shortened(text_of(part));
    ++fields;
  }
  if (value.parts.empty() && value.is == shown_value::kind::text) label += "\n" + shortened(text_of(value));
  nodes_.push_back({which, std::move(label)});
  drawn_.insert(o.at);
}

void object_picture::draw_references(std::FILE* out, const node& from) const {
  const sound_object& o = from.which.object;
  for_each_reference(*o.type, o.facts(), [&](const reference_field& r) {
    if (is_text_pointer(*o.type->of, r.offset % o.type->of->size)) return;
    const sound_object to = in_.find(r.to);
    if (!to || !drawn_.contains(to.at)) return;
    fmt::print(out, "  {} -> {} [label={}];\n", node_name(o.at), node_name(to.at),
               dot_text(shortened(field_text(in_.set(), o.at, r.offset))));
  });
}

void object_picture::draw(std::FILE* out, bool more) const {
  fmt::print(out, "digraph store {{\n  node [shape=box];\n");
  if (more) fmt::print(out, "  label=\"only the first {} objects\";\n", nodes_.size());
  std::size_t root = 0;
  for (const node& n : nodes_) {
    fmt::print(out, "  {} [label={}];\n", node_name(n.which.object.at), dot_text(n.label));
    if (n.which.from != 0 || n.which.root.empty()) continue;
    fmt::print(out, "  r{} [shape=ellipse, label={}];\n  r{} -> {};\n", root, dot_text(shortened(quoted(n.which.root))),
               root, node_name(n.which.object.at));
    ++root;
  }
  for (const node& n : nodes_) draw_references(out, n);
  fmt::print(out, "}}\n");
}

}  // namespace tenure::tools
