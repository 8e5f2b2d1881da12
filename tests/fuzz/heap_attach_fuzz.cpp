// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A recoverable heap of any content. Byte 0: whether it gets a sound header, then the page table and the bitmaps
// follow; otherwise the bytes are the region from its start. What attaches is used a little; what passes check() must
// go on passing it.
#include <tenure/recoverable_heap.hpp>

#include "fuzz_support.hpp"
#include "recoverable_heap/format.hpp"

using namespace tenure;
using namespace tenure::fuzz;

namespace {

std::vector<std::byte> image_from(byte_source& in) {
  std::vector<std::byte> image(segment_length);
  if (in.byte() % 4 == 0) {
    std::ranges::copy(in.take_bytes(image.size()), image.begin());
    return image;
  }
  const rvm::heap_layout layout = rvm::layout_of_heap(segment_length);
  rvm::heap_header h{};
  h.magic = rvm::heap_magic;
  h.version = rvm::heap_version;
  h.endian = rvm::endian_mark;
  h.length = segment_length;
  h.page = rvm::heap_page;
  h.pages = static_cast<std::uint32_t>(layout.pages);
  h.bitmaps = layout.bitmaps;
  h.data = layout.data;
  h.checksum = rvm::header_checksum(h, offsetof(rvm::heap_header, checksum));
  h.high_water = in.byte();
  h.roots[0] = in.take<std::uint16_t>();
  put(image, 0, h);
  // Entries as (page, kind, class, pages), so that sensible ones are likely.
  for (std::uint8_t count = in.byte() % 8; count != 0; --count) {
    const std::uint64_t page = in.below(layout.pages);
    const rvm::page_entry entry{static_cast<rvm::span_kind>(in.byte() % 4), in.byte(),
                                static_cast<std::uint16_t>(in.byte() / 255), in.byte()};
    put(image, rvm::heap_page + page * sizeof entry, entry);
  }
  std::ranges::copy(in.take_bytes(layout.pages * rvm::heap_bitmap_bytes),
                    image.begin() + static_cast<std::ptrdiff_t>(layout.bitmaps));
  return image;
}

void use(rvm::memory& memory, rvm::recoverable_heap& heap, bool sound) {
  std::vector<void*> objects;
  const bool listed = accepted([&] { heap.for_each_object([&](void* p, std::size_t) { objects.push_back(p); }); });
  require(listed, "listing the objects failed");
  accepted([&] { static_cast<void>(heap.stats()); });
  accepted([&] { static_cast<void>(heap.root(0)); });
  rvm::transaction tx = memory.begin();
  for (std::size_t i = 0; i < objects.size() && i < 8; ++i) {
    const bool freed = accepted([&] { heap.deallocate(tx, objects[i * objects.size() / 8]); });
    require(freed || !sound || objects.size() < 8, "an object could not be freed");
  }
  for (const std::size_t bytes : {1, 40, 40, 700, 9000, 40000})
    accepted([&] { std::memset(heap.allocate(tx, bytes), 0x55, bytes); });
  accepted([&] { tx.commit(); });
  if (tx.is_open()) tx.abort();
  if (sound) must("check after use", [&] { heap.check(); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  byte_source in(data, size);
  sim::disk disk;
  install_segments(disk);
  disk.poke(segment_path, data_offset, image_from(in));
  rvm::memory memory(log_path, small(disk, rvm::open_mode::create));
  accepted([&] {
    const rvm::region area = memory.map(segment_path);
    rvm::recoverable_heap heap(area);
    const bool sound = accepted([&] { heap.check(); });
    use(memory, heap, sound);
    if (!sound) return;
    rvm::recoverable_heap again(area);
    must("check of what was stored", [&] { again.check(); });
    require(again.stats().objects == heap.stats().objects, "the stored objects are not those in memory");
  });
  must("close", [&] { memory.close(); });
  return 0;
}
