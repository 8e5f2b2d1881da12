// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// WiredTiger: four row stores with integer keys, a session with open cursors a thread, logging on (files zero-filled
// ahead), a checkpoint by itself for every 64 MiB of log. Durable: transaction_sync with fsync, its own group commit.
// Lazy: sync=off at each commit.
#include "peers/tpca_contender.hpp"

#ifdef TENURE_HAVE_WIREDTIGER
#include <array>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>
#include <wiredtiger.h>

namespace tenure::bench::tpca {
namespace {

enum { accounts, tellers, branches, trail, tables };
constexpr std::array<const char*, tables> table_names{"table:account", "table:teller", "table:branch", "table:trail"};

void check(int code, const char* what) {
  if (code != 0) throw std::runtime_error(fmt::format("wiredtiger: {}: {}", what, wiredtiger_strerror(code)));
}

// A session and a cursor for each table. They end with the connection.
struct cursors {
  WT_SESSION* session = nullptr;
  std::array<WT_CURSOR*, tables> table = {};

  explicit cursors(WT_CONNECTION* connection) {
    check(connection->open_session(connection, nullptr, "isolation=snapshot", &session), "open_session");
    for (std::size_t i = 0; i < tables; ++i)
      check(session->open_cursor(session, table_names[i], nullptr, nullptr, &table[i]), "open_cursor");
  }
  template <class T>
  void get(std::size_t of, std::uint64_t id, T& into) {
    WT_CURSOR* cursor = table[of];
    cursor->set_key(cursor, static_cast<std::int64_t>(id));
    check(cursor->search(cursor), "search");
    WT_ITEM item = {};
    check(cursor->get_value(cursor, &item), "get_value");
    std::memcpy(&into, item.data, sizeof(into));
  }
  // `get` has found the place already where the record exists.
  template <class T>
  void put(std::size_t of, std::uint64_t id, const T& from, bool exists) {
    WT_CURSOR* cursor = table[of];
    WT_ITEM item = {};
    item.data = &from;
    item.size = sizeof(from);
    cursor->set_key(cursor, static_cast<std::int64_t>(id));
    cursor->set_value(cursor, &item);
    check(exists ? cursor->update(cursor) : cursor->insert(cursor), "put");
  }
};

class wiredtiger_contender : public contender {
 public:
  using contender::contender;
  ~wiredtiger_contender() override {
    if (connection_ != nullptr) connection_->close(connection_, nullptr);
  }

  std::string setting() const override { return setup_.lazy ? "log, sync=off" : "log, fsync"; }
  void create() override {
    connect();
    WT_SESSION* session = nullptr;
    check(connection_->open_session(connection_, nullptr, nullptr, &session), "open_session");
    for (const char* name : table_names) check(session->create(session, name, "key_format=q,value_format=u"), "create");
    cursors in{connection_};
    fill(in, accounts, setup_.bank.accounts);
    fill(in, tellers, setup_.bank.tellers());
    fill(in, branches, setup_.bank.branches);
    close();
  }
  void open() override {
    connect();
    control_ = std::make_unique<cursors>(connection_);
  }
  std::unique_ptr<session> start(unsigned) override { return std::make_unique<wiredtiger_session>(*this); }
  void flush() override { check(control_->session->log_flush(control_->session, "sync=on"), "log_flush"); }
  void checkpoint() override { check(control_->session->checkpoint(control_->session, nullptr), "checkpoint"); }
  void audit(auditor& by) override {
    record one;
    const auto each = [&](std::size_t table, auto&& show) {
      WT_CURSOR* cursor = control_->table[table];
      check(cursor->reset(cursor), "reset");
      while (cursor->next(cursor) == 0) {
        std::int64_t id = 0;
        WT_ITEM item = {};
        check(cursor->get_key(cursor, &id), "get_key");
        check(cursor->get_value(cursor, &item), "get_value");
        show(static_cast<std::uint64_t>(id), item.data);
      }
      check(cursor->reset(cursor), "reset");
    };
    each(accounts, [&](std::uint64_t, const void* data) {
      std::memcpy(&one, data, sizeof(one));
      by.account(one.balance, one.transactions);
    });
    each(tellers, [&](std::uint64_t id, const void* data) {
      std::memcpy(&one, data, sizeof(one));
      by.teller(static_cast<std::uint32_t>(id), one.balance, one.transactions);
    });
    each(branches, [&](std::uint64_t id, const void* data) {
      std::memcpy(&one, data, sizeof(one));
      by.branch(static_cast<std::uint32_t>(id), one.balance, one.transactions);
    });
    each(trail, [&](std::uint64_t id, const void* data) {
      history line;
      std::memcpy(&line, data, sizeof(line));
      by.trail(id, line);
    });
  }
  void close() override {
    if (connection_ == nullptr) return;
    control_.reset();
    WT_CONNECTION* connection = connection_;
    connection_ = nullptr;
    check(connection->close(connection, nullptr), "close");
  }

 private:
  class wiredtiger_session : public session {
   public:
    explicit wiredtiger_session(wiredtiger_contender& of) : of_(of), in_(of.connection_) {}
    ~wiredtiger_session() override { in_.session->close(in_.session, nullptr); }
    void run(const transfer& what) override {
      WT_SESSION* on = in_.session;
      check(on->begin_transaction(on, nullptr), "begin_transaction");
      try {
        record account, teller, branch;
        history line;
        in_.get(accounts, what.account, account);
        in_.get(tellers, what.teller, teller);
        in_.get(branches, what.branch, branch);
        apply(what, account, teller, branch, line);
        in_.put(accounts, what.account, account, true);
        in_.put(tellers, what.teller, teller, true);
        in_.put(branches, what.branch, branch, true);
        in_.put(trail, of_.setup_.bank.trail_index(what.branch, line.sequence), line, false);
      } catch (...) {
        on->rollback_transaction(on, nullptr);
        throw;
      }
      check(on->commit_transaction(on, of_.setup_.lazy ? "sync=off" : nullptr), "commit_transaction");
    }

   private:
    wiredtiger_contender& of_;
    cursors in_;
  };

  void connect() {
    const std::string config = fmt::format(
        "create,cache_size={}MB,log=(enabled=true,zero_fill=true,file_max=16MB),transaction_sync=(enabled=true,method="
        "fsync),"
        "checkpoint=(log_size=64MB)",
        setup_.memory != 0 ? setup_.memory / 3 >> 20 : 256 + 4 * (setup_.bank.bytes() >> 20));
    check(wiredtiger_open(setup_.directory.c_str(), nullptr, config.c_str(), &connection_), "open");
  }
  static void fill(cursors& in, std::size_t table, std::uint64_t count) {
    constexpr std::uint64_t at_once = 1024;
    for (std::uint64_t id = 0; id < count; ++id) {
      if (id % at_once == 0) check(in.session->begin_transaction(in.session, nullptr), "begin_transaction");
      in.put(table, id, fresh_record(id), false);
      if ((id + 1) % at_once == 0 || id + 1 == count)
        check(in.session->commit_transaction(in.session, "sync=off"), "commit_transaction");
    }
  }

  WT_CONNECTION* connection_ = nullptr;
  std::unique_ptr<cursors> control_;
};

}  // namespace

std::unique_ptr<contender> make_wiredtiger(const setup& how) { return std::make_unique<wiredtiger_contender>(how); }

}  // namespace tenure::bench::tpca
#else
namespace tenure::bench::tpca {
std::unique_ptr<contender> make_wiredtiger(const setup&) { return nullptr; }
}  // namespace tenure::bench::tpca
#endif
