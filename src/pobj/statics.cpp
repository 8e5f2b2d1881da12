// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Static variables [pobj 3.5.5, 7].
#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

#include "pobj/images.hpp"
#include "pobj/transaction.hpp"

namespace tenure::pobj {

namespace {

// What a call must know about a variable that the store does not know, or knows under another name.
struct known {
  static_name name;
  std::uint64_t room = 0;  // bytes of the variable
  os::module_hold module;
};

// Looks for a name that the program has given the variable. The store's lock is held.
[[nodiscard]] bool look_for_given_name(const void* variable, known& k) {
  for (const auto& [name, v] : named_statics())
    if (v.address == variable) {
      k.name = {true, "", "", name, 0};
      k.room = v.size;
      return true;
    }
  return false;
}

// Finds the name under which the variable will be stored. Called without the store's lock.
known look_for_name(store& in, const void* variable) {
  known k;
  k.module = os::module_hold(variable);
  {
    const store_lock lock(in);
    if (look_for_given_name(variable, k)) return k;
  }
  named_place place = name_of_static(variable);
  k.name = std::move(place.name);
  k.room = place.room;
  return k;
}

[[noreturn]] void wrong_size(const static_name& name, std::uint64_t stored_size, std::uint64_t size) {
  throw failure(POBJ_ESTATIC, "the store has the static variable " + text_of(name) + " with " +
                                  std::to_string(stored_size) + " bytes, and the program has it with " +
                                  std::to_string(size) +
                                  ": bind the stored one to a variable that is as large (pobj_static_bind), or let the "
                                  "store forget it (pobj_static_forget)");
}

// Checks that the bytes belong to no other anchor.
void require_alone(const store& in, const void* variable, std::uint64_t size, const static_variable* but) {
  if (const static_variable* const other = in.statics.overlapping(variable, size, but); other != nullptr)
    throw failure(POBJ_ESTATIC, "bytes of the " + std::to_string(size) + " at " + hexadecimal(variable) +
                                    " are bound to the anchor " + text_of(other->name) + " already, which has " +
                                    std::to_string(other->size) + " at " + hexadecimal(other->address) +
                                    ": unbind that (pobj_static_bind to NULL), or let the store forget it "
                                    "(pobj_static_forget)");
}

void require_staying(const static_variable& v) {
  if (v.is_going)
    throw failure(POBJ_ETRANSACTION, text_of(v.name) + ": another thread forgets this anchor, and has not ended yet");
}

void require_unused(const static_variable& v) {
  require_staying(v);
  if (v.users != 0)
    throw failure(POBJ_ETRANSACTION, text_of(v.name) + ": an open transaction has changed this anchor; end it first");
}

// Checks that `size` bytes of a variable may be stored under this name.
void require_free(const store& in, const known& k, const void* variable, std::uint64_t size, const static_variable* v) {
  if (size > k.room)
    throw failure(POBJ_ERANGE, text_of(k.name) + ": " + std::to_string(size) + " bytes are to be stored, and the " +
                                   "variable has " + std::to_string(k.room));
  require_alone(in, variable, size, v);
  const static_variable* const stored = in.statics.find(k.name);
  if (stored == nullptr || stored == v) return;
  if (stored->address == nullptr)
    throw failure(POBJ_ESTATIC, text_of(k.name) +
                                    ": the store has a value of this variable, which it has not got: it was loaded "
                                    "after pobj_init, or has been unbound. pobj_static_bind gives it the value, "
                                    "pobj_static_forget drops that");
  throw failure(POBJ_ESTATIC, text_of(k.name) + ": the store has this anchor bound to the variable at " +
                                  hexadecimal(stored->address) + ": unbind it first (pobj_static_bind to NULL)");
}

// Makes a slot for the variable, without its value. If a later step fails, the caller abandons the slot.
static_variable make_slot_for(transaction& t, static_name name, std::uint64_t size, std::uint32_t type) {
  store& in = t.get_store();
  const stored_static start{name.given ? 1U : 0U,
                            type,
                            static_cast<std::uint32_t>(name.module.size()),
                            static_cast<std::uint32_t>(name.file.size()),
                            static_cast<std::uint32_t>(name.symbol.size()),
                            0,
                            name.offset,
                            size};
  const std::string texts = name.module + name.file + name.symbol;
  static_variable v{std::move(name), size, type, 0, round_to_8(sizeof start + texts.size())};
  v.slot = t.make_slot(v.value + size, slot_word::type_static);
  std::memcpy(in.free.at(v.slot + 8), &start, sizeof start);
  std::memcpy(in.free.at(v.slot + 8 + sizeof start), texts.data(), texts.size());
  return v;
}

void store_new(transaction& t, known& k, std::byte* variable, std::uint64_t size, std::uint32_t type,
               const void* value) {
  store& in = t.get_store();
  auto* const from = value != nullptr ? static_cast<std::byte*>(const_cast<void*>(value)) : variable;
  static_variable made = make_slot_for(t, std::move(k.name), size, type);
  const position slot = made.slot;
  made.address = variable;
  made.module = std::move(k.module);
  static_variable* v = nullptr;
  try {
    write_image(t, {from, made.image(), size, in.types[type]}, 0, size);
    v = &in.statics.add(std::move(made));
    t.note_change(*v, size, true);
  } catch (...) {
    if (v != nullptr) t.remove(*v);
    t.abandon(slot);
    throw;
  }
  in.types.use(type);  // from here on an abort takes it back
  if (value != nullptr) std::memcpy(variable, value, size);
}

// Moves the variable to another slot, because its size or name has changed.
void store_anew(transaction& t, static_variable& v, static_name name, std::uint64_t size, std::uint32_t type) {
  store& in = t.get_store();
  t.expect_to_abandon(2);
  static_variable made = make_slot_for(t, std::move(name), size, type);
  try {
    write_image(t, {v.address, made.image(), size, in.types[type]}, 0, size);
    t.set_type(v, type);
  } catch (...) {
    t.abandon(made.slot);
    throw;
  }
  t.abandon(v.slot);
  v.name = std::move(made.name);
  v.size = size;
  v.slot = made.slot;
  v.value = made.value;
}

// Updates the image, as one of this type. If it fails, neither image nor type has changed.
void update_image(transaction& t, static_variable& v, std::uint32_t type) {
  store& in = t.get_store();
  const position at = v.slot + 8 + offsetof(stored_static, type);
  if (v.type != type) {
    t.declare(at, sizeof type);
    t.expect_to_leave_a_type();
  }
  write_image(t, {v.address, v.image(), v.size, in.types[type]}, 0, v.size);
  if (v.type == type) return;
  t.set_type(v, type);
  std::memcpy(in.free.at(at), &type, sizeof type);
}

// Stores a variable. If a value is given, sets the variable first; where the call fails, the caller puts back what it had.
void update_static(void* variable, std::uint64_t size, const std::size_t* references, const void* value) {
  if (variable == nullptr || size == 0 || size > slot_word::largest_size / 2)
    throw failure(POBJ_EOPTION, "a static variable has an address and a size");
  store& in = the_store();
  auto* const at = static_cast<std::byte*>(variable);
  // Whether the program has named the variable since it was stored. Then `k` has the new name, and the variable needs a
  // new slot.
  const auto is_new_name = [&](const static_variable* v, known& k) {
    return v != nullptr && !v->name.given && look_for_given_name(variable, k);
  };
  known k;
  bool is_known = false;
  {
    const store_lock lock(in);
    const static_variable* const v = in.statics.at(variable);
    is_known = v != nullptr && v->size >= size && !is_new_name(v, k);
  }
  if (!is_known) k = look_for_name(in, variable);
  transact([&](transaction& t) {
    static_variable* const v = in.statics.at(variable);
    if (is_known && (v == nullptr || v->size < size))
      throw failure(POBJ_ESTATIC, hexadecimal(variable) + ": another thread has just unbound this anchor");
    if (v != nullptr) require_staying(*v);
    if (v != nullptr && v->size > size) wrong_size(v->name, v->size, size);
    const bool is_renamed = !is_known && is_new_name(v, k);
    if (v != nullptr && !is_known && !is_renamed) k.name = v->name;
    if (!is_known) require_free(in, k, variable, size, v);
    const std::uint32_t type = in.types.intern({"", 0, checked_references(references, size), {}});
    if (in.is_strict() && value == nullptr) check_typed(in, {at, 0, size, in.types[type]}, 0, size);
    if (v == nullptr) return store_new(t, k, at, size, type, value);
    t.note_change(*v, size, false);
    if (value != nullptr) std::memcpy(variable, value, size);
    if (v->size != size || is_renamed) return store_anew(t, *v, std::move(k.name), size, type);
    update_image(t, *v, type);
  });
}

constexpr std::size_t one_reference[] = {0, POBJ_END};

void set_reference(void* variable, const void* value) {
  const void* was = nullptr;
  if (variable != nullptr) std::memcpy(&was, variable, sizeof was);
  try {
    update_static(variable, sizeof value, one_reference, &value);
  } catch (...) {
    if (variable != nullptr) std::memcpy(variable, &was, sizeof was);
    throw;
  }
}

// Needs no transaction, because only the program's variable changes.
void give_value(store& in, static_variable& v, std::byte* variable, os::module_hold&& module) {
  in.statics.bind(v, variable, std::move(module));
  read_image(in, {v.address, v.image(), v.size, in.types[v.type]});
}

// The variable may disappear. Its stored value stays. The caller releases the hold on its library.
void unbind(store& in, static_variable& v, os::module_hold& held) {
  require_unused(v);
  if (v.address == nullptr) return;
  if (v.name.given) named_statics().erase(v.name.symbol);
  in.statics.bind(v, nullptr, {}, &held);
}

static_variable& anchor_of(store& in, const char* name) {
  for (const auto& v : in.statics.all())
    if (text_of(v->name) == name) return *v;
  throw failure(POBJ_ESTATIC, "the store has no anchor of the name \"" + std::string(name) +
                                  "\"; pobj_unbound tells those without a variable");
}

[[noreturn]] void bound_already(const static_variable& v) {
  throw failure(POBJ_ESTATIC, text_of(v.name) + " is bound to the variable at " + hexadecimal(v.address) +
                                  " already: unbind it first (pobj_static_bind to NULL)");
}

// Guards the program's names while no store is open; otherwise the store's lock does.
constinit std::mutex names_without_store;

void require_name(const char* name) {
  if (name == nullptr || *name == '\0') throw failure(POBJ_EOPTION, "an anchor has a name");
}

// Refuses what could be the text of an anchor that has a symbol's name: then two anchors would have the same.
void require_no_symbol(std::string_view name) {
  const std::size_t plus = name.rfind('+');
  if (plus == name.npos || plus + 1 == name.size() || name.find_first_not_of("0123456789", plus + 1) != name.npos)
    return;
  if (std::ranges::count(name.substr(0, plus), ':') >= 2)
    throw failure(POBJ_ESTATIC, "the name \"" + std::string(name) +
                                    "\" has the form MODULE:FILE:SYMBOL+OFFSET of those that come from symbols: choose "
                                    "another one");
}

void take_name_away(const char* name) {
  os::module_hold held, of_name;  // released after the lock
  const auto take = [&] {
    const auto at = named_statics().find(name);
    if (at == named_statics().end())
      throw failure(POBJ_ESTATIC, "the program has given no static variable the name \"" + std::string(name) + "\"");
    of_name = at->second.module;
    return at;
  };
  store* const in = open_store();
  if (in == nullptr) {
    const std::scoped_lock lock(names_without_store);
    named_statics().erase(take());
    return;
  }
  const store_lock lock(*in);
  const auto at = take();
  static_variable* const v = in->statics.find({true, "", "", name, 0});
  if (v != nullptr && v->address != nullptr)
    unbind(*in, *v, held);
  else
    named_statics().erase(at);
}

// Notes the name. If a store is open, its lock is held.
void give_name(const char* name, const named_static& wanted) {
  for (const auto& [other, v] : named_statics())
    if (other != name && wanted.address < v.address + v.size && v.address < wanted.address + wanted.size)
      throw failure(POBJ_ESTATIC, "bytes of the static variable at " + hexadecimal(wanted.address) +
                                      " have the name \"" + other + "\" already");
  const auto [at, is_new] = named_statics().try_emplace(name, wanted);
  if (!is_new && at->second.address != wanted.address)
    throw failure(POBJ_ESTATIC, "the program has given the name \"" + std::string(name) +
                                    "\" to the static variable at " + hexadecimal(at->second.address) +
                                    " before; take it away first (pobj_static_named with NULL)");
  at->second.size = wanted.size;
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
  return guarded("pobj_static_set_ref", [&] { set_reference(variable, value); });
}

int pobj_static_named(const char* name, void* variable, size_t size, const size_t* references) {
  return guarded("pobj_static_named", [&] {
    require_name(name);
    if (variable == nullptr) return take_name_away(name);
    if (size == 0) throw failure(POBJ_EOPTION, "a static variable needs a size");
    require_no_symbol(name);
    auto* const at = static_cast<std::byte*>(variable);
    const tenure::os::module_hold module(variable);
    const named_static wanted{at, size, checked_references(references, size), module};
    store* const in = open_store();
    if (in == nullptr) {
      const std::scoped_lock lock(names_without_store);
      return give_name(name, wanted);
    }
    const store_lock lock(*in);
    static_variable* const v = in->statics.find({true, "", "", name, 0});
    if (v != nullptr && v->size > size) wrong_size(v->name, v->size, size);
    if (v == nullptr || v->address == at) return give_name(name, wanted);
    if (v->address != nullptr) bound_already(*v);
    require_staying(*v);
    require_alone(*in, variable, v->size, v);
    give_name(name, wanted);
    give_value(*in, *v, at, tenure::os::module_hold(module));
  });
}

int pobj_static_bind(const char* name, void* variable, size_t size) {
  return guarded("pobj_static_bind", [&] {
    store& in = the_store();
    tenure::os::module_hold held;  // released after the lock
    if (variable == nullptr) {
      require_name(name);
      const store_lock lock(in);
      return unbind(in, anchor_of(in, name), held);
    }
    known k;
    if (name == nullptr)
      k = look_for_name(in, variable);
    else
      k.module = tenure::os::module_hold(variable);
    const store_lock lock(in);
    static_variable* const v = name == nullptr ? in.statics.find(k.name) : &anchor_of(in, name);
    // The variable may be bound to its anchor already, or may have no anchor yet.
    if (name == nullptr && (v == nullptr || v->address == variable)) return;
    if (v->size > size) wrong_size(v->name, v->size, size);
    if (v->address != nullptr) bound_already(*v);
    require_staying(*v);
    require_alone(in, variable, v->size, v);
    give_value(in, *v, static_cast<std::byte*>(variable), std::move(k.module));
  });
}

int pobj_static_forget(const char* name) {
  return guarded("pobj_static_forget", [&] {
    require_name(name);
    if (this_thread().depth != 0)
      throw failure(POBJ_ETRANSACTION, "an anchor is forgotten by a transaction of its own; end the open one first");
    transact([&](transaction& t) {
      static_variable& v = anchor_of(t.get_store(), name);
      require_unused(v);
      t.forget_static(v);
    });
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
