// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/conversion_memory.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include <tenure/error.hpp>

#include "objects/object_walk.hpp"
#include "types/evolution.hpp"
#include "types/numbers.hpp"

namespace tenure {

namespace detail {

namespace {

thread_local conversion_memory* used_by_this_thread = nullptr;

}  // namespace

conversion_memory::scope::scope(conversion_memory& in) : before_(std::exchange(used_by_this_thread, &in)) {}
conversion_memory::scope::~scope() { used_by_this_thread = before_; }
conversion_memory* conversion_memory::of_this_thread() noexcept { return used_by_this_thread; }

void* conversion_memory::allocate(const type& of, std::uint64_t count) {
  const std::uint64_t bytes = std::max<std::uint64_t>(of.size * count, 1),
                      alignment = std::max<std::uint64_t>(of.alignment, heap::granule);
  made_object made{&of, bytes, std::make_unique<std::byte[]>(bytes + alignment), nullptr};
  const auto memory = reinterpret_cast<heap::address>(made.memory.get());
  made.at = made.memory.get() + ((memory + alignment - 1) / alignment * alignment - memory);
  std::byte* const at = made.at;
  made_.emplace(reinterpret_cast<heap::address>(at), std::move(made));
  return at;
}

conversion_memory::made_object* conversion_memory::find(heap::address at) {
  auto found = made_.upper_bound(at);
  if (found == made_.begin()) return nullptr;
  --found;
  return at <= found->first + found->second.bytes ? &found->second : nullptr;
}

old_object conversion_memory::object_at(const std::byte* at) {
  const heap::sound_object object = heap::find_sound(store_, at);
  if (!object) return {};
  const type& of = *object.type->of;
  const std::uint64_t stride = std::max<std::uint64_t>(of.size, 1),
                      n = (reinterpret_cast<heap::address>(at) - object.at) / stride;
  return {of, reinterpret_cast<const std::byte*>(object.at) + n * stride, object.count() - n, *this};
}

}  // namespace detail

namespace {

// "corners[2]": a name and an index.
struct step {
  std::string_view name;
  std::optional<std::uint64_t> index;
};

step parse(std::string_view text) {
  const std::size_t bracket = text.find('[');
  if (bracket == std::string_view::npos || !text.ends_with(']')) return {text, {}};
  std::uint64_t index = 0;
  std::from_chars(text.data() + bracket + 1, text.data() + text.size() - 1, index);
  return {text.substr(0, bracket), index};
}

struct place {
  const type_field* field = nullptr;  // nullptr: the whole value
  const type* of = nullptr;           // of the whole value, or of a nested one
  const std::byte* at = nullptr;      // nullptr: there is none
};

[[nodiscard]] bool holds(const field_guard& guard, const std::byte* at) {
  std::uint64_t value = 0;
  std::memcpy(&value, at + guard.offset, guard.width);
  return value == guard.value;
}

place find(const type& in, const std::byte* at, std::string_view path) {
  if (path.empty()) return {nullptr, &in, at};
  // The longest name that fits: those of bases and of containers have points.
  for (std::size_t end = path.size(); end != std::string_view::npos; end = path.rfind('.', end - 1)) {
    const step first = parse(path.substr(0, end));
    for (const type_field& f : in.fields) {
      if (f.name != first.name || f.kind == field_kind::vtable) continue;
      if (first.index && *first.index >= f.count) continue;
      if (f.only_if && !holds(*f.only_if, at)) continue;
      const std::byte* const there = at + f.offset + first.index.value_or(0) * (f.size / f.count);
      if (end == path.size()) return {&f, f.kind == field_kind::nested ? &f.of() : nullptr, there};
      if (f.kind != field_kind::nested) continue;
      return find(f.of(), there, path.substr(end + 1));
    }
    if (end == 0) break;
  }
  return {};
}

}  // namespace

old_object old_object::operator[](std::uint64_t n) const {
  if (at_ == nullptr || n >= count_)
    throw error(errc::schema_mismatch,
                "a conversion asked for element " + std::to_string(n) + " of " + std::to_string(count_));
  return {*of_, at_ + n * of_->size, 1, *in_};
}

const std::byte* old_object::address() const { return in_ != nullptr ? in_->stored_at(at_) : at_; }

bool old_object::has(std::string_view path) const { return at_ != nullptr && find(*of_, at_, path).at != nullptr; }

namespace {

place require(const type* of, const std::byte* at, std::string_view path) {
  if (at == nullptr)
    throw error(errc::schema_mismatch, "a conversion asked for the field `" + std::string(path) + "` of no object");
  const place found = find(*of, at, path);
  if (found.at == nullptr)
    throw error(errc::schema_mismatch, "a conversion asked for `" + std::string(path) + "`, which " + of->name +
                                           " does not have as it is stored");
  return found;
}

// A number or a pointer that is a whole value has one field, without a name.
const type_field* field_at(const place& found) {
  return found.field == nullptr && found.of->fields.size() == 1 ? &found.of->fields[0] : found.field;
}

}  // namespace

void old_object::get_number(std::string_view path, scalar_kind kind, std::size_t size, void* to) const {
  const place found = require(of_, at_, path);
  const type_field* const f = field_at(found);
  const types::number_type was =
      f != nullptr ? types::number_of(f->scalar, f->size / f->count, f->type_name) : types::number_type{};
  const types::number_type wanted{kind, size};
  if (f == nullptr || f->kind != field_kind::data || !types::is_number(was) || !types::is_number(wanted))
    throw error(errc::schema_mismatch,
                of_->name + "." + std::string(path) + ": a conversion asked for a number, and it is none");
  if (!types::convert_number(was, found.at, wanted, static_cast<std::byte*>(to)))
    throw error(errc::schema_mismatch, of_->name + "." + std::string(path) + ": the value does not fit");
}

const void* old_object::unchanged(std::string_view path, const type& as) const {
  const place found = require(of_, at_, path);
  bool is_same = found.of != nullptr && !types::evolution::differ(*found.of, as);
  if (found.of == nullptr && as.fields.size() == 1) {
    const type_field& is = as.fields[0];
    is_same = is.kind == found.field->kind && is.scalar == found.field->scalar &&
              is.size / is.count == found.field->size / found.field->count;
  }
  if (!is_same)
    throw error(errc::schema_mismatch, of_->name + "." + std::string(path) + ": a conversion asked for a " + as.name +
                                           ", and it is another type, or has another layout");
  return found.at;
}

old_object old_object::at(std::string_view path) const {
  const place found = require(of_, at_, path);
  if (found.of == nullptr)
    throw error(errc::schema_mismatch, of_->name + "." + std::string(path) + ": is no nested value; use get() or as()");
  return {*found.of, found.at, found.field != nullptr ? found.field->count : count_, *in_};
}

old_object old_object::behind(std::string_view path) const {
  const place found = require(of_, at_, path);
  if (const type_field* const f = field_at(found); f == nullptr || f->kind != field_kind::reference)
    throw error(errc::schema_mismatch, of_->name + "." + std::string(path) +
                                           ": a conversion asked for what it points to, and it is no pointer");
  const std::byte* to;
  std::memcpy(&to, found.at, sizeof to);
  return to == nullptr ? old_object() : in_->object_at(to);
}

void* conversion::allocate(const type& of) { return in_.allocate(of, 1); }

}  // namespace tenure
