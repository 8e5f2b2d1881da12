// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Opening and closing.
#include "pobj/store.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "os/process.hpp"
#include "pobj/errors.hpp"
#include "pobj/images.hpp"

namespace tenure::pobj {

namespace {

std::atomic<store*> the_only{nullptr};

std::string log_of(const std::string& directory) { return directory + "/log"; }
std::string objects_of(const std::string& directory) { return directory + "/objects"; }

}  // namespace

store* open_store() noexcept { return the_only.load(std::memory_order_acquire); }

store& the_store() {
  store* const open = open_store();
  if (open == nullptr) throw failure(POBJ_ESTATE, "the library is not initialized: call pobj_init first");
  if (open->fork_generation != os::fork_generation())
    throw failure(POBJ_ESTATE, open->how.path + ": was opened by the parent of this process, and is not this one's");
  return *open;
}

rvm::memory store::open_memory() const {
  os::disk& disk = how.disk != nullptr ? *how.disk : os::real_disk();
  rvm::options options;
  options.log.size = how.log_size;
  options.log.max_size = std::max(options.log.max_size, how.log_size);
  options.disk = how.disk;
  options.background = how.background;
  if (!disk.exists(log_of(how.path))) {
    if (disk.exists(objects_of(how.path)))
      throw failure(POBJ_EDAMAGED, how.path +
                                       " has objects and no log: the log has been removed, and with it what was "
                                       "committed last, unless the store was closed; put it back, or make a new one: "
                                       "`tenure log renew " +
                                       log_of(how.path) + "`");
    disk.make_directory(how.path);
  }
  return rvm::memory(log_of(how.path), options);
}

rvm::region store::open_region() {
  os::disk& disk = how.disk != nullptr ? *how.disk : os::real_disk();
  const std::string path = objects_of(how.path);
  if (!disk.exists(path)) {
    // The log may exist without the segment, if a crash came in between.
    rvm::segment_options options;
    options.length = std::max<std::uint64_t>(how.initial_size, 65536);
    options.max_length = std::max(options.length, how.max_size);
    options.tag = segment_tag;
    memory.create_segment(path, options);
  }
  const rvm::segment_info info = memory.describe_segment(path);
  if (info.tag != segment_tag) throw failure(POBJ_EDAMAGED, path + " is no store of persistent objects");
  if (!info.is_of_this_log)
    throw failure(POBJ_EDAMAGED, path + ": its last changes were made under another log than " + log_of(how.path) +
                                     ": one of the two belongs to another store; put the right one in place; or, if "
                                     "the log is lost, make a new one: `tenure log renew " +
                                     log_of(how.path) + "`");
  return memory.map(path, {.reserve = true});
}

store::store(const settings& wanted)
    : how(wanted),
      control(how.control),
      object_blocks(how.objects),
      memory(open_memory()),
      region(open_region()),
      free(memory, region, objects_of(how.path), {test_hooks::small_area, test_hooks::largest_area}),
      addresses(&control),
      slots(&control) {
  const char blank[8] = {};
  if (std::memcmp(header().magic, blank, sizeof blank) == 0)
    initialize();
  else
    begin_execution();
  free.begin_serials(execution);
  types.keep_description_with([this](std::uint32_t number, const type_description& t, position instead) {
    return keep_type(number, t, instead);
  });
}

// The first transaction of a store. It is lazy: if it is lost and made again, nothing else is lost, because nothing was
// committed yet.
void store::initialize() {
  report.created = 1;
  execution = 1;
  const std::uint64_t end = region.size();
  auto& h = region.at<store_header>(0);
  rvm::transaction tx = memory.begin();
  tx.set_range(h);
  std::memcpy(h.magic, store_magic, sizeof store_magic);
  h.version = store_version;
  h.end = end;
  h.executions = execution;
  std::memset(h.program, 0, sizeof h.program);
  how.program.copy(h.program, sizeof h.program - 1);
  for (position p = first_slot; p < end; p += largest_free) tx.set_range(free.at(p), 8);
  free.write_free(first_slot, end);
  tx.commit(rvm::commit_mode::no_flush);
  free.add(first_slot, end);
}

void store::begin_execution() {
  auto& h = region.at<store_header>(0);
  const std::string path = objects_of(how.path);
  if (std::memcmp(h.magic, store_magic, sizeof store_magic) != 0)
    throw failure(POBJ_EDAMAGED, path + ": the first page does not begin as that of a store");
  if (h.version != store_version)
    throw failure(POBJ_EDAMAGED, path + ": version " + std::to_string(h.version) +
                                     " of the format; this library knows " + std::to_string(store_version));
  if (h.end < first_slot || h.end > region.size() || h.end % 8 != 0)
    throw failure(POBJ_EDAMAGED, path + ": says that it has " + std::to_string(h.end) + " bytes, and has " +
                                     std::to_string(region.size()));
  const std::string program(h.program, ::strnlen(h.program, sizeof h.program));
  const std::string mine = how.program.substr(0, sizeof h.program - 1);
  if (program != mine && (how.flags & POBJ_ANY_PROGRAM) == 0)
    throw failure(POBJ_EPROGRAM,
                  how.path + " belongs to the program \"" + program + "\", and this is \"" + mine +
                      "\": open another path, or say POBJ_ANY_PROGRAM if it is the same by another name");
  execution = h.executions + 1;
  reconstruct();
}

// Lazy: if it is lost, no commit has used this number. References with an earlier use of the number are NULL from now
// on.
void store::note_execution(const std::vector<position>& old) {
  auto& h = region.at<store_header>(0);
  rvm::transaction tx = memory.begin();
  tx.modify(h.executions, execution);
  for (const position word : old) {
    tx.set_range(free.at(word), 8);
    store_word(free.at(word), 0);
  }
  tx.set_range(h.program, sizeof h.program);
  std::memset(h.program, 0, sizeof h.program);
  how.program.copy(h.program, sizeof h.program - 1);
  tx.commit(rvm::commit_mode::no_flush);
}

// Writes the type in a separate lazy transaction. So every later commit, in any thread, finds the type in the store. If
// another type had the number, no earlier commit uses it any more.
position store::keep_type(std::uint32_t number, const type_description& t, position instead) {
  const stored_type start{number, static_cast<std::uint32_t>(t.references.size()),
                          static_cast<std::uint32_t>(t.transients.size()), static_cast<std::uint32_t>(t.name.size()),
                          t.size};
  std::vector<std::byte> bytes(sizeof start);
  std::memcpy(bytes.data(), &start, sizeof start);
  const auto append = [&](const void* from, std::size_t length) {
    const auto* const begin = static_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), begin, begin + length);
  };
  append(t.references.data(), t.references.size() * sizeof(std::uint32_t));
  bytes.resize(round_to_8(bytes.size()));
  append(t.transients.data(), t.transients.size() * sizeof(byte_range));
  append(t.name.data(), t.name.size());

  const slot_word word = slot_word::of(bytes.size(), slot_word::type_description, 0);
  const std::uint64_t length = word.length();
  const std::uint64_t length_before = instead != 0 ? free.word_at(instead).length() : 0;
  bytes.resize(length - 8);
  const bool in_place = length == length_before;
  const area a = in_place ? area{instead, instead + length, instead} : free.take(length, 0);
  try {
    rvm::transaction tx = memory.begin();
    tx.set_range(free.at(a.begin), std::min(length + 8, a.end - a.begin));
    free.set_word(a.begin, word);
    std::memcpy(free.at(a.begin + 8), bytes.data(), bytes.size());
    free.write_free(a.begin + length, a.end);
    if (instead != 0 && !in_place) {
      tx.set_range(free.at(instead), 8);
      free.write_free(instead, instead + length_before);
    }
    tx.commit(rvm::commit_mode::no_flush);
  } catch (...) {
    if (!in_place) free.add(a.begin, a.end);
    throw;
  }
  free.add(a.begin + length, a.end);
  if (!in_place) free.add(instead, instead + length_before);
  return a.begin;
}

void store::discard() noexcept {
  blocks_to_free blocks;
  addresses.for_each([&](object o) { object_blocks.release(o, blocks); });
  blocks.free_all();
}

void store::require_closable() const {
  const std::scoped_lock lock(mutex);
  if (open_transactions != 0)
    throw failure(POBJ_ETRANSACTION,
                  how.path + ": " + std::to_string(open_transactions) + " transactions are open; end them first");
}

void store::close() {
  if (!finalized.empty() || has_missed_references) transaction(*this).commit();
  // If it fails, all commits are durable already, and the next execution recovers them.
  memory.close();
}

object store::object_of(const void* handle) const {
  if (addresses.is_handle(handle)) {
    const object o{static_cast<std::byte*>(const_cast<void*>(handle))};
    if (o.header().dying == 0) return o;
    throw failure(POBJ_EHANDLE, hexadecimal(handle) + ": this object has been freed already, by the open transaction");
  }
  if (handle == nullptr) throw failure(POBJ_EHANDLE, "NULL is no object");
  const object around = addresses.find(handle);
  if (around && handle != around.handle + around.header().size)
    throw failure(POBJ_EHANDLE,
                  hexadecimal(handle) + " lies inside of the object " + hexadecimal(around.handle) + ", at offset " +
                      std::to_string(static_cast<const std::byte*>(handle) - around.handle) + ": pass the handle");
  throw failure(POBJ_EHANDLE, hexadecimal(handle) +
                                  " is no object: it was not allocated by this library, or it has been "
                                  "freed already");
}

std::uint64_t store::offset_of(object o, const void* field, std::uint64_t length) {
  const std::uint64_t size = o.header().size;
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(field) - o.handle);
  if (offset > size || length > size - offset)
    throw failure(POBJ_ERANGE, std::to_string(length) + " bytes at " + hexadecimal(field) +
                                   " do not lie in the object " + hexadecimal(o.handle) + ", which has " +
                                   std::to_string(size));
  return offset;
}

namespace {

thread_local bool has_lock = false;

}  // namespace

void store_lock::lock() {
  of_.mutex.lock();
  held_ = has_lock = true;
}

void store_lock::unlock() {
  for (const object o : of_.to_finalize) of_.finalize(o);
  of_.to_finalize.clear();
  held_ = has_lock = false;
  of_.mutex.unlock();
}

void store::finalize(object o) noexcept {
  const std::uint64_t type = o.header().type;
  if (o.is_persistent()) {
    try {
      finalized.push_back({o.header().slot, type});
    } catch (const std::bad_alloc&) {  // the next execution finds that the image is garbage
    }
    slots.erase(o.header().slot);
  } else {
    types.drop(type);
  }
  types.forget_own(o);
  waiting.erase(~o.address());
  addresses.remove(o);
  object_blocks.taken(o);
}

void store::wait_for_links(store_lock& lock) {
  linked.wait(lock, [&] { return linking_commits == 0; });
}

void store::finalize(const void* handle) {
  const object o{static_cast<std::byte*>(const_cast<void*>(handle))};
  if (has_lock) {
    to_finalize.push_back(o);
    return;
  }
  const store_lock lock(*this);
  if (!addresses.is_handle(handle)) (void)object_of(handle);  // this throws, with the reason
  finalize(o);
}

void test_hooks::crash() noexcept {
  store* const open = the_only.exchange(nullptr);
  this_thread() = {};
  if (open == nullptr) return;
  open->discard();
  delete open;
}

namespace {

std::string default_path(const std::string& program) {
  if (const char* const named = std::getenv("POBJ_STORE"); named != nullptr && *named != '\0') return named;
  return program + ".pobj";
}

settings settings_of(const pobj_options& o) {
  if ((o.flags & ~(POBJ_STRICT | POBJ_ANY_PROGRAM)) != 0)
    throw failure(POBJ_EOPTION, "flags " + std::to_string(o.flags) + ": has bits that mean nothing");
  settings s;
  s.program = o.program != nullptr ? o.program : os::program_name();
  s.path = os::absolute_path(o.path != nullptr ? o.path : default_path(s.program));
  if (is_given(o.objects)) s.objects = o.objects;
  if (is_given(o.control)) s.control = o.control;
  s.flags = o.flags;
  s.initial_size = o.initial_size != 0 ? o.initial_size : std::size_t{1} << 20;
  s.max_size = o.max_size != 0 ? o.max_size : std::size_t{64} << 30;
  s.log_size = o.log_size != 0 ? o.log_size : std::size_t{64} << 20;
  s.disk = test_hooks::disk;
  s.background = test_hooks::background;
  return s;
}

}  // namespace

}  // namespace tenure::pobj

using namespace tenure::pobj;

int pobj_init() { return pobj_init_with(nullptr); }

int pobj_init_with(const pobj_options* options) {
  return guarded("pobj_init", [&] {
    if (const store* const open = open_store(); open != nullptr)
      throw failure(POBJ_ESTATE, "the library is initialized already, with " + open->how.path);
    const pobj_options defaults = {};
    auto made = std::make_unique<store>(settings_of(options != nullptr ? *options : defaults));
    the_only.store(made.release(), std::memory_order_release);
  });
}

int pobj_close() {
  return guarded("pobj_close", [&] {
    store& in = the_store();
    in.require_closable();
    const auto ending = [&] {
      the_only.store(nullptr, std::memory_order_release);
      in.discard();
      delete &in;
    };
    try {
      in.close();
    } catch (...) {
      ending();
      throw;
    }
    ending();
  });
}

int pobj_get_report(pobj_report* report) {
  return guarded("pobj_get_report", [&] {
    store& in = the_store();
    if (report == nullptr) throw failure(POBJ_EOPTION, "a report needs a place to be written to");
    const store_lock lock(in);
    *report = in.report;
    for (const auto& v : in.statics.all()) ++(v->address != nullptr ? report->statics : report->unbound);
  });
}
