// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The churned graph in SQLite: an object is a row with a blob, found by its number; those of a group that is dropped are deleted
// by one statement. Commits are not synced until all is to be durable. Its file shrinks by VACUUM, or with each commit.
#include "collect/contender.hpp"

#ifdef TENURE_HAVE_SQLITE
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "collect/group.hpp"
#include "peers/sqlite.hpp"
#endif

namespace tenure::bench::collect {

#ifdef TENURE_HAVE_SQLITE
namespace {

class of_sqlite : public contender {
 public:
  of_sqlite(const std::filesystem::path& directory, std::uint64_t slots, bool auto_vacuum)
      : contender(directory, slots), auto_vacuum_(auto_vacuum) {}
  std::string setting() const override {
    return std::string{"WAL, synchronous=OFF, prepared statements"} + (auto_vacuum_ ? "; auto_vacuum=FULL" : "");
  }
  void create() override {
    database_.emplace(directory_ / "churn.db",
                      (std::int64_t{64} << 20) + static_cast<std::int64_t>(slots_ * group_bytes));
    // A database with a header takes over the setting when it is made anew.
    if (auto_vacuum_) database_->run("PRAGMA auto_vacuum=FULL; VACUUM");
    database_->run(
        "CREATE TABLE object (id INTEGER PRIMARY KEY, record BLOB);"
        "CREATE TABLE slot (id INTEGER PRIMARY KEY, serial INTEGER);"
        "PRAGMA synchronous=OFF");
    make_.emplace(*database_);
  }
  void begin() override { database_->run("BEGIN"); }
  void commit() override { database_->run("COMMIT"); }
  void replace(std::uint64_t slot, std::uint64_t serial) override {
    std::uint64_t before = 0;
    if (find(slot, before)) make_->drop.run(number_of(before, 0), number_of(before + 1, 0) - 1);
    for (std::uint64_t at = 0; at < group_size; ++at) {
      const row made = row_of(serial, at);
      make_->add.run(made.number, std::string_view{reinterpret_cast<const char*>(&made), row_bytes(at)});
    }
    make_->set_slot.run(slot, serial);
  }
  void settle() override {
    database_->run("PRAGMA synchronous=FULL; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA synchronous=OFF");
  }
  std::uint64_t sum(std::uint64_t slot) override {
    std::uint64_t serial = 0;
    if (!find(slot, serial)) throw std::runtime_error("sqlite: a slot is gone");
    std::uint64_t sum = 0, key = number_of(serial, 0);
    for (std::uint64_t at = 0; at < group_size; ++at) {
      row found;
      make_->object.rows(
          [&](sqlite_statement& one) {
            const std::string_view data = one.text(0);
            if (data.size() != row_bytes(at)) throw std::runtime_error("sqlite: a record has another length");
            std::memcpy(&found, data.data(), data.size());
          },
          key);
      sum += found.number;
      key = found.next;
    }
    return sum;
  }
  void tidy() override {
    database_->run("VACUUM");
    settle();
  }
  void close() override {
    make_.reset();
    database_.reset();
  }
  std::string file() const override { return "churn.db"; }

 private:
  struct statements {
    explicit statements(const sqlite_database& in)
        : slot(in, "SELECT serial FROM slot WHERE id = ?"),
          object(in, "SELECT record FROM object WHERE id = ?"),
          drop(in, "DELETE FROM object WHERE id BETWEEN ? AND ?"),
          add(in, "INSERT INTO object VALUES (?, ?)"),
          set_slot(in, "INSERT OR REPLACE INTO slot VALUES (?, ?)") {}
    sqlite_statement slot, object, drop, add, set_slot;
  };
  bool find(std::uint64_t slot, std::uint64_t& serial) {
    bool found = false;
    make_->slot.rows(
        [&](sqlite_statement& one) {
          serial = static_cast<std::uint64_t>(one.number(0));
          found = true;
        },
        slot);
    return found;
  }

  const bool auto_vacuum_;
  std::optional<sqlite_database> database_;
  std::optional<statements> make_;
};

}  // namespace

std::unique_ptr<contender> make_sqlite(const std::filesystem::path& directory, std::uint64_t slots) {
  return std::make_unique<of_sqlite>(directory, slots, false);
}
std::unique_ptr<contender> make_sqlite_auto_vacuum(const std::filesystem::path& directory, std::uint64_t slots) {
  return std::make_unique<of_sqlite>(directory, slots, true);
}
#else
std::unique_ptr<contender> make_sqlite(const std::filesystem::path&, std::uint64_t) { return nullptr; }
std::unique_ptr<contender> make_sqlite_auto_vacuum(const std::filesystem::path&, std::uint64_t) { return nullptr; }
#endif

}  // namespace tenure::bench::collect
