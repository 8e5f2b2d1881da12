// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/rewriter.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

#include <tenure/error.hpp>

#include "log/format.hpp"
#include "log/manifest.hpp"
#include "objects/header_check.hpp"
#include "objects/object_text.hpp"
#include "os/process.hpp"
#include "os/storage_guard.hpp"
#include "os/system_error.hpp"
#include "replay/closed_log.hpp"
#include "rewrite/address_orders.hpp"
#include "rewrite/conversion_memory.hpp"
#include "rewrite/converted_values.hpp"
#include "rewrite/key_orders.hpp"
#include "rewrite/live_elements.hpp"
#include "rewrite/moved_references.hpp"
#include "rewrite/new_space.hpp"
#include "rewrite/new_types.hpp"
#include "rewrite/page_writer.hpp"
#include "rewrite/reached_objects.hpp"
#include "rewrite/rebuilt_trees.hpp"
#include "rewrite/switched_files.hpp"
#include "segments/segment.hpp"

namespace tenure::rewriting {

using namespace heap;

namespace {

constexpr std::size_t pages_in_memory = 4096;            // of all databases together
constexpr std::uint64_t piece = std::uint64_t{1} << 20;  // of a large object that is copied at once

// The heap's own objects have headers (database_state::make_internal).
[[nodiscard]] bool is_internal(const type& t) { return std::string_view(t.name).starts_with("tenure::heap::"); }

[[nodiscard]] std::vector<used_parts> accesses_of(const database_set& store, const rewrite_options& how,
                                                  os::disk& disk) {
  if (how.order != object_order::by_access) return {};
  if (how.accesses.empty())
    throw error(errc::bad_option,
                "object_order::by_access needs what a program has recorded: name the file in accesses");
  used_parts_of_store recorded = read_accesses(disk, how.accesses);
  if (recorded.log != rvm::manifest_file::open_unlocked(disk, store.memory().log_path()).current().log_id)
    throw error(errc::bad_option,
                how.accesses + ": was not recorded of " + store.directory() +
                    " as it is now: the store was written anew since, or it is another one; a program "
                    "must read it again, with record_accesses");
  return std::move(recorded.databases);
}

// A database that is being made.
struct made_database {
  made_database(const database_state& from, const new_database& as)
      : space(as.name, as.home, as.reservation - vtable_area, from.owner.how().tune.typed_from) {}

  new_space space;
  std::unique_ptr<rvm::segment> segment;
  std::unique_ptr<page_writer> pages;
};

class rewriter {
  using further_object = tenure::detail::conversion_memory::made_object;

 public:
  rewriter(const database_set& store, const new_store& as, const rewrite_options& how, const types::evolution* plan)
      : store_(store),
        as_(as),
        how_(how),
        plan_(plan),
        disk_(how.disk != nullptr ? *how.disk : os::real_disk()),
        accesses_(accesses_of(store, how, disk_)),
        reached_(store, as.directory, how.on_progress),
        references_(store, reached_, types_),
        further_(store),
        trees_(store, plan) {
    std::vector<std::string> problems;
    const tenure::detail::conversion_memory::scope containers_use(further_);  // default constructors run
    for (std::size_t n = 0; n < store.size(); ++n) types_.emplace_back(store[n], as.databases[n].home, plan, problems);
    require_none(problems);
  }

  rewrite_report run() {
    reached_.search(how_.order, accesses_);
    os::storage_guard::require_all_read_so_far();  // what follows relies on nodes
    for (std::size_t n = 0; n < store_.size(); ++n) made_.emplace_back(store_[n], as_.databases[n]);
    // Each walk takes a tenth of the time of a rewriting. Most stores need only that for places.
    const bool has_orders = any_depends_on_addresses();
    if (has_changes() || has_orders) reached_.for_each([&](std::size_t in, address object) { note_live(in, object); });
    if (has_changes()) reached_.for_each([&](std::size_t in, address object) { find_trees(in, object); });
    reached_.for_each([&](std::size_t in, address object) { place(in, object); });
    if (has_orders) reached_.for_each([&](std::size_t in, address object) { find_orders(in, object); });
    os::storage_guard::require_all_read_so_far();
    put_in_order();
    build_trees();
    if (!orders_.empty()) references_.set_orders(&orders_);
    like_ = rvm::manifest_file::open_unlocked(disk_, store_.memory().log_path()).current();
    os::random_bytes(log_id_);
    for (std::size_t n = 0; n < store_.size(); ++n) make_segment(n);
    reached_.for_each([&](std::size_t in, address object) { copy(in, object); });
    for (const auto& [in, node] : nodes_) {
      write_made(in, *node, elsewhere(in, 0));
      write_further(in, 0);
    }
    for (std::size_t n = 0; n < store_.size(); ++n) write_tables(n);
    make_log();
    report_.left_out = reached_.left_out();
    report_.weak_cleared = references_.weak_cleared();
    report_.accesses_cut_short =
        std::ranges::any_of(accesses_, [&](const used_parts& each) { return each.is_cut_short; });
    return report_;
  }

 private:
  static void require_none(const std::vector<std::string>& problems) {
    if (problems.empty()) return;
    std::string text = "the store cannot be converted; nothing was changed:";
    for (const std::string& each : problems) text += "\n  " + each;
    throw error(errc::schema_mismatch, text);
  }

  // --- Places --------------------------------------------------------------------------------------------------------

  void place(std::size_t in, address object) {
    if (trees_.is_left_out(object)) return;
    const object_facts facts = store_[in].map->facts(object);
    const new_type& type = types_[in].at(facts.type);
    if (type.how != nullptr && type.how->has_fewer_slots)
      throw error(errc::schema_mismatch,
                  object_text(store_, object) +
                      ": belongs to a class that is derived from a container, whose entries have "
                      "changed; nothing was changed");
    const std::uint64_t bytes = new_size(type, facts.size);
    reached_.place_of(in, object) = place_new(in, type, bytes);
    ++report_.objects;
    report_.bytes += bytes;
  }
  [[nodiscard]] bool has_changes() const {
    return std::ranges::any_of(types_, [](const new_types& t) { return t.has_changes(); });
  }
  // Trees in the object that must be built anew.
  void find_trees(std::size_t in, address object) {
    const object_facts facts = store_[in].map->facts(object);
    const type& of = *store_[in].types->at(facts.type).of;
    require_none(types_[in].at(facts.type).refusal.empty() ? std::vector<std::string>{}
                                                           : std::vector{types_[in].at(facts.type).refusal});
    const std::vector<keyed_container>& known = trees_in(in, of);
    if (known.empty() || (of.tolerates_stale && !live_.knows(object))) return;
    const live_elements::range live = live_.of(object, facts.size / std::max<std::uint64_t>(of.size, 1));
    for (std::uint64_t n = live.first; n < live.end; ++n)
      for (const keyed_container& each : known) {
        const address value = object + n * of.size;
        if (!has_entries(each, reinterpret_cast<const std::byte*>(value))) continue;
        found_trees_.push_back({in, each.of, value + each.offset});
        trees_.leave_out(*each.of, value + each.offset);
      }
  }
  const std::vector<keyed_container>& trees_in(std::size_t in, const type& of) {
    auto& known = with_trees_[&of];
    if (!known)
      known = containers_in(of, [&](const type& t, const std::string&) { return trees_.concerns(t, types_[in]); });
    return *known;
  }
  const std::vector<keyed_container>& ordered_in(std::size_t in, const type& of) {
    auto& known = ordered_[&of];
    if (!known) known = ordered_by_address(of, *store_[in].types);
    return *known;
  }
  const std::vector<vector_place>& vectors_of(const type& of) {
    auto& known = vectors_[&of];
    if (!known) known = vectors_in(of);
    return *known;
  }
  bool any_depends_on_addresses() {
    for (std::size_t n = 0; n < store_.size(); ++n)
      for (std::uint32_t type = 1; type < store_[n].types->count(); ++type)
        if (const known_type* const t = store_[n].types->find(type); t != nullptr && !ordered_in(n, *t->of).empty())
          return true;
    return false;
  }
  // What lies in entries of others comes later, and is built before them.
  void build_trees() {
    for (auto t = found_trees_.rbegin(); t != found_trees_.rend(); ++t)
      trees_.build(*t->of, t->at, types_[t->in], orders_, [&](further_object& node) {
        node.place = place_new(t->in, types_[t->in].of(*node.of), node.bytes);
        nodes_.emplace_back(t->in, &node);
      });
  }
  // Containers in the object whose order depends on addresses.
  void find_orders(std::size_t in, address object) {
    const object_facts facts = store_[in].map->facts(object);
    const type& of = *store_[in].types->at(facts.type).of;
    const std::vector<keyed_container>& known = ordered_in(in, of);
    if (known.empty()) return;
    const bool may_be_stale = of.tolerates_stale && !live_.knows(object);
    const live_elements::range live = live_.of(object, facts.size / std::max<std::uint64_t>(of.size, 1));
    for (std::uint64_t n = live.first; n < live.end; ++n)
      for (const keyed_container& each : known) {
        const address value = object + n * of.size;
        if (!has_entries(each, reinterpret_cast<const std::byte*>(value))) continue;
        found_orders_.push_back({object, value, &each, may_be_stale});
        if (!may_be_stale) orders_.expect(each, value);
      }
  }
  // One whose keys refer to entries of another comes after this.
  void put_in_order() {
    while (!found_orders_.empty()) {
      std::vector<found_order> later;
      for (const found_order& each : found_orders_) try {
          const std::string why = orders_.reorder(*each.container, each.value);
          if (!why.empty() && !each.may_be_stale) refuse_order(each, why);  // what is stale need not be a container
        } catch (const address_orders::comes_later&) {
          later.push_back(each);
        }
      if (later.size() == found_orders_.size())
        refuse_order(later.front(),
                     "its keys are pointers to entries of such containers, each of which needs the other first");
      found_orders_ = std::move(later);
    }
  }
  struct found_order {
    address object, value;
    const keyed_container* container;
    bool may_be_stale;
  };
  [[noreturn]] void refuse_order(const found_order& of, const std::string& why) const {
    throw error(errc::bad_type, object_text(store_, of.object) + ": has a " +
                                    std::string(name_of_elements(*of.container->of)) +
                                    ", whose order depends on the addresses of objects, and " + why +
                                    "; objects would move, so nothing was changed");
  }
  // Of a stored pointer, the name that the program's type has.
  [[nodiscard]] std::string pointee_of(std::string_view pointer) const {
    if (!has_changes()) return {};
    if (pointer.ends_with('*')) pointer.remove_suffix(1);
    if (pointer.ends_with(" const")) pointer.remove_suffix(std::string_view(" const").size());
    return pointer == "void" ? std::string() : plan_->renamed(pointer);
  }
  // What the object's vectors say of arrays that will be converted, or have containers in them. Of arrays with stale slots
  // only those elements are looked at of which vectors say that they are live.
  void note_live(std::size_t in, address object) {
    const object_facts facts = store_[in].map->facts(object);
    const type& of = *store_[in].types->at(facts.type).of;
    if (of.tolerates_stale || vectors_of(of).empty()) return;
    struct elements {
      const type* of;
      address at;
      live_elements::range live;
    };
    std::vector<elements> left{{&of, object, {0, facts.size / std::max<std::uint64_t>(of.size, 1)}}};
    const auto type_at = [&](address array) -> const type* {
      const std::size_t there = reached_.number_of(array, in);
      if (there == reached_objects::npos || store_[there].map->find_persistent(array) != array) return nullptr;
      const std::uint32_t type = store_[there].map->facts(array).type;
      const heap::known_type& stored = store_[there].types->at(type);
      const bool matters =
          types_[there].at(type).how != nullptr ||
          (stored.of->tolerates_stale && (!ordered_in(there, *stored.of).empty() ||
                                          !trees_in(there, *stored.of).empty() || !vectors_of(*stored.of).empty()));
      return matters ? stored.of : nullptr;
    };
    while (!left.empty()) {
      const elements all = left.back();
      left.pop_back();
      for (std::uint64_t n = all.live.first; n < all.live.end; ++n)
        for (const vector_place& each : vectors_of(*all.of))
          live_.look_at(
              each, reinterpret_cast<const std::byte*>(all.at + n * all.of->size),
              [&](address array) {
                const type* const t = type_at(array);
                return t != nullptr ? t->size : 0;
              },
              [&](address array, live_elements::range live) {
                if (const type& t = *type_at(array); t.tolerates_stale && !vectors_of(t).empty())
                  left.push_back({&t, array, live});
              });
    }
  }
  address place_new(std::size_t in, const new_type& type, std::uint64_t bytes) {
    new_object what = described_object(type.index, *type.of, *type.words, bytes);
    what.may_be_typed &= !is_internal(*type.of);
    return made_[in].space.place(what);
  }
  static std::uint64_t new_size(const new_type& type, std::uint64_t was) {
    if (type.how == nullptr) return was;
    return was / std::max<std::uint64_t>(type.how->from->size, 1) * type.of->size;
  }

  // --- Files ---------------------------------------------------------------------------------------------------------

  void make_segment(std::size_t n) {
    const new_database& as = as_.databases[n];
    made_database& made = made_[n];
    const std::uint64_t most = as.reservation - vtable_area;
    rvm::segment::create(disk_, as.file,
                         {.length = std::min(length_for(n), most),
                          .max_length = most,
                          .permissions = like_.permissions,
                          .home = as.home,
                          .tag = database_tag,
                          .member = true},
                         switched(as.file));
    made.segment = std::make_unique<rvm::segment>(disk_, as.file, as.name + ".db", os::access::read_write, false);
    // Until the log is there, no other may be used on it.
    made.segment->note_in_log(log_id_, as_.log, like_.tail);
    made.pages =
        std::make_unique<page_writer>(*made.segment, std::max<std::size_t>(pages_in_memory / store_.size(), 64));
  }
  // With room for the descriptions of types, which come last.
  std::uint64_t length_for(std::size_t n) {
    std::uint64_t length = made_[n].space.length() + block_size;
    for (const new_types::description& each : types_[n].describe()) length += each.bytes.size() + 2 * granule;
    return rvm::round_up(length, block_size);
  }
  // Objects were added to those for which there was room. By little more than they need: what is left over stays.
  static void grow(made_database& made) {
    if (made.space.length() <= made.segment->length()) return;
    const std::uint64_t step = std::clamp(made.segment->length() / 8, 16 * block_size, most_growth);
    made.segment->grow(std::min(rvm::round_up(made.space.length() + step, block_size), made.segment->max_length()));
  }

  void make_log() {
    std::map<std::string, rvm::segment*> opened;
    like_.segments.clear();
    like_.first = 0;  // what was before is in another log
    like_.incompatible = 0;
    for (const made_database& made : made_) {
      opened.emplace(made.segment->logged_path(), made.segment.get());
      rvm::listed_segment& listed = like_.segments.emplace_back();
      listed.id = made.segment->id();
      listed.membership = rvm::full_member;
      listed.path_text = made.segment->logged_path();
    }
    rvm::make_closed_log(disk_, as_.log, like_, log_id_, like_.tail, opened);
  }

  // --- Objects -------------------------------------------------------------------------------------------------------

  // In pieces of whole elements, so that a large object needs little memory.
  void copy(std::size_t in, address object) {
    if (trees_.is_left_out(object)) return;
    const object_facts facts = store_[in].map->facts(object);
    const new_type& type = types_[in].at(facts.type);
    const address to = reached_.place_of(in, object);
    write_header(in, to, type.index, new_size(type, facts.size));
    const std::uint64_t was = std::max<std::uint64_t>(type.how != nullptr ? type.how->from->size : type.of->size, 1);
    const std::uint64_t at_once = std::max(piece / std::max(was, type.of->size), std::uint64_t{1}) * was;
    address place = to;
    for (std::uint64_t at = 0; at < facts.size; at += at_once) {
      const auto* const from = reinterpret_cast<const std::byte*>(object + at);
      const std::span old = in_order(object + at, {from, std::min(at_once, facts.size - at)});
      if (type.how == nullptr)
        buffer_.assign(old.begin(), old.end());
      else
        convert_live(*type.how, object, at, old);
      references_.rewrite({type, object, buffer_.data(), buffer_.size(), place}, elsewhere(in, place));
      made_[in].pages->write(place - made_[in].space.home(), buffer_);
      write_further(in, place);
      place += buffer_.size();
    }
    if ((++copied_ & 0xffff) == 0 && how_.on_progress) how_.on_progress({"copying", copied_, report_.objects});
  }

  // The stored bytes, but for the order of entries.
  std::span<const std::byte> in_order(address from, std::span<const std::byte> stored) {
    if (orders_.empty()) return stored;
    ordered_bytes_.assign(stored.begin(), stored.end());
    orders_.apply(from, ordered_bytes_);
    further_.note_copy(ordered_bytes_, from);
    return ordered_bytes_;
  }
  // The slots of a vector that have no value become zero.
  void convert_live(const types::value_conversion& how, address object, std::uint64_t offset,
                    std::span<const std::byte> old) {
    const std::uint64_t was = std::max<std::uint64_t>(how.from->size, 1), count = old.size() / was;
    const std::uint64_t before = offset / was;
    const live_elements::range live = live_.of(object, before + count);
    const std::uint64_t first = std::max(live.first, before) - before,
                        end = std::max(live.end, before + first) - before;
    convert(how, old, first, end, buffer_, further_);
  }

  void write_header(std::size_t in, address object, std::uint32_t type, std::uint64_t size) {
    made_database& made = made_[in];
    if (!made.space.has_header(object)) return;
    const std::uint64_t offset = object - made.space.home();
    const object_header h{type, size >= huge_size ? huge_size : static_cast<std::uint32_t>(size)};
    made.pages->write(offset - sizeof h, std::as_bytes(std::span(&h, 1)));
    if (size >= huge_size) made.pages->write(offset - header_bytes(size), std::as_bytes(std::span(&size, 1)));
  }

  // What a conversion has made is written if something refers to it, into the same database. It may refer to the new values,
  // whose place is `place`.
  moved_references::elsewhere elsewhere(std::size_t in, address place) {
    if (further_.empty() && trees_.made().empty()) return {};
    return [this, in, place](address at, std::string_view pointee) -> address {
      const std::uint64_t in_values = at - reinterpret_cast<address>(buffer_.data());
      if (place != 0 && in_values <= buffer_.size()) return place + in_values;
      if (const address entry = trees_.entry_at(at, pointee); entry != 0) at = entry;
      further_object* made = further_.find(at);
      if (made == nullptr) made = trees_.made().find(at);
      if (made == nullptr) return 0;
      if (made->place == 0) {
        made->place = place_new(in, types_[in].of(*made->of), made->bytes);
        unwritten_.push_back(made);
      }
      return made->place + (at - reinterpret_cast<address>(made->at));
    };
  }
  void write_further(std::size_t in, address values) {
    if (further_.empty() && unwritten_.empty()) return;
    const auto find = elsewhere(in, values);
    while (!unwritten_.empty()) {
      further_object* const next = unwritten_.back();
      unwritten_.pop_back();
      write_made(in, *next, find);
    }
    further_.clear();
  }
  void write_made(std::size_t in, further_object& made, const moved_references::elsewhere& find) {
    const new_type& type = types_[in].of(*made.of);
    grow(made_[in]);
    write_header(in, made.place, type.index, made.bytes);
    references_.rewrite({type, 0, made.at, made.bytes, made.place}, find);
    made_[in].pages->write(made.place - made_[in].space.home(), {made.at, made.bytes});
    ++report_.objects;
    report_.bytes += made.bytes;
  }

  // --- Tables --------------------------------------------------------------------------------------------------------

  void write_tables(std::size_t n) {
    made_database& made = made_[n];
    const stored_address types = write_descriptions(n);
    made.space.for_each_page([&](std::uint64_t at, os::const_bytes bytes) { made.pages->write(at, bytes); });
    const new_database& as = as_.databases[n];
    database_header h = store_[n].header();
    h.database_id = as.id;
    h.store_id = as_.databases.front().id;
    h.home = as.home;
    h.reservation = as.reservation;
    h.checksum = header_checksum(h);
    h.blocks_end = made.space.blocks_end();
    h.types = types;
    h.roots = stored_address{reached_.place_of(n, static_cast<address>(h.roots))};
    h.trims = 0;
    made.pages->write(0, std::as_bytes(std::span(&h, 1)));
    made.pages->finish();
    made.pages.reset();
    report_.bytes_after += made.segment->file().size();
    report_.bytes_before += disk_.open(store_[n].file, os::access::read_only)->size();
  }

  // Of the types. Returns where their table is.
  stored_address write_descriptions(std::size_t n) {
    made_database& made = made_[n];
    std::vector<new_types::description> all = types_[n].describe();
    std::vector<address> places;
    places.reserve(all.size());
    for (const auto& each : all) places.push_back(place_new(n, types_[n].at(each.type), each.bytes.size()));
    grow(made);
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (const auto& [offset, to] : all[i].references)
        std::memcpy(all[i].bytes.data() + offset, &places[to], sizeof(address));
      write_header(n, places[i], all[i].type, all[i].bytes.size());
      made.pages->write(places[i] - made.space.home(), all[i].bytes);
    }
    return stored_address{places.front()};
  }

  const database_set& store_;
  const new_store& as_;
  const rewrite_options& how_;
  const types::evolution* const plan_;
  os::disk& disk_;
  const std::vector<used_parts> accesses_;
  std::deque<new_types> types_;  // of each database
  reached_objects reached_;
  moved_references references_;
  std::vector<made_database> made_;
  rvm::manifest like_;  // of the store's log
  rvm::identity log_id_{};
  rewrite_report report_;
  std::unordered_map<const type*, std::optional<std::vector<vector_place>>> vectors_;  // in values of stored types
  std::unordered_map<const type*, std::optional<std::vector<keyed_container>>> ordered_;
  address_orders orders_{store_,
                         [this](address at, std::string_view pointer) {
                           const address to = references_.moved(at, pointee_of(pointer));
                           if (at != 0 && to == 0)
                             throw error(errc::bad_type,
                                         "a key is a pointer to " + os::hexadecimal(reinterpret_cast<const void*>(at)) +
                                             ", which is in no object that is kept, or in a tree that must be built "
                                             "anew because its entries have become larger; nothing was changed");
                           return to;
                         },
                         [this](address at) { return references_.moved(at, {}); }};
  std::vector<found_order> found_orders_;
  live_elements live_;
  std::uint64_t copied_ = 0;            // objects
  value_bytes buffer_, ordered_bytes_;  // for new values, and for old ones
  tenure::detail::conversion_memory further_;
  std::vector<further_object*> unwritten_;
  std::unordered_map<const type*, std::optional<std::vector<keyed_container>>> with_trees_;
  struct found_tree {
    std::size_t in;
    const type* of;
    address at;
  };
  std::vector<found_tree> found_trees_;
  rebuilt_trees trees_;
  std::vector<std::pair<std::size_t, further_object*>> nodes_;  // of trees that were built, and their databases
};

}  // namespace

rewrite_report rewrite(const database_set& store, const new_store& as, const rewrite_options& how,
                       const types::evolution* plan) {
  try {
    return rewriter(store, as, how, plan).run();
  } catch (const error& e) {
    if (e.code() != errc::schema_mismatch) throw;
    throw error(errc::schema_mismatch, store.directory() + ": " + e.what());
  }
}

}  // namespace tenure::rewriting
