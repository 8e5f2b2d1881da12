// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A miniature of the thesis's virtual machine: bytecodes, sends through a cache of methods, and no residency check but in the
// full lookup that a miss of this cache makes [Hosking §4.2.1].
//
// The receiver of a running method is resident, and so are its method, the method's literals and its class. A send takes the
// receiver's class without asking whether it is there. What is not there gives a class that no object has: null for a tagged
// identifier, the tagged word of a block. The full lookup enters a faulting entry for it, which makes the receiver resident and sends
// again.
//
// Code is a byte for the operation and its operands. Words of memory are in the stack only.
#pragma once

#include <array>
#include <span>
#include <stdexcept>
#include <vector>

#include "faulting/object_memory.hpp"
#include "faulting/visits.hpp"

namespace tenure::bench::faulting {

enum class operation : std::uint8_t {
  push_self,
  push_temporary,  // number; arguments come first
  pop_into,        // number
  push_integer,    // value
  push_field,      // offset / 4 of an int
  push_reference,  // offset / 8
  push_element,    // offset / 4 of an array of int; pops the index
  push_target,     // offset / 8 of an array of references; pops the index
  add,             // of the two that it pops
  is_less,         // whether the lower one is less: 1 or 0
  jump,            // bytes, from behind it
  jump_if_zero,    // bytes; pops
  send,            // number of the literal, arguments
  pop,
  visit,  // pops build, type, y and x of a part
  answer  // what it pops
};

template <class Memory>
class interpreter final : private Memory::transient_words {
 public:
  explicit interpreter(Memory& memory) : memory_(memory) {
    memory_.scan_also(this);
    const auto& root = memory_.root().template as<database>();
    for (std::size_t n = 0; n < messages; ++n) selectors_[n] = word_of(root.selectors[n]);
    push(word_of(root.index));  // the lowest word of the stack
  }
  ~interpreter() { memory_.scan_also(nullptr); }
  interpreter(const interpreter&) = delete;
  interpreter& operator=(const interpreter&) = delete;

  [[nodiscard]] visits look_up(std::span<const int> ids) {
    visited_ = {};
    for (const int id : ids) {
      push(stack_[0]);
      push(integer(id));
      run(message::find, 1);
      run(message::fetch, 0);
      (void)pop();
    }
    return visited_;
  }
  [[nodiscard]] visits traverse(int from, int hops) {
    visited_ = {};
    push(stack_[0]);
    push(integer(from));
    run(message::find, 1);
    push(integer(hops));
    run(message::traverse, 1);
    (void)pop();
    return visited_;
  }
  [[nodiscard]] std::uint64_t lookups() const { return lookups_; }

 private:
  struct cached_method {
    word of = 0, selector = 0;  // a class and a selector; no selector: nothing
    resident* code = nullptr;   // nullptr: makes the receiver resident
  };
  struct frame {
    const std::uint8_t* next;
    resident* self;
    resident* code;
    std::size_t base;  // of its arguments in the stack; the receiver is below
  };

  std::span<word> all() override { return {stack_.data(), top_}; }
  void push(word value) { stack_[top_++] = value; }
  word pop() { return stack_[--top_]; }

  [[nodiscard]] cached_method& cached(word of, word selector) {
    return methods_[((of >> 4) ^ (of >> 15) ^ (selector >> 5)) % methods_.size()];
  }

  // The method for the receiver, which becomes resident and direct. It lies below its arguments.
  [[nodiscard]] resident& find_method(word& receiver, word selector) {
    for (;;) {
      const word first = memory_.class_of(receiver);
      cached_method& known = cached(first, selector);
      if (known.of != first || known.selector != selector) look_up_method(known, first, selector);
      if (known.code != nullptr) [[likely]]
        return *known.code;
      receiver = word_of(&memory_.fault(receiver));
    }
  }
  // Ascends the classes, which may not be resident, and neither may be what they have.
  [[gnu::noinline]] void look_up_method(cached_method& into, word first, word selector) {
    ++lookups_;
    if (!Memory::is_resident_class(first)) {
      into = {first, selector, nullptr};
      return;
    }
    for (word at = first; at != 0;) {
      resident& of = memory_.reach(at);
      for (std::size_t n = 0; n < behaviour::most_methods; ++n) {
        const word known = word_of(of.as<behaviour>().selectors[n]);
        if (known == 0 || word_of(&memory_.reach(known)) != selector) continue;
        into = {first, selector, &memory_.reach(word_of(of.as<behaviour>().methods[n]))};
        return;
      }
      at = word_of(of.as<behaviour>().super);
    }
    throw std::logic_error("an object does not understand a message");
  }
  void enter(resident& code, std::size_t arguments) {
    const std::size_t base = top_ - arguments;
    const auto& found = code.as<method>();
    frames_.push_back({found.code.data(), resident_at(stack_[base - 1]), &code, base});
    for (int n = 0; n < found.temporaries; ++n) push(integer(0));
  }

  // Receiver and arguments are on the stack; the answer takes their place.
  void run(message which, std::size_t arguments) {
    const std::size_t depth = frames_.size();
    enter(find_method(stack_[top_ - arguments - 1], selectors_[static_cast<std::size_t>(which)]), arguments);
    while (frames_.size() > depth) step();
  }

  // Until the method sends or answers.
  void step() {
    const frame active = frames_.back();
    const std::uint8_t* next = active.next;
    const auto operand = [&] { return *next++; };
    const auto at = [&](std::size_t offset) { return active.self->fields() + offset; };
    const auto pop_value = [&] { return value_of(pop()); };
    for (;;) switch (static_cast<operation>(*next++)) {
        case operation::push_self: push(word_of(active.self)); break;
        case operation::push_temporary: push(stack_[active.base + operand()]); break;
        case operation::pop_into: stack_[active.base + operand()] = pop(); break;
        case operation::push_integer: push(integer(operand())); break;
        case operation::push_field: push(integer(*reinterpret_cast<int*>(at(operand() * 4U)))); break;
        case operation::push_reference: push(*reinterpret_cast<word*>(at(operand() * 8U))); break;
        case operation::push_element: {
          const std::size_t index = static_cast<std::size_t>(pop_value());
          push(integer(*reinterpret_cast<int*>(at((operand() + index) * 4))));
          break;
        }
        case operation::push_target: {
          const std::size_t index = static_cast<std::size_t>(pop_value());
          push(*reinterpret_cast<word*>(at((operand() + index) * 8)));
          break;
        }
        case operation::add: {
          const std::int64_t right = pop_value(), left = pop_value();
          push(integer(left + right));
          break;
        }
        case operation::is_less: {
          const std::int64_t right = pop_value(), left = pop_value();
          push(integer(left < right));
          break;
        }
        case operation::jump: {
          const auto by = static_cast<std::int8_t>(operand());
          next += by;
          break;
        }
        case operation::jump_if_zero: {
          const auto by = static_cast<std::int8_t>(operand());
          if (pop_value() == 0) next += by;
          break;
        }
        case operation::send: {
          const std::size_t literal = operand(), arguments = operand();
          frames_.back().next = next;
          const word selector = word_of(active.code->template as<method>().literals[literal]);
          enter(find_method(stack_[top_ - arguments - 1], selector), arguments);
          return;
        }
        case operation::pop: (void)pop(); break;
        case operation::visit: {
          const std::int64_t build = pop_value();
          const word type = pop();
          const std::int64_t y = pop_value(), x = pop_value();
          visited_.visit(static_cast<int>(x), static_cast<int>(y), type, static_cast<int>(build));
          break;
        }
        case operation::answer: {
          const word value = pop();
          top_ = active.base;
          stack_[top_ - 1] = value;
          frames_.pop_back();
          return;
        }
      }
  }

  Memory& memory_;
  std::array<word, messages> selectors_{};  // resident
  std::array<cached_method, 1024> methods_{};
  std::array<word, 4096> stack_{};
  std::size_t top_ = 0;
  std::vector<frame> frames_;
  visits visited_;
  std::uint64_t lookups_ = 0;
};

}  // namespace tenure::bench::faulting
