// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/converted_values.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include <tenure/error.hpp>

#include "os/system_error.hpp"

namespace tenure::rewriting {

namespace {

class converting {
 public:
  converting(const types::value_conversion& how, const std::byte* from, std::byte* to,
             detail::conversion_memory& further)
      : how_(how), from_(from), to_(to), further_(further) {}

  void run() {
    const detail::conversion_memory::scope containers_use(further_);
    for (const auto& f : how_.fills)
      if (how_.holds(f, from_)) fill(to_ + f.to, how_.images[f.image]);
    for (const auto& c : how_.copies)
      if (how_.holds(c, from_)) std::memcpy(to_ + c.to, from_ + c.from, c.length);
    for (const auto& n : how_.numbers)
      if (how_.holds(n, from_) && !types::convert_number(n.was, from_ + n.from, n.is, to_ + n.to)) refuse(n.path);
    for (const auto& z : how_.left_out)
      if (how_.holds(z, from_) &&
          std::any_of(from_ + z.from, from_ + z.from + z.length, [](std::byte b) { return b != std::byte{}; }))
        refuse(z.path);
    if (how_.functions.empty()) return;
    conversion means(further_);
    for (const auto& f : how_.functions)
      if (how_.holds(f, from_)) call(f, means);
  }

 private:
  static void fill(std::byte* at, const types::value_conversion::image& with) {
    if (with.constructed != nullptr) {
      std::memset(at, 0, with.constructed->size);
      return with.constructed->operations->construct(at);
    }
    std::memcpy(at, with.bytes.data(), with.bytes.size());
    for (const std::uint64_t word : with.own_addresses) {
      std::uintptr_t value;
      std::memcpy(&value, at + word, sizeof value);
      value += reinterpret_cast<std::uintptr_t>(at);
      std::memcpy(at + word, &value, sizeof value);
    }
  }
  void call(const types::value_conversion::called& f, conversion& means) {
    try {
      f.function->convert(f.function->typed, {*f.was, from_ + f.from, 1, further_}, to_ + f.to, means);
    } catch (const error& e) {  // what it asked of its arguments is not there
      if (e.code() != errc::schema_mismatch) throw;
      throw error(errc::schema_mismatch, "the function for " + object() + ": " + e.what());
    }
  }
  [[nodiscard]] std::string object() const {
    return "a " + how_.from->name + " at " + os::hexadecimal(further_.stored_at(from_));
  }
  [[noreturn]] void refuse(const std::string& path) const {
    throw error(errc::schema_mismatch, object() + " has a value in `" + path +
                                           "` that does not fit; nothing was changed; `tenure dump` shows it");
  }

  const types::value_conversion& how_;
  const std::byte* const from_;
  std::byte* const to_;
  detail::conversion_memory& further_;
};

}  // namespace

void convert(const types::value_conversion& how, std::span<const std::byte> old, std::uint64_t first, std::uint64_t end,
             value_bytes& into, detail::conversion_memory& further) {
  const std::uint64_t was = how.from->size, is = how.to->size;
  into.assign((was == 0 ? 1 : old.size() / was) * is, std::byte{});
  for (std::uint64_t n = first; n < end; ++n) convert_one(how, old.data() + n * was, into.data() + n * is, further);
}

void convert(const types::value_conversion& how, std::span<const std::byte> old, value_bytes& into,
             detail::conversion_memory& further) {
  convert(how, old, 0, how.from->size == 0 ? 1 : old.size() / how.from->size, into, further);
}

void convert_one(const types::value_conversion& how, const std::byte* was, std::byte* into,
                 detail::conversion_memory& further) {
  converting(how, was, into, further).run();
}

}  // namespace tenure::rewriting
