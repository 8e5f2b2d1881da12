// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The metadata of a caching file-system client, as RVM's first users kept it [RVM §1, §7.3]: inodes, directories as arrays of
// entries, a bitmap of blocks, counters. Written as modules that do not know each other: each declares what it changes,
// whole structures mostly, whether its caller has done so or not; and every operation is a transaction that need not be
// durable at once, with a flush every few seconds.
#include <algorithm>
#include <array>
#include <string>

#include "evaluation/trace.hpp"
#include "tpca/workload.hpp"

namespace tenure::bench::evaluation {
namespace {

constexpr std::uint32_t inode_count = 8192, directory_count = 256, entries_in_directory = 128, block_count = 65536;

// As stored.
struct inode {
  std::uint64_t size, modified, changed;
  std::uint32_t mode, links, owner, version;
  std::uint32_t blocks[22];
};
struct entry {
  char name[28];
  std::uint32_t number;
};
struct directory {
  entry entries[entries_in_directory];
};
struct statistics {
  std::uint64_t files, blocks_used, operations;
};

class client {
 public:
  explicit client(std::uint64_t seed) : random_(seed) {
    for (std::uint32_t d = 0; d < directory_count; ++d) free_entries_[d] = entries_in_directory;
  }

  trace run() {
    made_.name = "file-system";
    made_.what = "metadata of a file-system client: no_flush commits, a flush every 100 operations";
    for (int i = 0; i < 300; ++i) create();
    for (int session = 0; session < 400; ++session) {
      home_ = static_cast<std::uint32_t>(random_.below(8));  // people work in one directory for a while
      const std::uint64_t act = random_.below(100);
      if (act < 35) {
        edit();
      } else if (act < 65) {
        compile();
      } else if (act < 85) {
        copy_tree();
      } else {
        remove_some();
      }
    }
    return std::move(made_);
  }

 private:
  struct file {
    std::uint32_t number, directory, place;
    std::uint32_t blocks = 0;
  };

  // --- Where things are ---
  static constexpr std::uint64_t inodes_at = 4096;
  static constexpr std::uint64_t directories_at = inodes_at + inode_count * sizeof(inode);
  static constexpr std::uint64_t bitmap_at = directories_at + directory_count * sizeof(directory);
  void declare(std::uint64_t offset, std::uint64_t length) {
    made_.steps.push_back({step::kind::range, offset, length});
  }
  void declare_inode(std::uint32_t number) { declare(inodes_at + number * sizeof(inode), sizeof(inode)); }
  void declare_statistics() { declare(0, sizeof(statistics)); }
  void commit() {
    made_.steps.push_back({step::kind::commit_no_flush});
    if (++operations_ % 100 == 0) made_.steps.push_back({step::kind::flush});
  }

  // --- Modules: each declares for itself ---
  void allocate_block(file& f) {
    const std::uint64_t block = next_block_++ % block_count;
    declare(bitmap_at + block / 64 * 8, 8);
    declare_statistics();
    declare_inode(f.number);
    ++f.blocks;
  }
  void touch(const file& f) {
    declare_inode(f.number);     // its times
    declare_inode(f.directory);  // and those of the directory, whose inode has its number
    declare_statistics();
  }
  void link(const file& f) {
    declare(directories_at + f.directory * sizeof(directory) + f.place * sizeof(entry), sizeof(entry));
    declare_inode(f.number);
    touch(f);
  }
  void unlink(const file& f) {
    declare(directories_at + f.directory * sizeof(directory) + f.place * sizeof(entry), sizeof(entry));
    declare_inode(f.number);
    for (std::uint32_t i = 0; i < f.blocks; ++i) declare(bitmap_at + (f.number * 8 + i) % block_count / 64 * 8, 8);
    touch(f);
  }

  // --- Operations ---
  void create() {
    if (free_entries_[home_] == 0) home_ = static_cast<std::uint32_t>(random_.below(directory_count));
    if (free_entries_[home_] == 0) return;
    file f{static_cast<std::uint32_t>(directory_count + next_inode_++ % (inode_count - directory_count)), home_,
           entries_in_directory - free_entries_[home_]--};
    declare_inode(f.number);
    link(f);
    commit();
    files_.push_back(f);
  }
  void write(file& f) {
    allocate_block(f);
    touch(f);
    commit();
  }
  void set_attributes(const file& f) {
    touch(f);
    commit();
  }
  // A session of an editor: the same few inodes over and over.
  void edit() {
    if (files_.empty()) return;
    const std::size_t chosen = random_.below(files_.size());
    for (std::uint64_t i = 0, saves = 3 + random_.below(10); i < saves; ++i) {
      create();  // the backup
      write(files_[chosen]);
      set_attributes(files_[chosen]);
      set_attributes(files_[chosen]);
    }
  }
  void compile() {
    const std::size_t first = files_.size();
    for (std::uint64_t i = 0, objects = 2 + random_.below(8); i < objects; ++i) {
      create();
      if (files_.size() <= first) return;
      for (int block = 0; block < 4; ++block) write(files_.back());
      set_attributes(files_.back());
    }
  }
  // As `cp -r` does, the traffic that the paper names: each child updates its directory's metadata.
  void copy_tree() {
    for (std::uint64_t i = 0, count = 10 + random_.below(20); i < count; ++i) {
      create();
      write(files_.back());
      set_attributes(files_.back());
    }
  }
  void remove_some() {
    for (std::uint64_t i = 0, count = 10 + random_.below(30); i < count && files_.size() > 100; ++i) {
      const std::size_t chosen = random_.below(files_.size());
      unlink(files_[chosen]);
      commit();
      ++free_entries_[files_[chosen].directory];
      files_[chosen] = files_.back();
      files_.pop_back();
    }
  }

  tpca::random_source random_;
  trace made_;
  std::vector<file> files_;
  std::array<std::uint32_t, directory_count> free_entries_{};
  std::uint32_t home_ = 0, next_inode_ = 0;
  std::uint64_t next_block_ = 0, operations_ = 0;
};

}  // namespace

trace file_system_trace(std::uint64_t seed) { return client(seed).run(); }

}  // namespace tenure::bench::evaluation
