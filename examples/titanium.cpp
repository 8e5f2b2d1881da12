// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
//     titanium STORE < lines
//
// What Arnold and Kamil's compiler does for Titanium, in C++ with the object heap: the list of lines of lines.c, without a
// call to update anything. docs/pobj.md has the table that goes with it.
#include <iostream>
#include <string>

#include <tenure/tenure.hpp>

// Any type: persistent objects of it are those that a root leads to, others are not [pobj 5.5.2].
struct line {
  tenure::string text;                    // a persistent array [pobj 5.2.2]
  line* next = nullptr;                   // an ordinary reference
  tenure::transient<int> times_shown{0};  // not restored [pobj 5.2.1]
};
struct lines {
  line* first = nullptr;
  std::uint64_t count = 0;
};

// Written for lines wherever they are, persistent or not [pobj 5.5].
void push(lines& to, line* made) {
  made->next = to.first;
  to.first = made;
  ++to.count;
}

int main(int count, char** arguments) {
  try {
    if (count != 2) throw std::runtime_error("usage: titanium STORE < lines");
    tenure::store store{arguments[1]};
    auto& all = store.root<lines>("lines");  // a static variable of Titanium [pobj 5.2.4]

    for (std::string text; std::getline(std::cin, text);)
      store.transact([&] {  // transaction { ... } [pobj 5.2.3]
        push(all, store.make<line>(line{tenure::string(text)}));
        store.transact([&] { all.first->times_shown = 1; });  // nested: part of the outermost
      });

    // A transaction that an exception leaves has not happened.
    try {
      store.transact([&] {
        push(all, store.make<line>());
        throw std::domain_error("no");
      });
    } catch (const std::domain_error&) {
    }

    lines on_the_stack;  // transient, and what is in it, too
    line other{"a transient line"};
    push(on_the_stack, &other);

    int new_ones = 0;
    for (line* l = all.first; l != nullptr; l = l->next) {
      new_ones += l->times_shown;
      std::cout << l->text << '\n';
    }
    std::cout << all.count << " lines, " << new_ones << " of them new\n";
    store.close();
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
