// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "faulting/scheme.hpp"

#include <stdexcept>
#include <vector>

namespace tenure::bench::faulting {
namespace {

std::vector<scheme> make_schemes() {
  std::vector<scheme> all{{references::direct, granularity::object, bypass::swizzling}};
  const auto add = [&](references unswizzled, bypass when) {
    for (const granularity each : {granularity::object, granularity::logical_segment, granularity::physical_segment})
      all.push_back({unswizzled, each, when});
  };
  add(references::identifiers, bypass::never);
  add(references::identifiers, bypass::swizzling);
  add(references::fault_blocks, bypass::swizzling);
  add(references::identifiers, bypass::faulting);
  add(references::fault_blocks, bypass::faulting);
#if defined(__x86_64__)
  add(references::protected_blocks, bypass::faulting);
#endif
  return all;
}

}  // namespace

std::span<const scheme> all_schemes() {
  static const std::vector<scheme> all = make_schemes();
  return all;
}

std::string name_of(const scheme& of) {
  std::string name;
  switch (of.unswizzled) {
    case references::direct: return "non-persistent";
    case references::identifiers: name = "id"; break;
    case references::fault_blocks: name = "fb"; break;
    case references::protected_blocks: name = "trap"; break;
  }
  switch (of.when) {
    case bypass::never: name += "-never"; break;
    case bypass::swizzling: name += "-swizzle"; break;
    case bypass::faulting: name += "-fault"; break;
  }
  switch (of.faulted) {
    case granularity::object: return name + "-object";
    case granularity::logical_segment: return name + "-logical";
    case granularity::physical_segment: return name + "-physical";
  }
  return name;
}

std::string describe(const scheme& of) {
  std::string text;
  switch (of.unswizzled) {
    case references::direct: return "direct pointers; everything is in memory before it begins";
    case references::identifiers: text = "tagged identifiers"; break;
    case references::fault_blocks: text = "pointers to tagged fault and indirect blocks"; break;
    case references::protected_blocks: text = "pointers to page-protected fault and indirect blocks"; break;
  }
  switch (of.faulted) {
    case granularity::object: text += "; an object at a time"; break;
    case granularity::logical_segment: text += "; a logical segment at a time"; break;
    case granularity::physical_segment: text += "; a physical segment at a time"; break;
  }
  switch (of.when) {
    case bypass::never: return text + "; never bypassed";
    case bypass::swizzling: return text + "; bypassed when swizzled";
    case bypass::faulting: return text + "; bypassed when swizzled or when their target is faulted";
  }
  return text;
}

const scheme& scheme_named(std::string_view name) {
  for (const scheme& each : all_schemes())
    if (name_of(each) == name) return each;
  throw std::invalid_argument("there is no faulting scheme " + std::string(name) + " here; --list names them");
}

}  // namespace tenure::bench::faulting
