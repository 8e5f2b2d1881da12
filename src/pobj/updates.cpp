// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Updates of images, and calls that set a field together with its image [pobj 3.5.4].
#include <array>
#include <cstring>
#include <vector>

#include "pobj/images.hpp"
#include "pobj/transaction.hpp"
#include "pobj/typing.hpp"

namespace tenure::pobj {

namespace {

// Bytes of an object that a call sets before it updates the image: they are as they were if it fails.
class change_of_memory {
 public:
  change_of_memory(void* field, std::size_t length) : field_(field), length_(length) {
    if (length > few_.size()) many_.resize(length);
    if (length != 0) std::memcpy(kept(), field, length);
  }
  ~change_of_memory() {
    if (!is_done_ && length_ != 0) std::memcpy(field_, kept(), length_);
  }
  change_of_memory(const change_of_memory&) = delete;
  change_of_memory& operator=(const change_of_memory&) = delete;
  void done() { is_done_ = true; }

 private:
  [[nodiscard]] std::byte* kept() { return many_.empty() ? few_.data() : many_.data(); }

  void* const field_;
  const std::size_t length_;
  std::array<std::byte, 64> few_;
  std::vector<std::byte> many_;
  bool is_done_ = false;
};

// set() writes to memory.
template <class F>
void set_bytes(transaction& t, object o, std::uint64_t at, void* field, std::size_t length, F&& set) {
  change_of_memory change(field, length);
  set();
  update(t, o, at, at + length);
  change.done();
}

template <class T>
int set_field(const char* call, void* handle, T* field, T value) {
  return guarded(call, [&] {
    transact([&](transaction& t) {
      const object o = t.get_store().object_of(handle);
      const std::uint64_t at = store::offset_of(o, field, sizeof(T));
      change_of_words words(t, o);
      words.unflag(at, at + sizeof(T));
      set_bytes(t, o, at, field, sizeof(T), [&] { std::memcpy(field, &value, sizeof(T)); });
      words.done();
    });
  });
}

}  // namespace

}  // namespace tenure::pobj

using namespace tenure::pobj;

int pobj_update(void* handle) {
  return guarded("pobj_update", [&] {
    transact([&](transaction& t) {
      const object o = t.get_store().object_of(handle);
      update(t, o, 0, o.header().size);
    });
  });
}

int pobj_update_range(void* handle, const void* field, size_t length) {
  return guarded("pobj_update_range", [&] {
    transact([&](transaction& t) {
      const object o = t.get_store().object_of(handle);
      const std::uint64_t at = store::offset_of(o, field, length);
      update(t, o, at, at + length);
    });
  });
}

int pobj_memcpy(void* handle, void* field, const void* from, size_t length) {
  return guarded("pobj_memcpy", [&] {
    transact([&](transaction& t) {
      const object o = t.get_store().object_of(handle);
      const std::uint64_t at = store::offset_of(o, field, length);
      set_bytes(t, o, at, field, length, [&] {
        if (length != 0) std::memmove(field, from, length);
      });
    });
  });
}

int pobj_memset(void* handle, void* field, int value, size_t length) {
  return guarded("pobj_memset", [&] {
    transact([&](transaction& t) {
      const object o = t.get_store().object_of(handle);
      const std::uint64_t at = store::offset_of(o, field, length);
      set_bytes(t, o, at, field, length, [&] {
        if (length != 0) std::memset(field, value, length);
      });
    });
  });
}

int pobj_set_ref(void* handle, void* field, void* value) {
  return guarded("pobj_set_ref", [&] {
    transact([&](transaction& t) {
      const object o = t.get_store().object_of(handle);
      const std::uint64_t at = reference_offset(o, field);
      change_of_words words(t, o);
      words.set(at, true);
      set_bytes(t, o, at, field, sizeof value, [&] { std::memcpy(field, &value, sizeof value); });
      words.done();
    });
  });
}

int pobj_set_char(void* object, char* field, char value) { return set_field("pobj_set_char", object, field, value); }
int pobj_set_uchar(void* object, unsigned char* field, unsigned char value) {
  return set_field("pobj_set_uchar", object, field, value);
}
int pobj_set_short(void* object, short* field, short value) {
  return set_field("pobj_set_short", object, field, value);
}
int pobj_set_ushort(void* object, unsigned short* field, unsigned short value) {
  return set_field("pobj_set_ushort", object, field, value);
}
int pobj_set_int(void* object, int* field, int value) { return set_field("pobj_set_int", object, field, value); }
int pobj_set_uint(void* object, unsigned* field, unsigned value) {
  return set_field("pobj_set_uint", object, field, value);
}
int pobj_set_long(void* object, long* field, long value) { return set_field("pobj_set_long", object, field, value); }
int pobj_set_ulong(void* object, unsigned long* field, unsigned long value) {
  return set_field("pobj_set_ulong", object, field, value);
}
int pobj_set_llong(void* object, long long* field, long long value) {
  return set_field("pobj_set_llong", object, field, value);
}
int pobj_set_ullong(void* object, unsigned long long* field, unsigned long long value) {
  return set_field("pobj_set_ullong", object, field, value);
}
int pobj_set_size(void* object, size_t* field, size_t value) {
  return set_field("pobj_set_size", object, field, value);
}
int pobj_set_float(void* object, float* field, float value) {
  return set_field("pobj_set_float", object, field, value);
}
int pobj_set_double(void* object, double* field, double value) {
  return set_field("pobj_set_double", object, field, value);
}

int pobj_restore(void* handle) {
  return guarded("pobj_restore", [&] {
    store& in = the_store();
    const store_lock lock(in);
    if (const object o = in.object_of(handle); o.is_persistent()) read_image(in, stored(in, o));
  });
}
