// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects with virtual functions in a file that programs of different builds map. Built twice: the second program has other
// functions in its classes, is linked in another order, and lacks a class.
//
//     program make FILE | check FILE | call-lacking FILE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <typeinfo>

#include <tenure/fields.hpp>

#include "types/exchange/elsewhere.hpp"
#include "types/stamping.hpp"
#include "types/zoo.hpp"

namespace zoo {
#if !defined(ZOO_VERSION_2)
struct dodo : animal {
  int legs() const override { return 3; }
};
#endif
}  // namespace zoo
#if !defined(ZOO_VERSION_2)
template <>
struct tenure::persist<zoo::dodo> {
  using bases = tenure::bases<zoo::animal>;
};
#endif

namespace {

using types_test::opaque;

constexpr std::size_t max_keys = 64;

struct stored_key {
  char type[60];
  std::uint32_t subobject;
  std::uint64_t fingerprint;
};
struct image {
  std::uint64_t keys_used;
  stored_key keys[max_keys];
  zoo::duck* duck;
  zoo::city_duck* city_duck;
  zoo::pond* pond;
  zoo::animal* dodo;
  std::byte objects[4096];
};

// In a range that is free in every kind of build.
std::byte* const home = reinterpret_cast<std::byte*>(0x550100000000);
std::byte* const slots = home + (1 << 20);

const tenure::type* type_named(const std::string& name) {
  for (const tenure::type* t : {
         &tenure::type_of<zoo::duck>(), &tenure::type_of<zoo::city_duck>(), &tenure::type_of<zoo::swimmer>(),
#if !defined(ZOO_VERSION_2)
             &tenure::type_of<zoo::dodo>(),
#endif
       })
    if (t->name == name) return t;
  return nullptr;
}

template <class T>
T* make(image& in, std::size_t& used, types_test::vtable_table& table) {
  T* const object = new (in.objects + used) T;
  used += (sizeof(T) + 63) / 64 * 64;
  if constexpr (std::is_same_v<T, zoo::pond>) {
    object->guest.emplace();
    object->other.template emplace<zoo::city_duck>();
  }
  table.stamp(object, tenure::type_of<T>());
  return object;
}

void make(image& in) {
  types_test::vtable_table table(slots);
  std::size_t used = 0;
  in.duck = make<zoo::duck>(in, used, table);
  in.city_duck = make<zoo::city_duck>(in, used, table);
  in.pond = make<zoo::pond>(in, used, table);
#if !defined(ZOO_VERSION_2)
  in.dodo = make<zoo::dodo>(in, used, table);
#endif
  for (const auto& [type, subobject] : table.keys()) {
    stored_key& key = in.keys[in.keys_used++];
    std::snprintf(key.type, sizeof key.type, "%s", type.c_str());
    key.subobject = subobject;
    key.fingerprint = type_named(type)->fingerprint;
  }
}

bool fill_slots(const image& in) {
  bool same = true;
  for (std::size_t i = 0; i < in.keys_used; ++i) {
    std::byte* const slot = slots + i * tenure::types::vtable_slot_size;
    if (const tenure::type* t = type_named(in.keys[i].type); t != nullptr) {
      same = same && t->fingerprint == in.keys[i].fingerprint;
      tenure::types::fill(slot, *t, in.keys[i].subobject);
    } else {
      tenure::types::fill_with_stub(slot, in.keys[i].type);
    }
  }
  return same;
}

bool duck_is_right(zoo::duck* d) {
  zoo::named* const n = opaque<zoo::named>(d);
  zoo::swimmer* const s = opaque<zoo::swimmer>(d);
  return n->name() == 15 && s->depth() == 25 && opaque<zoo::animal>(d)->legs() == 2 &&
         dynamic_cast<zoo::duck*>(n) == d && dynamic_cast<zoo::swimmer*>(n) == s && dynamic_cast<void*>(s) == d &&
         typeid(*s) == typeid(zoo::duck);
}
bool city_duck_is_right(zoo::city_duck* c) {
  zoo::named* const n = opaque<zoo::named>(c);
  zoo::located* const l = opaque<zoo::located>(opaque(c));
  return n->name() == 46 && l->place() == 31 && opaque<zoo::resident>(c)->rent() == 8 && l->where == 3 &&
         dynamic_cast<zoo::city_duck*>(l) == c && dynamic_cast<zoo::located*>(n) == l && dynamic_cast<void*>(l) == c &&
         dynamic_cast<zoo::swimmer*>(l) == static_cast<zoo::swimmer*>(c) && typeid(*l) == typeid(zoo::city_duck);
}
bool all_is_right(const image& in) {
  return duck_is_right(in.duck) && city_duck_is_right(in.city_duck) && duck_is_right(&*in.pond->guest) &&
         city_duck_is_right(&std::get<zoo::city_duck>(in.pond->other)) && duck_is_right(&in.pond->pair[1]) &&
         duck_is_right(&in.pond->more[0]);
}

bool map_file(const char* path) {
  const int file = ::open(path, O_RDWR | O_CREAT, 0644);
  return file >= 0 && ::ftruncate(file, 1 << 20) == 0 &&
         ::mmap(home, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0) == home &&
         ::mmap(slots, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
             slots;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || elsewhere::answer() != 42 || !map_file(argv[2])) {
    std::perror("cannot begin");
    return 2;
  }
  image& in = *reinterpret_cast<image*>(home);
  const std::string what = argv[1];
  if (what == "make") {
    make(in);
  } else if (!fill_slots(in)) {
    std::printf("fingerprints differ\n");
    return 1;
  }
  if (what == "call-lacking") return opaque(in.dodo)->legs();
  const bool right = all_is_right(in);
  std::printf("%s with vtables at %p: %s\n", what.c_str(), tenure::type_of<zoo::duck>().operations->vtables().at(0),
              right ? "all is right" : "WRONG");
  return right ? 0 : 1;
}
