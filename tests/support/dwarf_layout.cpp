// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "support/dwarf_layout.hpp"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>

#include <unistd.h>

namespace tenure::support {
namespace {

struct pointer_seen {
  std::string path;
  bool is_vtable = false;
  bool is_code = false;  // refers to a function or a member: only transient ones are allowed
};

std::string name_of(Dwarf_Die* die) {
  const char* const name = dwarf_diename(die);
  return name != nullptr ? name : "";
}
std::optional<Dwarf_Die> type_of_die(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  Dwarf_Die result;
  if (dwarf_attr_integrate(die, DW_AT_type, &attribute) == nullptr || dwarf_formref_die(&attribute, &result) == nullptr)
    return {};
  return result;
}
std::optional<std::uint64_t> number_in(Dwarf_Die* die, unsigned attribute_name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_attr_integrate(die, attribute_name, &attribute) == nullptr || dwarf_formudata(&attribute, &value) != 0)
    return {};
  return value;
}
template <class F>
void for_each_child(Dwarf_Die* die, F&& f) {
  Dwarf_Die child;
  if (dwarf_child(die, &child) != 0) return;
  do f(&child);
  while (dwarf_siblingof(&child, &child) == 0);
}

// Everything that points, in a type and all that it contains.
class layout_reader {
 public:
  void read(Dwarf_Die* die, std::uint64_t offset, const std::string& path) {
    Dwarf_Die peeled;
    if (dwarf_peel_type(die, &peeled) != 0) return;
    switch (dwarf_tag(&peeled)) {
      case DW_TAG_pointer_type:
      case DW_TAG_reference_type:
      case DW_TAG_rvalue_reference_type:
        pointers.emplace(offset, pointer_seen{path, false, refers_to_code(&peeled)});
        break;
      case DW_TAG_ptr_to_member_type: pointers.emplace(offset, pointer_seen{path, false, true}); break;
      case DW_TAG_array_type: read_array(&peeled, offset, path); break;
      case DW_TAG_structure_type:
      case DW_TAG_class_type:
      case DW_TAG_union_type: read_class(&peeled, offset, path); break;
      default: break;
    }
  }

  std::multimap<std::uint64_t, pointer_seen> pointers;
  bool has_virtual_base = false;  // where it is says the object only: what is in it is not looked at

 private:
  static bool refers_to_code(Dwarf_Die* pointer) {
    auto target = type_of_die(pointer);
    Dwarf_Die peeled;
    return target && dwarf_peel_type(&*target, &peeled) == 0 && dwarf_tag(&peeled) == DW_TAG_subroutine_type;
  }

  void read_array(Dwarf_Die* array, std::uint64_t offset, const std::string& path) {
    auto element = type_of_die(array);
    if (!element) return;
    std::uint64_t count = 1;
    for_each_child(array, [&](Dwarf_Die* child) {
      if (dwarf_tag(child) != DW_TAG_subrange_type) return;
      if (const auto elements = number_in(child, DW_AT_count))
        count *= *elements;
      else if (const auto last = number_in(child, DW_AT_upper_bound))
        count *= *last + 1;
      else
        count = 0;
    });
    Dwarf_Word size = 0;
    if (dwarf_aggregate_size(&*element, &size) != 0 || size < sizeof(void*)) return;
    for (std::uint64_t i = 0; i < count; ++i) read(&*element, offset + i * size, path + "[" + std::to_string(i) + "]");
  }

  void read_class(Dwarf_Die* die, std::uint64_t offset, const std::string& path) {
    // libstdc++ keeps values in bytes; what they are for is the template's argument.
    const std::string name = name_of(die);
    if (name.starts_with("__aligned_membuf<") || name.starts_with("__aligned_buffer<")) {
      for_each_child(die, [&](Dwarf_Die* child) {
        if (dwarf_tag(child) != DW_TAG_template_type_parameter) return;
        if (auto value = type_of_die(child)) read(&*value, offset, path);
      });
      return;
    }
    for_each_child(die, [&](Dwarf_Die* child) {
      const int tag = dwarf_tag(child);
      if (tag != DW_TAG_member && tag != DW_TAG_inheritance) return;
      if (tag == DW_TAG_inheritance && number_in(child, DW_AT_virtuality).value_or(0) != 0) {
        has_virtual_base = true;
        return;
      }
      const bool in_union = dwarf_tag(die) == DW_TAG_union_type;
      const auto place = number_in(child, DW_AT_data_member_location);
      auto type = type_of_die(child);
      if (!type || (!place && !in_union)) return;  // static, or a bit-field
      const std::string member = name_of(child);
      const std::uint64_t at = offset + place.value_or(0);
      if (member.starts_with("_vptr"))
        pointers.emplace(at, pointer_seen{path + "." + member, true, false});
      else
        read(&*type, at, tag == DW_TAG_inheritance ? path : path + "." + member);
    });
  }
};

// The program's debug information, and the variables called dwarf_anchor in it.
class debug_information {
 public:
  debug_information() {
    dwfl_ = dwfl_begin(&callbacks_);
    if (dwfl_ == nullptr || dwfl_linux_proc_report(dwfl_, ::getpid()) != 0 ||
        dwfl_report_end(dwfl_, nullptr, nullptr) != 0)
      throw std::runtime_error("cannot read the maps of this process");
    Dwarf_Addr bias = 0;
    Dwfl_Module* const module = dwfl_addrmodule(dwfl_, reinterpret_cast<Dwarf_Addr>(&name_of));
    Dwarf* const dwarf = module != nullptr ? dwfl_module_getdwarf(module, &bias) : nullptr;
    if (dwarf == nullptr)
      throw std::runtime_error(std::string("this program has no debug information: compile it with -g; ") +
                               dwfl_errmsg(-1));
    Dwarf_CU* unit = nullptr;
    Dwarf_Die die;
    while (dwarf_get_units(dwarf, unit, &unit, nullptr, nullptr, &die, nullptr) == 0) visit(&die, bias);
  }

  Dwarf_Die type_behind(const volatile void* anchor) {
    const auto found = anchors_.find(reinterpret_cast<Dwarf_Addr>(anchor));
    if (found == anchors_.end()) throw std::runtime_error("the debug information does not know the variable");
    return found->second;
  }

 private:
  // Variables are in compilation units and namespaces; not looked for in functions and classes.
  void visit(Dwarf_Die* scope, Dwarf_Addr bias) {
    for_each_child(scope, [&](Dwarf_Die* child) {
      if (dwarf_tag(child) == DW_TAG_namespace) {
        visit(child, bias);
      } else if (dwarf_tag(child) == DW_TAG_variable && name_of(child).starts_with("dwarf_anchor")) {
        Dwarf_Attribute location;
        Dwarf_Op* operations = nullptr;
        std::size_t count = 0;
        if (dwarf_attr(child, DW_AT_location, &location) == nullptr ||
            dwarf_getlocation(&location, &operations, &count) != 0 || count != 1 || operations[0].atom != DW_OP_addr)
          return;
        if (auto type = type_of_die(child)) anchors_[operations[0].number + bias] = *type;
      }
    });
  }

  char* debug_path_ = nullptr;
  Dwfl_Callbacks callbacks_{dwfl_linux_proc_find_elf, dwfl_standard_find_debuginfo, nullptr, &debug_path_};
  Dwfl* dwfl_ = nullptr;  // for the life of the process
  std::map<Dwarf_Addr, Dwarf_Die> anchors_;
};

debug_information& this_program() {
  static debug_information* const information = new debug_information;
  return *information;
}

// The type T of the member `value` of the union that the anchor, a volatile pointer, refers to.
Dwarf_Die sampled_type(const volatile void* anchor) {
  Dwarf_Die pointer = this_program().type_behind(anchor), peeled, result;
  bool found = false;
  if (dwarf_peel_type(&pointer, &peeled) == 0)
    if (auto sample = type_of_die(&peeled))
      for_each_child(&*sample, [&](Dwarf_Die* child) {
        if (dwarf_tag(child) != DW_TAG_member || name_of(child) != "value") return;
        result = type_of_die(child).value();
        found = true;
      });
  if (!found) throw std::runtime_error("the debug information of the sample is incomplete");
  return result;
}

struct described_words {
  explicit described_words(const type& t) : map(t) {}
  pointer_map map;

  [[nodiscard]] bool has(std::uint64_t offset, std::initializer_list<field_kind> kinds) const {
    for (const auto& w : map.words())
      for (const field_kind kind : kinds)
        if (w.kind == kind && offset >= w.offset && offset < w.offset + w.length &&
            (offset == w.offset || kind == field_kind::transient))
          return true;
    return false;
  }
};

}  // namespace

std::vector<std::string> dwarf_disagreements(const volatile void* anchor, const type& described) {
  std::vector<std::string> found;
  Dwarf_Die die = sampled_type(anchor);
  layout_reader layout;
  layout.read(&die, 0, described.name);
  Dwarf_Word size = 0;
  if (dwarf_aggregate_size(&die, &size) == 0 && size != described.size)
    found.push_back(described.name + ": has " + std::to_string(size) + " bytes, not " + std::to_string(described.size));

  const described_words words(described);
  for (const auto& [offset, seen] : layout.pointers) {
    const bool right =
        words.has(offset, {field_kind::transient, field_kind::conservative}) ||
        (seen.is_vtable ? words.has(offset, {field_kind::vtable})
                        : !seen.is_code && words.has(offset, {field_kind::reference, field_kind::derived}));
    if (!right)
      found.push_back(seen.path + " at offset " + std::to_string(offset) + " is a pointer that is not described");
  }
  for (const auto& w : words.map.words()) {
    if (w.kind != field_kind::reference && w.kind != field_kind::derived && w.kind != field_kind::vtable) continue;
    bool right = layout.has_virtual_base;
    for (auto [at, end] = layout.pointers.equal_range(w.offset); at != end; ++at)
      right = right || at->second.is_vtable == (w.kind == field_kind::vtable);
    if (!right)
      found.push_back(pointer_map::path_of(described, w.offset) + " at offset " + std::to_string(w.offset) +
                      " is described as a pointer, and is none");
  }
  return found;
}

std::vector<std::string> exact_disagreements(const volatile void* anchor, const type& described) {
  std::vector<std::string> found = dwarf_disagreements(anchor, described);
  if (described.is_conservative) found.push_back(described.name + ": is conservative");
  const pointer_map map(described);
  for (const auto& w : map.words())
    if (w.kind == field_kind::conservative)
      found.push_back(described.name + ": " + std::to_string(w.length) + " bytes at offset " +
                      std::to_string(w.offset) + " are conservative");
  return found;
}

}  // namespace tenure::support
