// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// FNV-1a over 64 bits [Fowler, Noll, Vo]. The hashed values must not depend on the compiler, the build or the process.
// So they include no addresses, and no order except that of the fields.
#include "types/fingerprint.hpp"

#include <string_view>

namespace tenure::types {
namespace {

class hasher {
 public:
  void byte(std::uint8_t value) { state_ = (state_ ^ value) * 0x100000001b3; }
  void number(std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) byte(static_cast<std::uint8_t>(value >> shift));
  }
  void text(std::string_view value) {
    for (const char c : value) byte(static_cast<std::uint8_t>(c));
    byte(0);
  }
  [[nodiscard]] std::uint64_t result() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325;
};

}  // namespace

std::uint64_t fingerprint_of(const type& t) {
  hasher h;
  h.number(t.size);
  h.number(t.alignment);
  h.byte(t.tolerates_stale ? 1 : 0);
  h.number(t.fields.size());
  for (const type_field& f : t.fields) {
    h.text(f.name);
    h.byte(static_cast<std::uint8_t>(f.kind));
    h.byte(static_cast<std::uint8_t>(f.scalar));
    h.number(f.offset);
    h.number(f.size);
    h.number(f.count);
    h.number(f.subobject);
    h.text(f.type_name);
    h.number(f.kind == field_kind::nested ? f.of().fingerprint : 0);
    h.byte(f.only_if ? 1 : 0);
    if (f.only_if) {
      h.number(f.only_if->offset);
      h.byte(f.only_if->width);
      h.number(f.only_if->value);
    }
  }
  return h.result();
}

}  // namespace tenure::types
