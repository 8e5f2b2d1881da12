// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-stores.md: types.
#include <array>
#include <functional>
#include <iostream>
#include <optional>
#include <thread>
#include <variant>

#include <tenure/tenure.hpp>

// An aggregate: nothing to say.
enum class colour { red, green };
struct point {
  double x = 0, y = 0;
};
struct marker {
  point at;
  colour painted = colour::red;
  std::array<std::uint8_t, 4> levels{};
  std::optional<point> label_at;
  std::variant<std::int64_t, marker*> height;  // a number, or as high as another one
};

// A class with private members says which of them there are.
class account {
 public:
  explicit account(tenure::string owner) : owner_(std::move(owner)) {}
  [[nodiscard]] const tenure::string& owner() const { return owner_; }
  void deposit(std::int64_t cents) { cents_ += cents; }

 private:
  tenure::string owner_;
  std::int64_t cents_ = 0;

 public:
  static constexpr auto persistent = tenure::members<&account::owner_, &account::cents_>{};
};

// One that cannot be changed is described outside.
class version_number {
 public:
  int major_number = 0, minor_number = 0;
  tenure::string suffix;
  version_number() = default;
};
template <>
struct tenure::persist<version_number> {
  using members =
      tenure::members<&version_number::major_number, &version_number::minor_number, &version_number::suffix>;
};

// With virtual functions. The bases are named, too.
struct shape {
  virtual ~shape() = default;
  [[nodiscard]] virtual double area() const = 0;
  static constexpr auto persistent = tenure::members<>{};
};
struct square final : shape {
  double side = 0;
  [[nodiscard]] double area() const override { return side * side; }
  static constexpr auto persistent = tenure::bases<shape>{} + tenure::members<&square::side>{};
};
struct rectangle final : shape {
  double width = 0, height = 0;
  [[nodiscard]] double area() const override { return width * height; }
  static constexpr auto persistent = tenure::bases<shape>{} + tenure::members<&rectangle::width, &rectangle::height>{};
};

// What a process keeps for itself.
struct document {
  tenure::string text;
  tenure::transient<std::uint64_t> views;  // since the program was started
};

// Questions to the compiler.
static_assert(tenure::is_persistable_v<account>);
static_assert(tenure::is_exact_v<account>, "the library knows where its pointers are");
static_assert(!tenure::is_persistable_v<std::thread>);
static_assert(!tenure::is_persistable_v<std::function<void()>>);

int main() {
  try {
    tenure::store store{"things"};
    auto& shapes = store.root<tenure::vector<shape*>>("shapes");
    if (shapes.empty()) {
      store.transact([&] {
        auto* s = store.make<square>();
        s->side = 3;
        auto* r = store.make<rectangle>();
        r->width = 2;
        r->height = 4;
        shapes.push_back(s);
        shapes.push_back(r);
      });
    }
    for (const shape* s : shapes)
      std::cout << s->area() << (dynamic_cast<const square*>(s) != nullptr ? ", a square\n" : "\n");

    auto& d = store.root<document>("document");
    std::cout << "views: " << d.views << '\n';
    store.transact([&] { d.views = d.views + 1; });
    std::cout << "views: " << d.views << '\n';

    store.transact([&] {
      store.root<account*>("account") = store.make<account>("Ada");  // arguments go to the constructor
      store.root<account*>("account")->deposit(100);
      store.root<version_number>("version").suffix = "rc1";
      store.root<marker>("marker").height = &store.root<marker>("marker");
    });
    store.close();
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
