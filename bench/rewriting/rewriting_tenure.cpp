// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores that are compacted, cloned in each order, and converted. Converting programs have classes of other names here, because one
// program has the stored ones, too: what a store does when it is opened with store_options::evolve is called by hand.
#include <stdexcept>

#include <tenure/registry.hpp>
#include <tenure/rewrite.hpp>

#include "objects/stored_types.hpp"
#include "rewrite/rewriter.hpp"
#include "rewriting/contender.hpp"
#include "rewriting/parts.hpp"
#include "store/store_state.hpp"
#include "types/evolution.hpp"

namespace tenure::bench::rewriting {

namespace {

class stored : public contender {
 public:
  using contender::contender;

  void make(const size& of) override {
    store_options how;
    how.create.reservation = std::uint64_t{1} << 36;
    store s(made(), how);
    auto& root = s.root<stored_parts>("parts");
    constexpr std::uint64_t batch = 20000;
    std::vector<stored_part*> dropped;
    for (std::uint64_t first = 0; first < of.objects; first += batch)
      s.transact([&] {
        for (std::uint64_t n = first; n < std::min(first + batch, of.objects); ++n) {
          auto* const p = s.make<stored_part>();
          p->number = static_cast<std::int32_t>(n);
          p->weight = -p->number;
          p->kind = static_cast<std::int16_t>(n % 100);
          p->name = n % 2 == 0 ? "a name of some length, for a part" : "short";
          p->width = static_cast<double>(n);
          p->height = 2;
          p->next = root.all.empty() ? nullptr : root.all.back();
          p->other = root.all.empty() ? nullptr : root.all[n * 7919 % root.all.size()];
          root.all.push_back(p);
        }
      });
    // The ring of those that stay is closed around those that go.
    s.transact([&] {
      vector<stored_part*> kept;
      for (stored_part* const p : root.all) {
        if (!is_kept(static_cast<std::uint64_t>(p->number))) continue;
        p->next = kept.empty() ? nullptr : kept.back();
        p->other = kept.empty() ? nullptr : kept[static_cast<std::uint64_t>(p->number) * 7919 % kept.size()];
        kept.push_back(p);
      }
      for (stored_part* const p : root.all)
        if (p->number % 4 == 3) s.destroy(p);
      root.all = std::move(kept);
    });
    s.close();
  }
  void check(const size& of) override { check_as<stored_parts>(of, anew()); }

 protected:
  // By hand: the program knows the classes under several names.
  template <class Parts>
  static void check_as(const size& of, const std::string& directory) {
    store_options how;
    how.mode = rvm::open_mode::read_only;
    store_state s(directory, how, type_check::none);
    const auto& roots = *reinterpret_cast<const heap::root_table*>(s.databases->front().header().roots);
    const auto& all = static_cast<const Parts*>(roots.entries[0].object)->all;
    std::uint64_t at = 0;
    for (std::uint64_t n = 0; n < of.objects; ++n) {
      if (!is_kept(n)) continue;
      const auto* const p = all[at];
      if (p->number != static_cast<std::int64_t>(n) || p->next != (at == 0 ? nullptr : all[at - 1]) ||
          p->kind != static_cast<int>(n % 100) || p->name.size() != (n % 2 == 0 ? 33 : 5))
        throw std::runtime_error("wrong answer: the store is not what was made");
      ++at;
    }
    if (all.size() != at) throw std::runtime_error("wrong answer: the store has another number of objects");
    s.close();
  }
  static rewritten outcome_of(const rewrite_report& report) { return {report.bytes_after, report.bytes}; }
};

class compacted final : public stored {
 public:
  using stored::stored;
  std::string setting() const override { return "tenure::compact, in place"; }
  void prepare() override { std::filesystem::copy(made(), anew(), std::filesystem::copy_options::recursive); }
  rewritten rewrite() override { return outcome_of(compact(anew())); }
};

class cloned final : public stored {
 public:
  cloned(const std::filesystem::path& directory, object_order order) : stored(directory), order_(order) {}
  std::string setting() const override { return "tenure::clone"; }
  rewritten rewrite() override { return outcome_of(clone(made(), anew(), {.order = order_})); }

 private:
  const object_order order_;
};

template <class Part, class Parts>
class converted final : public stored {
 public:
  using stored::stored;
  std::string setting() const override { return "as store_options::evolve, into another directory"; }
  rewritten rewrite() override {
    std::filesystem::create_directory(anew());
    store_options how;
    how.mode = rvm::open_mode::read_only;
    how.read_ahead = 0;
    store_state opened(made(), how, type_check::none);
    const database_state& from = opened.databases->front();
    tenure::rewriting::new_store as{anew(), anew() + "/log", {}};
    as.databases.push_back({from.name, anew() + "/main.db", from.home + (std::uint64_t{1} << 37), from.reservation,
                            from.header().database_id});
    const types::evolution plan({&type_of<Part>(), &type_of<Parts>(), &type_of<vector<Part*>>(), &type_of<Part*>(),
                                 &type_of<string>(), &type_of<char>()});
    const rewrite_report report =
        tenure::rewriting::rewrite(*opened.databases, as, {.order = object_order::by_address}, &plan);
    opened.close();
    return outcome_of(report);
  }
  void check(const size& of) override { check_as<Parts>(of, anew()); }
};

}  // namespace

std::unique_ptr<contender> make_compact(const std::filesystem::path& directory) {
  return std::make_unique<compacted>(directory);
}
std::unique_ptr<contender> make_clone(const std::filesystem::path& directory) {
  return std::make_unique<cloned>(directory, object_order::breadth_first);
}
std::unique_ptr<contender> make_depth_first(const std::filesystem::path& directory) {
  return std::make_unique<cloned>(directory, object_order::depth_first);
}
std::unique_ptr<contender> make_by_address(const std::filesystem::path& directory) {
  return std::make_unique<cloned>(directory, object_order::by_address);
}
std::unique_ptr<contender> make_by_type(const std::filesystem::path& directory) {
  return std::make_unique<cloned>(directory, object_order::by_type);
}
std::unique_ptr<contender> make_convert_verbs(const std::filesystem::path& directory) {
  return std::make_unique<converted<verb_part, verb_parts>>(directory);
}
std::unique_ptr<contender> make_convert_functions(const std::filesystem::path& directory) {
  return std::make_unique<converted<function_part, function_parts>>(directory);
}

}  // namespace tenure::bench::rewriting
