// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
//     store_program STORE checking|announced|none TRANSACTIONS
//
// Changes objects in many ways, over many transactions, with the barriers named, after it has found what the last run left.
// Compiled with barriers, no store goes unseen. Compiled bare, it uses the same store, with `none` only.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <tenure/allocator.hpp>
#include <tenure/tenure.hpp>

namespace machines {

struct part {
  std::uint64_t id = 0;
  std::uint32_t numbers[9] = {};
  double weight = 0;
  char name[24] = {};
  bool marked = false;
  part* next = nullptr;
};

struct assembly {
  tenure::vector<part*> parts;
  tenure::string title;
  tenure::map<std::uint64_t, part*> by_id;
  tenure::std_map<std::uint64_t, std::uint64_t> standard_map;
  tenure::std_list<std::uint64_t> standard_list;
  tenure::std_vector<std::uint32_t> standard_vector;
  tenure::std_deque<std::uint64_t> standard_deque;
  tenure::std_set<std::uint64_t> standard_set;
  tenure::std_unordered_map<std::uint64_t, std::uint64_t> standard_hash_map;
  tenure::std_string standard_text;
  std::uint64_t made = 0;
  std::uint64_t transactions = 0;
  std::uint64_t sum = 0;  // of all that is reachable, when the last transaction ended
  std::uint64_t counted_elsewhere = 0;
};

}  // namespace machines

using machines::assembly, machines::part;

namespace {

struct generator {
  std::uint64_t state;
  std::uint64_t operator()(std::uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  }
};

class sum {
 public:
  void add(const void* at, std::size_t length) {
    for (std::size_t n = 0; n < length; ++n)
      value_ = (value_ ^ static_cast<const unsigned char*>(at)[n]) * 0x100000001b3u;
  }
  template <class T>
  void add(const T& value) {
    add(&value, sizeof value);
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

std::uint64_t sum_of(const assembly& all) {
  sum s;
  for (const part* p : all.parts) {
    s.add(p->id);
    s.add(p->numbers);
    s.add(p->weight);
    s.add(p->name);
    s.add(p->marked);
    s.add(p->next != nullptr ? p->next->id : 0);
  }
  s.add(all.title.data(), all.title.size());
  for (const auto& [id, p] : all.by_id) s.add(id + p->id);
  for (const auto& [key, value] : all.standard_map) s.add(key * value);
  for (const auto n : all.standard_list) s.add(n);
  for (const auto n : all.standard_vector) s.add(n);
  for (const auto n : all.standard_deque) s.add(n);
  for (const auto n : all.standard_set) s.add(n);
  std::uint64_t in_any_order = 0;
  for (const auto& [key, value] : all.standard_hash_map) in_any_order += key * 31 + value;
  s.add(in_any_order);
  s.add(all.standard_text.data(), all.standard_text.size());
  s.add(all.made);
  s.add(all.transactions);
  return s.value();
}

void change_part(part& p, part& other, generator& draw) {
  switch (draw(10)) {
    case 0: p.weight += 1.5; break;
    case 1: p.marked = !p.marked; break;
    case 2: p.numbers[draw(9)]++; break;
    case 3:
      for (std::uint32_t& n : p.numbers) n += 3;
      break;
    case 4: std::snprintf(p.name, sizeof p.name, "part %u", static_cast<unsigned>(draw(1000))); break;
    case 5: std::strcpy(p.name, "copied"); break;
    case 6: std::sort(std::begin(p.numbers), std::end(p.numbers), std::greater<>()); break;
    case 7: std::swap(p.weight, other.weight); break;
    case 8: {
      const std::uint64_t id = p.id;
      p = other;
      p.id = id;
      break;
    }
    default: std::memset(p.numbers, static_cast<int>(draw(200)), sizeof p.numbers);
  }
  if (draw(5) == 0) p.next = &other;
}

void change_containers(assembly& all, generator& draw) {
  switch (draw(12)) {
    case 0: all.standard_map[draw(300)] = draw(1000); break;
    case 1: all.standard_map.erase(draw(300)); break;
    case 2:
      all.standard_list.push_back(draw(1000));
      if (all.standard_list.size() > 80) all.standard_list.pop_front();
      break;
    case 3:
      all.standard_list.sort();
      all.standard_list.reverse();
      break;
    case 4: all.standard_vector.push_back(static_cast<std::uint32_t>(draw(1000))); break;
    case 5:
      std::sort(all.standard_vector.begin(), all.standard_vector.end());
      if (all.standard_vector.size() > 400) all.standard_vector.clear();
      break;
    case 6:
      all.standard_deque.push_front(draw(100));
      if (all.standard_deque.size() > 300) all.standard_deque.pop_back();
      break;
    case 7:
      all.standard_set.insert(draw(500));
      all.standard_set.erase(draw(500));
      break;
    case 8:
      all.standard_hash_map[draw(500)] += 7;
      all.standard_hash_map.erase(draw(500));
      break;
    case 9:
      all.standard_text += static_cast<char>('a' + draw(26));
      if (all.standard_text.size() > 100) all.standard_text.erase(3, 60);
      break;
    case 10: all.title = "a title that changes " + std::to_string(draw(1000)); break;
    default:
      std::rotate(all.standard_deque.begin(),
                  all.standard_deque.begin() + static_cast<std::ptrdiff_t>(all.standard_deque.size() / 3),
                  all.standard_deque.end());
  }
}

int run(const std::string& directory, const std::string& how, std::uint64_t transactions) {
  std::uint64_t unseen = 0;
  tenure::store_options options;
  options.barriers = how == "checking"    ? tenure::rvm::write_barriers::checking
                     : how == "announced" ? tenure::rvm::write_barriers::announced
                                          : tenure::rvm::write_barriers::none;
  options.create.reservation = std::uint64_t{1} << 36;
  options.memory.on_unseen_store = [&](const tenure::rvm::unseen_store& store) {
    if (unseen++ < 5)
      std::printf("unseen: %zu bytes at %#jx of %s: %s\n", store.length, std::uintmax_t{store.offset},
                  store.segment_path, store.what);
  };
  tenure::store store(directory, options);
  auto& all = store.root<assembly>("all");
  if (all.transactions != 0 && all.sum != sum_of(all)) {
    std::printf("what the last run has left is not what it committed\n");
    return 1;
  }
  generator draw{all.transactions * 977 + 5};
  // More databases than could be marked as a whole.
  std::vector<part*> elsewhere;
  std::uint64_t counted_there = 0;
  for (int n = 0; n < 20; ++n) {
    const std::string name = "elsewhere-" + std::to_string(n);
    std::optional<tenure::database> in = store.find_database(name);
    if (!in) in = store.create_database(name);
    elsewhere.push_back(&in->root<part>("part"));
    counted_there += elsewhere.back()->id;
  }
  if (counted_there != all.counted_elsewhere) {
    std::printf("other databases have counted %ju, not %ju\n", std::uintmax_t{counted_there},
                std::uintmax_t{all.counted_elsewhere});
    return 1;
  }
  for (std::uint64_t n = 0; n < transactions; ++n) {
    const auto body = [&] {
      if (all.parts.size() < 500 && draw(3) == 0) {
        part* const p = store.make<part>();
        p->id = ++all.made;
        all.parts.push_back(p);
        all.by_id.insert({p->id, p});
      }
      for (int change = 0; change < 6 && !all.parts.empty(); ++change)
        change_part(*all.parts[draw(all.parts.size())], *all.parts[draw(all.parts.size())], draw);
      for (int change = 0; change < 4; ++change) change_containers(all, draw);
      if (all.parts.size() > 20 && draw(4) == 0) {
        part* const last = all.parts.back();
        for (part* p : all.parts)
          if (p->next == last) p->next = nullptr;
        all.by_id.erase(last->id);
        all.parts.pop_back();
        store.destroy(last);
      }
      ++elsewhere[draw(elsewhere.size())]->id;
      ++all.counted_elsewhere;
      ++all.transactions;
      all.sum = sum_of(all);
    };
    if (draw(20) == 0) {
      tenure::transaction tx = store.begin();
      const std::uint64_t before = all.sum;
      body();
      tx.abort();
      if (all.sum != before) std::printf("an abort has left something\n");
      continue;
    }
    store.transact(body, tenure::commit_mode::lazy);
  }
  const std::uint64_t counted = store.stats().memory.tracking.unseen_stores;
  const bool good = all.sum == sum_of(all) && store.verify().empty();
  store.close();
  std::printf("%s: %ju transactions, %ju unseen stores, %ju counted\n", how.c_str(), std::uintmax_t{transactions},
              std::uintmax_t{unseen}, std::uintmax_t{counted});
  return good && unseen == 0 && counted == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    return run(argv[1], argv[2], std::strtoull(argv[3], nullptr, 10));
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
}
