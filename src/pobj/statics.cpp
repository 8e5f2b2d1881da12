// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Static variables [pobj 3.5.5, 7].
#include <cstring>
#include <string>

#include "pobj/images.hpp"
#include "pobj/transaction.hpp"

namespace tenure::pobj {

namespace {

std::vector<std::byte> bytes_of(const void* from, std::uint64_t size) {
  const auto* const begin = static_cast<const std::byte*>(from);
  return {begin, begin + size};
}

// The name that the program has given it, or else its symbol's.
static_name name_for(const void* variable) {
  for (const auto& [name, v] : named_statics())
    if (v.address == variable) return {true, "", "", name, 0};
  return name_of_static(variable);
}

[[noreturn]] void wrong_size(const static_name& name, std::uint64_t stored_size, std::uint64_t size) {
  throw failure(POBJ_ESTATIC,
                "the store has the static variable " + text_of(name) + " with " + std::to_string(stored_size) +
                    " bytes, and the program has it with " + std::to_string(size) +
                    ": bind the stored one to a variable of its size (pobj_static_bind), or let the store "
                    "forget it (pobj_static_forget)");
}

static_variable& make_static(transaction& t, const static_name& name, void* variable, std::uint64_t size,
                             std::uint32_t type) {
  store& in = t.in();
  const stored_static start{name.given ? 1U : 0U,
                            type,
                            static_cast<std::uint32_t>(name.module.size()),
                            static_cast<std::uint32_t>(name.file.size()),
                            static_cast<std::uint32_t>(name.symbol.size()),
                            0,
                            name.offset,
                            size};
  const std::string texts = name.module + name.file + name.symbol;
  static_variable v{name, size, type, 0, round_to_8(sizeof start + texts.size()), static_cast<std::byte*>(variable)};
  v.slot = t.make_slot(v.value + size, slot_word::type_static);
  std::memcpy(in.free.at(v.slot + 8), &start, sizeof start);
  std::memcpy(in.free.at(v.slot + 8 + sizeof start), texts.data(), texts.size());
  return in.statics.add(std::move(v));
}

void set_static_type(transaction& t, static_variable& v, std::uint32_t type) {
  store& in = t.in();
  if (v.type == type) return;
  const position at = v.slot + 8 + offsetof(stored_static, type);
  t.declare(at, sizeof type);
  std::memcpy(in.free.at(at), &type, sizeof type);
  v.type = type;
}

// Stores a variable; sets it first if a value is given.
void update_static(void* variable, std::uint64_t size, const std::size_t* references, const void* value) {
  if (variable == nullptr || size == 0 || size > slot_word::largest_size / 2)
    throw failure(POBJ_EOPTION, "a static variable has an address and a size");
  transact([&](transaction& t) {
    store& in = t.in();
    static_variable* v = in.statics.at(variable);
    static_name name;
    if (v == nullptr) {
      name = name_for(variable);
      v = in.statics.find(name);
    }
    if (v != nullptr && v->size != size) wrong_size(v->name, v->size, size);
    const std::uint32_t type = in.types.intern({"", 0, checked_references(references, size), {}});
    if (in.is_strict() && value == nullptr)
      check_typed(in, {static_cast<std::byte*>(variable), 0, size, in.types[type]}, 0, size);
    auto before = bytes_of(variable, size);
    if (v == nullptr) {
      v = &make_static(t, name, variable, size, type);
      t.updated_static(*v, std::move(before));
    } else {
      t.updated_static(*v, {});
      in.statics.bind(*v, static_cast<std::byte*>(variable));
      set_static_type(t, *v, type);
    }
    if (value != nullptr) std::memcpy(variable, value, size);
    write_image(t, {v->address, v->image(), v->size, in.types[v->type]}, 0, v->size);
  });
}

constexpr std::size_t one_reference[] = {0, POBJ_END};

// Without a transaction: only the program's variable changes.
void give_value(store& in, static_variable& v, std::byte* variable) {
  if (v.address == nullptr) {
    --in.report.unbound;
    ++in.report.statics;
  }
  in.statics.bind(v, variable);
  read_image(in, {v.address, v.image(), v.size, in.types[v.type]});
}

static_variable& unbound_of(store& in, const char* name) {
  for (const auto& v : in.statics.all())
    if (v->address == nullptr && name != nullptr && text_of(v->name) == name) return *v;
  throw failure(POBJ_ESTATIC, "the store has no anchor without a variable of the name \"" +
                                  std::string(name == nullptr ? "" : name) + "\"; pobj_unbound tells them");
}

}  // namespace

}  // namespace tenure::pobj

using namespace tenure::pobj;

int pobj_static_update(void* variable, size_t size, const size_t* references) {
  return guarded("pobj_static_update", [&] { update_static(variable, size, references, nullptr); });
}

int pobj_static_update_ref(void* variable) {
  return guarded("pobj_static_update_ref", [&] { update_static(variable, sizeof(void*), one_reference, nullptr); });
}

int pobj_static_set_ref(void* variable, void* value) {
  return guarded("pobj_static_set_ref",
                 [&] { update_static(variable, sizeof(void*), one_reference, static_cast<const void*>(&value)); });
}

int pobj_static_named(const char* name, void* variable, size_t size, const size_t* references) {
  return guarded("pobj_static_named", [&] {
    if (name == nullptr || *name == '\0' || variable == nullptr || size == 0)
      throw failure(POBJ_EOPTION, "a static variable needs a name, an address and a size");
    const named_static wanted{static_cast<std::byte*>(variable), size, checked_references(references, size)};
    const auto note = [&] {
      const auto [at, is_new] = named_statics().try_emplace(name, wanted);
      if (!is_new && at->second.address != wanted.address)
        throw failure(POBJ_ESTATIC, "the program has given the name \"" + std::string(name) +
                                        "\" to the static variable at " + hexadecimal(at->second.address) + " before");
    };
    store* const in = open_store();
    if (in == nullptr) return note();
    const store_lock lock(*in);
    static_variable* const v = in->statics.find({true, "", "", name, 0});
    if (v != nullptr && v->size != size) wrong_size(v->name, v->size, size);
    note();
    if (v != nullptr && v->address != variable) give_value(*in, *v, static_cast<std::byte*>(variable));
  });
}

int pobj_static_bind(const char* unbound, void* variable, size_t size) {
  return guarded("pobj_static_bind", [&] {
    store& in = the_store();
    const store_lock lock(in);
    static_variable& v = unbound_of(in, unbound);
    if (variable == nullptr || v.size != size) wrong_size(v.name, v.size, size);
    if (const static_variable* const other = in.statics.at(variable); other != nullptr)
      throw failure(POBJ_ESTATIC,
                    hexadecimal(variable) + " is bound to the anchor " + text_of(other->name) + " already");
    give_value(in, v, static_cast<std::byte*>(variable));
  });
}

int pobj_static_forget(const char* unbound) {
  return guarded("pobj_static_forget", [&] {
    if (this_thread().depth != 0)
      throw failure(POBJ_ETRANSACTION, "an anchor is forgotten by a transaction of its own; end the open one first");
    transact([&](transaction& t) { t.forget_static(unbound_of(t.in(), unbound)); });
  });
}

const char* pobj_unbound(size_t n) {
  static thread_local std::string name;
  return guarded_pointer("pobj_unbound", [&]() -> const char* {
    store& in = the_store();
    const store_lock lock(in);
    for (const auto& v : in.statics.all()) {
      if (v->address != nullptr || n-- != 0) continue;
      name = text_of(v->name);
      return name.c_str();
    }
    return nullptr;
  });
}
