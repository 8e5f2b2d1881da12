// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "faulting/making.hpp"

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <tenure/tenure.hpp>

#include "faulting/interpreter.hpp"
#include "faulting/schema.hpp"
#include "oo1/graph.hpp"

namespace tenure::bench::faulting {
namespace {

// --- Code ---

class assembler {
 public:
  explicit assembler(method& into) : into_(into) {}
  assembler& put(operation what, std::initializer_list<std::size_t> operands = {}) {
    byte(static_cast<std::size_t>(what));
    for (const std::size_t operand : operands) byte(operand);
    return *this;
  }
  // A jump to a place that is not known yet; land() says where it is.
  [[nodiscard]] std::size_t jump(operation how) {
    put(how, {0});
    return length_;
  }
  void land(std::size_t jump) {
    into_.code[jump - 1] =
        static_cast<std::uint8_t>(static_cast<std::ptrdiff_t>(length_) - static_cast<std::ptrdiff_t>(jump));
  }
  void jump_back(std::size_t to) {
    put(operation::jump, {0});
    into_.code[length_ - 1] =
        static_cast<std::uint8_t>(static_cast<std::ptrdiff_t>(to) - static_cast<std::ptrdiff_t>(length_));
  }
  [[nodiscard]] std::size_t here() const { return length_; }

 private:
  void byte(std::size_t value) {
    if (length_ == into_.code.size() || value > 255) throw std::logic_error("a method is too long");
    into_.code[length_++] = static_cast<std::uint8_t>(value);
  }
  method& into_;
  std::size_t length_ = 0;
};

constexpr std::size_t int_at(std::size_t offset) { return offset / sizeof(int); }
constexpr std::size_t word_at(std::size_t offset) { return offset / sizeof(void*); }

void put_visit(assembler& to) {
  to.put(operation::push_field, {int_at(offsetof(part, x))});
  to.put(operation::push_field, {int_at(offsetof(part, y))});
  to.put(operation::push_reference, {word_at(offsetof(part, type))});
  to.put(operation::push_field, {int_at(offsetof(part, build))});
  to.put(operation::visit);
}

void write_fetch(method& of) {
  assembler to(of);
  put_visit(to);
  to.put(operation::push_self).put(operation::answer);
}

// Argument: hops that are left. Literal 0: its own selector.
void write_traverse(method& of) {
  assembler to(of);
  put_visit(to);
  to.put(operation::push_temporary, {0});
  const std::size_t end = to.jump(operation::jump_if_zero);
  for (std::size_t n = 0; n < 3; ++n) {
    to.put(operation::push_reference, {word_at(offsetof(part, to)) + n});
    to.put(operation::push_temporary, {0}).put(operation::push_field, {int_at(offsetof(part, length)) + 3});  // -1
    to.put(operation::add).put(operation::send, {0, 1}).put(operation::pop);
  }
  to.land(end);
  to.put(operation::push_self).put(operation::answer);
}

// Argument 0: an id; temporary 1: a child. Literal 0: its own selector.
void write_find(method& of) {
  assembler to(of);
  const std::size_t loop = to.here();
  const auto put_next = [&] {
    to.put(operation::push_temporary, {1}).put(operation::push_integer, {1}).put(operation::add);
  };
  put_next();
  to.put(operation::push_field, {int_at(offsetof(index_node, count))}).put(operation::is_less);
  const std::size_t last = to.jump(operation::jump_if_zero);
  to.put(operation::push_temporary, {0});
  put_next();
  to.put(operation::push_element, {int_at(offsetof(index_node, lowest))}).put(operation::is_less);
  const std::size_t next = to.jump(operation::jump_if_zero);
  to.land(last);
  to.put(operation::push_field, {int_at(offsetof(index_node, height))});
  const std::size_t leaf = to.jump(operation::jump_if_zero);
  to.put(operation::push_temporary, {1}).put(operation::push_target, {word_at(offsetof(index_node, down))});
  to.put(operation::push_temporary, {0}).put(operation::send, {0, 1}).put(operation::answer);
  to.land(leaf);
  to.put(operation::push_temporary, {1}).put(operation::push_target, {word_at(offsetof(index_node, parts))});
  to.put(operation::answer);
  to.land(next);
  put_next();
  to.put(operation::pop_into, {1});
  to.jump_back(loop);
}

// --- Objects ---

class maker {
 public:
  maker(store& in, int parts) : in_(in), parts_(parts) {}

  void make() {
    database& root = in_.root<database>("database");
    root.parts = parts_;
    make_classes(root);
    make_parts();
    root.index = make_index();
  }

 private:
  text* make_text(std::string_view of) {
    text* const made = in_.make<text>();
    std::ranges::copy(of.substr(0, made->bytes.size()), made->bytes.begin());
    return made;
  }

  void make_classes(database& root) {
    root.selectors = {make_text("find:"), make_text("fetch"), make_text("traverse:")};
    behaviour* const base = in_.make<behaviour>();
    base->name = make_text("object");
    constexpr std::array<std::string_view, kinds> names{"text", "part", "node", "method", "class", "database"};
    for (std::size_t n = 0; n < kinds; ++n) {
      root.classes[n] = in_.make<behaviour>();
      root.classes[n]->name = make_text(names[n]);
      root.classes[n]->super = base;
    }
    const auto add = [&](kind to, std::size_t at, message which, int arguments, int temporaries,
                         void (*write)(method&)) {
      text* const selector = root.selectors[static_cast<std::size_t>(which)];
      method* const made = in_.make<method>();
      made->selector = made->literals[0] = selector;
      made->arguments = arguments;
      made->temporaries = temporaries;
      write(*made);
      root.classes[static_cast<std::size_t>(to)]->selectors[at] = selector;
      root.classes[static_cast<std::size_t>(to)]->methods[at] = made;
    };
    add(kind::part, 0, message::fetch, 0, 0, write_fetch);
    add(kind::part, 1, message::traverse, 1, 0, write_traverse);
    add(kind::index_node, 0, message::find, 1, 1, write_find);
  }

  // Each with its strings, in the order of ids.
  void make_parts() {
    made_.reserve(static_cast<std::size_t>(parts_));
    for (int id = 1; id <= parts_; ++id) made_.push_back(in_.make<part>());
    for (int id = 1; id <= parts_; ++id) {
      const oo1::planned_part plan = oo1::plan_part(id, parts_);
      part& of = *made_[static_cast<std::size_t>(id) - 1];
      of.id = id;
      of.x = plan.x;
      of.y = plan.y;
      of.build = plan.build;
      of.type = make_text(text_of(oo1::part_type(plan.type)));
      of.length[3] = -1;  // what the method of traversals adds to its argument: code has no negative integers
      for (std::size_t n = 0; n < 3; ++n) {
        of.to[n] = made_[static_cast<std::size_t>(plan.out[n].to) - 1];
        of.connection_type[n] = make_text(text_of(oo1::connection_type(plan.out[n].type)));
        of.length[n] = plan.out[n].length;
      }
    }
  }
  static std::string_view text_of(const oo1::type_name& of) { return {of.data(), of.size()}; }

  index_node* make_index() {
    std::vector<index_node*> level;
    for (std::size_t from = 0; from < made_.size(); from += index_node::fanout) {
      index_node* const node = in_.make<index_node>();
      node->count = static_cast<int>(std::min(index_node::fanout, made_.size() - from));
      for (std::size_t n = 0; n < static_cast<std::size_t>(node->count); ++n) {
        node->parts[n] = made_[from + n];
        node->lowest[n] = made_[from + n]->id;
      }
      level.push_back(node);
    }
    for (int height = 1; level.size() > 1; ++height) {
      std::vector<index_node*> above;
      for (std::size_t from = 0; from < level.size(); from += index_node::fanout) {
        index_node* const node = in_.make<index_node>();
        node->height = height;
        node->count = static_cast<int>(std::min(index_node::fanout, level.size() - from));
        for (std::size_t n = 0; n < static_cast<std::size_t>(node->count); ++n) {
          node->down[n] = level[from + n];
          node->lowest[n] = level[from + n]->lowest[0];
        }
        above.push_back(node);
      }
      level = std::move(above);
    }
    return level.front();
  }

  store& in_;
  const int parts_;
  std::vector<part*> made_;
};

}  // namespace

void make_database(const std::filesystem::path& at, int parts) {
  store made(at.string());
  made.transact([&] { maker(made, parts).make(); });
  made.close();
}

// --- The plan ---

visits planned_lookup(std::span<const int> ids, int parts) {
  visits planned;
  for (const int id : ids) {
    ++planned.number;
    planned.checksum += static_cast<std::uint64_t>(oo1::plan_part(id, parts).build);
  }
  return planned;
}

visits planned_traversal(int from, int hops, int parts) {
  const oo1::planned_part plan = oo1::plan_part(from, parts);
  visits planned{1, static_cast<std::uint64_t>(plan.build)};
  if (hops == 0) return planned;
  for (const auto& next : plan.out) {
    const visits further = planned_traversal(next.to, hops - 1, parts);
    planned.number += further.number;
    planned.checksum += further.checksum;
  }
  return planned;
}

}  // namespace tenure::bench::faulting
