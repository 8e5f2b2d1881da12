// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Allocation, and switching between persistent and transient [pobj 3.5.2, 3.5.3].
#include <cstring>
#include <string>

#include "pobj/images.hpp"
#include "pobj/transaction.hpp"

namespace tenure::pobj {

namespace {

// Writes the object's header. The store's lock is held.
object make_object(store& in, void* block, std::uint64_t size, std::uint64_t allocator) {
  const object o{static_cast<std::byte*>(block) + sizeof(object_header)};
  o.begin(0, size, 0, allocator);
  if (!in.object_blocks.takes_back(o)) in.addresses.forget(o);
  in.addresses.add(o);
  return o;
}

object make_pooled_object(store& in, std::uint64_t size, bool zeroed) {
  void* const block = in.object_blocks.take(block_size(size), zeroed);
  try {
    return make_object(in, block, size, 0);
  } catch (...) {
    in.object_blocks.give_back(block, block_size(size));
    throw;
  }
}

void require_size(std::size_t size) {
  if (size > slot_word::largest_size)
    throw failure(POBJ_ETOOBIG, "an object of " + std::to_string(size) + " bytes; at most " +
                                    std::to_string(slot_word::largest_size) + " are possible");
}

void* allocate(std::size_t count, std::size_t each, bool zeroed, bool persistent, const pobj_allocator* adhoc) {
  std::size_t size = 0;
  if (__builtin_mul_overflow(count, each, &size)) size = SIZE_MAX;
  require_size(size);
  store& in = the_store();
  const pobj_allocator* const from = adhoc != nullptr ? adhoc : in.object_blocks.has_pool() ? nullptr : &in.how.objects;
  if (this_thread().doomed && persistent)
    throw failure(POBJ_EABORTED, "the transaction has been aborted by a nested pobj_abort; end it first");
  // The program's memory managers are called without the lock.
  void* const block = from != nullptr ? allocate_block(*from, block_size(size), zeroed) : nullptr;
  object made;
  const auto make = [&] {
    made = from != nullptr ? make_object(in, block, size, in.object_blocks.number_of(*from))
                           : make_pooled_object(in, size, zeroed);
  };
  try {
    if (!persistent) {
      const store_lock lock(in);
      make();
      return made.handle;
    }
    transact([&](transaction& t) {
      const position slot = t.make_slot(size, 0);
      try {
        make();
        t.note_made(made);
        t.give_slot(made, slot);
      } catch (...) {
        // An enclosing transaction may go on, without this object.
        if (made) t.forget_made(made);
        t.undo_give_slot(made, slot);
        if (made && from == nullptr) in.object_blocks.give_back(made.block(), block_size(size));
        made = {};
        throw;
      }
    });
  } catch (...) {
    // If it has become an object, an abort has given the memory back already.
    if (!made && from != nullptr && from->free != nullptr) from->free(block);
    throw;
  }
  return made.handle;
}

}  // namespace

void persistify(transaction& t, object o) {
  if (o.is_persistent()) return;
  t.share_own_type(o);
  if (t.get_store().is_strict()) check_typed(t.get_store(), stored(t.get_store(), o), 0, o.header().size);
  const position slot = t.make_slot(o.header().size, o.header().type);
  try {
    t.give_slot(o, slot);
    t.note_persistified(o);
    write_image(t, stored(t.get_store(), o), 0, o.header().size);
  } catch (...) {
    t.undo_give_slot(o, slot);
    throw;
  }
}

}  // namespace tenure::pobj

using namespace tenure::pobj;

void* pobj_malloc(size_t size) {
  return guarded_pointer("pobj_malloc", [&] { return allocate(1, size, false, true, nullptr); });
}
void* pobj_calloc(size_t count, size_t size) {
  return guarded_pointer("pobj_calloc", [&] { return allocate(count, size, true, true, nullptr); });
}
void* pobj_malloc_transient(size_t size) {
  return guarded_pointer("pobj_malloc_transient", [&] { return allocate(1, size, false, false, nullptr); });
}
void* pobj_calloc_transient(size_t count, size_t size) {
  return guarded_pointer("pobj_calloc_transient", [&] { return allocate(count, size, true, false, nullptr); });
}

namespace {

void* allocate_adhoc(std::size_t count, std::size_t size, bool zeroed, bool persistent, const pobj_allocator* from) {
  if (from == nullptr || from->malloc == nullptr)
    throw failure(POBJ_EOPTION, "an ad hoc allocation needs a memory manager with a malloc");
  return allocate(count, size, zeroed, persistent, from);
}

}  // namespace

void* pobj_malloc_adhoc(size_t size, const pobj_allocator* from) {
  return guarded_pointer("pobj_malloc_adhoc", [&] { return allocate_adhoc(1, size, false, true, from); });
}
void* pobj_calloc_adhoc(size_t count, size_t size, const pobj_allocator* from) {
  return guarded_pointer("pobj_calloc_adhoc", [&] { return allocate_adhoc(count, size, true, true, from); });
}
void* pobj_malloc_transient_adhoc(size_t size, const pobj_allocator* from) {
  return guarded_pointer("pobj_malloc_transient_adhoc", [&] { return allocate_adhoc(1, size, false, false, from); });
}

int pobj_free(void* handle) {
  if (handle == nullptr) return POBJ_OK;
  return guarded("pobj_free",
                 [&] { transact([&](transaction& t) { t.free_object(t.get_store().object_of(handle)); }); });
}

int pobj_finalize(void* handle) {
  return guarded("pobj_finalize", [&] { the_store().finalize(handle); });
}

void pobj_finalize_block(void* block, void*) {
  if (open_store() != nullptr) (void)pobj_finalize(static_cast<std::byte*>(block) + sizeof(object_header));
}

int pobj_is_object(const void* handle) {
  store* const in = open_store();
  if (in == nullptr || in->fork_generation != tenure::os::fork_generation()) return 0;
  const store_lock lock(*in);
  return in->addresses.is_handle(handle) &&
         object{static_cast<std::byte*>(const_cast<void*>(handle))}.header().dying == 0;
}

int pobj_is_persistent(const void* handle) {
  store* const in = open_store();
  if (in == nullptr || in->fork_generation != tenure::os::fork_generation()) return 0;
  const store_lock lock(*in);
  if (!in->addresses.is_handle(handle)) return 0;
  const object o{static_cast<std::byte*>(const_cast<void*>(handle))};
  return o.header().dying == 0 && o.is_persistent() ? 1 : 0;
}

size_t pobj_size(const void* handle) {
  size_t size = 0;
  if (guarded("pobj_size", [&] {
        store& in = the_store();
        const store_lock lock(in);
        size = in.object_of(handle).header().size;
      }) != POBJ_OK)
    return 0;
  return size;
}

int pobj_persistify(void* handle) {
  return guarded("pobj_persistify",
                 [&] { transact([&](transaction& t) { persistify(t, t.get_store().object_of(handle)); }); });
}

int pobj_unpersistify(void* handle) {
  return guarded("pobj_unpersistify", [&] {
    transact([&](transaction& t) {
      const object o = t.get_store().object_of(handle);
      if (!o.is_persistent()) return;
      t.share_own_type(o);
      t.take_slot(o);
    });
  });
}
