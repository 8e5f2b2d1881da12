// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// OO7 in SQLite: an object is a row; traversals navigate by prepared statements, queries are queries.
#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "oo7/contender.hpp"
#include "oo7/operations.hpp"
#include "peers/sqlite.hpp"

namespace tenure::bench::oo7 {

#ifdef TENURE_HAVE_SQLITE
namespace {

constexpr const char* tables = R"(
  CREATE TABLE module (id INTEGER PRIMARY KEY, name TEXT UNIQUE, type TEXT, date INTEGER, root INTEGER);
  CREATE TABLE manual (module INTEGER PRIMARY KEY, name TEXT, text TEXT, length INTEGER);
  CREATE TABLE complex (id INTEGER PRIMARY KEY, type TEXT, date INTEGER, super INTEGER, module INTEGER);
  CREATE TABLE base (id INTEGER PRIMARY KEY, type TEXT, date INTEGER, super INTEGER, module INTEGER);
  CREATE TABLE private_use (base INTEGER, part INTEGER);
  CREATE TABLE shared_use (base INTEGER, part INTEGER);
  CREATE TABLE composite (id INTEGER PRIMARY KEY, type TEXT, date INTEGER, root INTEGER);
  CREATE TABLE document (id INTEGER PRIMARY KEY, title TEXT UNIQUE, text TEXT, length INTEGER);
  CREATE TABLE atomic (id INTEGER PRIMARY KEY, type TEXT, date INTEGER, x INTEGER, y INTEGER, document INTEGER,
                       part INTEGER);
  CREATE TABLE connection (id INTEGER PRIMARY KEY, type TEXT, length INTEGER, origin INTEGER, target INTEGER);
  CREATE INDEX complex_super ON complex (super);
  CREATE INDEX base_super ON base (super);
  CREATE INDEX private_base ON private_use (base, part);
  CREATE INDEX private_part ON private_use (part, base);
  CREATE INDEX shared_base ON shared_use (base, part);
  CREATE INDEX shared_part ON shared_use (part, base);
  CREATE INDEX atomic_date ON atomic (date);
  CREATE INDEX atomic_part ON atomic (part);
  CREATE INDEX connection_origin ON connection (origin, target);
  CREATE INDEX connection_target ON connection (target);
)";

std::string_view text_of(const auto& chars) { return chars.data(); }

// All statements, prepared once.
struct statements {
  explicit statements(const sqlite_database& in) : in_(in) {}
  const sqlite_database& in_;

  sqlite_statement add_module{in_, "INSERT INTO module VALUES (?, ?, ?, ?, ?)"},
      add_manual{in_, "INSERT INTO manual VALUES (?, ?, ?, ?)"},
      add_complex{in_, "INSERT INTO complex VALUES (?, ?, ?, ?, ?)"},
      add_base{in_, "INSERT INTO base VALUES (?, ?, ?, ?, ?)"},
      add_private{in_, "INSERT INTO private_use VALUES (?, ?)"},
      add_shared{in_, "INSERT INTO shared_use VALUES (?, ?)"},
      add_composite{in_, "INSERT INTO composite VALUES (?, ?, ?, ?)"},
      add_document{in_, "INSERT INTO document VALUES (?, ?, ?, ?)"},
      add_atomic{in_, "INSERT INTO atomic VALUES (?, ?, ?, ?, ?, ?, ?)"},
      add_connection{in_, "INSERT INTO connection (type, length, origin, target) VALUES (?, ?, ?, ?)"};
  sqlite_statement roots{in_, "SELECT root FROM module ORDER BY id"},
      complex_below{in_, "SELECT id, date FROM complex WHERE super = ? ORDER BY id"},
      bases_below{in_, "SELECT id, date FROM base WHERE super = ? ORDER BY id"},
      private_of{in_, "SELECT part FROM private_use WHERE base = ? ORDER BY rowid"},
      root_part{in_, "SELECT root FROM composite WHERE id = ?"},
      composite_date{in_, "SELECT date FROM composite WHERE id = ?"},
      targets{in_, "SELECT target FROM connection WHERE origin = ? ORDER BY id"},
      atomic{in_, "SELECT x, y, type FROM atomic WHERE id = ?"},
      swap{in_, "UPDATE atomic SET x = y, y = x WHERE id = ?"},
      toggle{in_, "UPDATE atomic SET date = date + CASE date % 2 WHEN 1 THEN 1 ELSE -1 END WHERE id = ?"},
      document_text{in_, "SELECT text FROM document WHERE id = ?"},
      set_document{in_, "UPDATE document SET text = ?, length = ? WHERE id = ?"},
      manual_texts{in_, "SELECT text FROM manual ORDER BY module"};
  sqlite_statement bases_of_atomic{in_,
                                   "SELECT DISTINCT u.base FROM atomic a JOIN private_use u ON u.part = a.part WHERE "
                                   "a.id = ?"},
      super_of_base{in_, "SELECT super FROM base WHERE id = ?"},
      super_of_complex{in_, "SELECT super FROM complex WHERE id = ?"},
      dated{in_, "SELECT x, y, type FROM atomic WHERE date BETWEEN ? AND 1999"},
      uses_of_document{in_, "SELECT u.base FROM document d JOIN private_use u ON u.part = d.id WHERE d.title = ?"},
      newer{in_,
            "SELECT count(*) FROM base b JOIN private_use u ON u.base = b.id JOIN composite c ON c.id = u.part WHERE "
            "c.date > b.date"},
      every_atomic{in_, "SELECT x, y, type FROM atomic"},
      joined{in_, "SELECT count(*) FROM atomic a JOIN document d ON d.id = a.document"},
      bases{in_, "SELECT count(*) FROM base"};
  sqlite_statement remove_private{in_, "DELETE FROM private_use WHERE part = ?"},
      remove_shared{in_, "DELETE FROM shared_use WHERE part = ?"},
      remove_connections{in_, "DELETE FROM connection WHERE origin BETWEEN ? AND ?"},
      remove_atomics{in_, "DELETE FROM atomic WHERE part = ?"},
      remove_document{in_, "DELETE FROM document WHERE id = ?"},
      remove_composite{in_, "DELETE FROM composite WHERE id = ?"};
};

class sqlite_contender : public contender {
 public:
  using contender::contender;

  std::string setting() const override { return "a row an object; WAL, synchronous=FULL, prepared statements"; }
  void create() override {
    open_file();
    database_->run(tables);
    make_.emplace(*database_);
    begin();
    build();
    commit();
    database_->run("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  void open() override {
    open_file();
    make_.emplace(*database_);
  }
  void close() override {
    make_.reset();
    database_.reset();
  }
  void begin() override { database_->run("BEGIN IMMEDIATE"); }
  void commit() override { database_->run("COMMIT"); }
  void checkpoint() override {
    commit();
    begin();
  }

  std::uint64_t run(operation what) override {
    auto& q = *make_;
    const auto null = [&](std::int64_t id) { return act_null(id); };
    const auto swap = [&](std::int64_t id) { return changed(q.swap, id); };
    const auto toggle = [&](std::int64_t id) { return changed(q.toggle, id); };
    const auto skip = [&](std::int64_t id) { return act_null(id) - 1; };
    const auto four_times = [](auto act) {
      return [act](std::int64_t id) { return act(id) + act(id) + act(id) + act(id); };
    };
    switch (what) {
      case operation::t1: return each_part(null, null);
      case operation::t2a: return each_part(swap, skip);
      case operation::t2b: return each_part(swap, swap);
      case operation::t2c: return each_part(four_times(swap), four_times(swap));
      case operation::t3a: return each_part(toggle, skip);
      case operation::t3b: return each_part(toggle, toggle);
      case operation::t3c: return each_part(four_times(toggle), four_times(toggle));
      case operation::t4: return each_composite([&](std::int64_t c) { return count_in(q.document_text, 'I', c); });
      case operation::t5do: return each_composite([&](std::int64_t c) { return replace(c, "I am", "This is"); });
      case operation::t5undo: return each_composite([&](std::int64_t c) { return replace(c, "This is", "I am"); });
      case operation::t6: return each_composite([&](std::int64_t c) { return act_null(q.root_part.number_for(c)); });
      case operation::t7: return traverse_up();
      case operation::t8: return count_in(q.manual_texts, 'I');
      case operation::t9: {
        std::uint64_t count = 0;
        q.manual_texts.rows([&](auto& row) { count += row.text(0).front() == row.text(0).back() ? 1U : 0U; });
        return count;
      }
      case operation::q1: return look_up_parts();
      case operation::q2: return count_rows(q.dated, 1990);
      case operation::q3: return count_rows(q.dated, 1900);
      case operation::q4: return look_up_documents();
      case operation::q5: return static_cast<std::uint64_t>(q.newer.number_for());
      case operation::q6: return older_assemblies();
      case operation::q7: return count_rows(q.every_atomic);
      case operation::q8: return static_cast<std::uint64_t>(q.joined.number_for());
      case operation::insert: return insert();
      case operation::remove: return remove();
    }
    throw std::invalid_argument("no such operation");
  }

  totals sum() override {
    const auto one = [&](const char* query) {
      return static_cast<std::uint64_t>(sqlite_statement{*database_, query}.number_for());
    };
    totals all;
    all.atomics = one("SELECT count(*) FROM atomic");
    all.connections = one("SELECT count(*) FROM connection");
    all.documents = one("SELECT count(*) FROM document");
    all.composites = one("SELECT count(*) FROM composite");
    all.dates = one("SELECT sum(date) FROM atomic");
    all.x = one("SELECT sum(x) FROM atomic");
    all.y = one("SELECT sum(y) FROM atomic");
    all.lengths = one("SELECT sum(length) FROM connection");
    return all;
  }

 private:
  void open_file() {
    database_.emplace(directory_ / "oo7.db", static_cast<std::int64_t>(std::max(how_.bytes(), std::uint64_t{1} << 27)));
  }

  // --- Generation: the random order of generation.hpp ---

  void build() {
    restart_random();
    private_uses_.assign(static_cast<std::size_t>(how_.composites()) + 1, {});
    shared_uses_ = private_uses_;
    for (int m = 1; m <= how_.modules; ++m) build_module(m);
    for (int c = 1; c <= how_.composites(); ++c) {
      build_composite(c);
      for (const int base : private_uses_[static_cast<std::size_t>(c)]) make_->add_private.run(base, c);
      for (const int base : shared_uses_[static_cast<std::size_t>(c)]) make_->add_shared.run(base, c);
    }
  }
  void build_module(int id) {
    const type_name type = draw_type();
    const int date = 1000 + draw(1000);
    const title name = module_title(id);
    make_->add_manual.run(id, text_of(name), manual_text(id, how_.manual_size), how_.manual_size - 1);
    const int root = build_complex(id, 0, 1);
    make_->add_module.run(id, text_of(name), text_of(type), date, root);
  }
  int build_complex(int module, int super, int level) {
    const int id = ++complexes_;
    const type_name type = draw_type();
    make_->add_complex.run(id, text_of(type), 1000 + draw(1000), super, module);
    for (int i = 0; i < how_.assemblies_per_assembly; ++i) {
      if (level < how_.assembly_levels - 1) {
        build_complex(module, id, level + 1);
      } else {
        build_base(module, id);
      }
    }
    return id;
  }
  void build_base(int module, int super) {
    const int id = ++bases_;
    const type_name type = draw_type();
    make_->add_base.run(id, text_of(type), 1000 + draw(1000), super, module);
    const int first = (module - 1) * how_.composites_per_module + 1;
    for (int i = 0; i < how_.private_per_base; ++i)
      private_uses_[static_cast<std::size_t>(first + draw(how_.composites_per_module))].push_back(id);
    for (int i = 0; i < how_.shared_per_base; ++i)
      shared_uses_[static_cast<std::size_t>(draw(how_.composites()) + 1)].push_back(id);
  }
  void build_composite(int id) {
    const int parts = how_.atomic_per_composite, first = (id - 1) * parts + 1;
    const type_name type = draw_type();
    make_->add_composite.run(id, text_of(type), (id % 10 == 0 ? 2000 : 0) + draw(1000), first);
    const title name = composite_title(id);
    make_->add_document.run(id, text_of(name), oo7::document_text(id, how_.document_size), how_.document_size - 1);
    for (int i = 0; i < parts; ++i) {
      const type_name of = draw_type();
      const int date = 1000 + draw(1000), x = draw(100'000), y = draw(100'000), document = draw(how_.composites()) + 1;
      make_->add_atomic.run(first + i, text_of(of), date, x, y, document, id);
    }
    for (int from = 0; from < parts; ++from)
      for (int i = 0; i < how_.connections_per_atomic; ++i) {
        const int to = i == 0 ? (from + 1) % parts : draw(parts);
        const type_name of = draw_type();
        make_->add_connection.run(text_of(of), draw(100'000), first + from, first + to);
      }
  }
  std::uint64_t insert() {
    const int bases = static_cast<int>(make_->bases.number_for());
    for (int c = 1; c <= inserted; ++c) {
      const int id = how_.composites() + c;
      build_composite(id);
      make_->add_private.run(draw(bases) + 1, id);
    }
    return inserted;
  }
  std::uint64_t remove() {
    for (int c = 1; c <= inserted; ++c) {
      const int id = how_.composites() + c, first = (id - 1) * how_.atomic_per_composite + 1;
      make_->remove_private.run(id);
      make_->remove_shared.run(id);
      make_->remove_connections.run(first, first + how_.atomic_per_composite - 1);
      make_->remove_atomics.run(id);
      make_->remove_document.run(id);
      make_->remove_composite.run(id);
    }
    return inserted;
  }

  // --- What is done to a part or a document ---

  static std::uint64_t act_on_row(sqlite_statement& row) {
    type_name type = {};
    const std::string_view text = row.text(2);
    std::copy_n(text.begin(), std::min(text.size(), type.size()), type.begin());
    null_procedure(row.integer(0), row.integer(1), type);
    return 1;
  }
  std::uint64_t act_null(std::int64_t id) { return count_rows(make_->atomic, id); }
  template <class... Args>
  static std::uint64_t count_rows(sqlite_statement& of, const Args&... args) {
    std::uint64_t count = 0;
    of.rows([&](auto& row) { count += act_on_row(row); }, args...);
    return count;
  }
  std::uint64_t changed(sqlite_statement& by, std::int64_t id) {
    by.run(id);
    return static_cast<std::uint64_t>(sqlite3_changes(database_->get()));
  }
  template <class... Args>
  static std::uint64_t count_in(sqlite_statement& texts, char wanted, const Args&... args) {
    std::uint64_t count = 0;
    texts.rows(
        [&](auto& row) {
          const std::string_view text = row.text(0);
          count += static_cast<std::uint64_t>(std::count(text.begin(), text.end(), wanted));
        },
        args...);
    return count;
  }
  std::uint64_t replace(std::int64_t id, std::string_view from, std::string_view to) {
    std::string text;
    make_->document_text.rows([&](auto& row) { text = row.text(0); }, id);
    if (!text.starts_with(from)) return 0;
    text.replace(0, from.size(), to);
    make_->set_document.run(text, text.size(), id);
    return 1;
  }

  // --- Ways through the database: rows are fetched before statements are used again below ---

  struct dated_id {
    std::int64_t id;
    int date;
  };
  static std::vector<dated_id> fetch(sqlite_statement& from, std::int64_t key) {
    std::vector<dated_id> all;
    from.rows([&](auto& row) { all.push_back({row.number(0), row.integer(1)}); }, key);
    return all;
  }
  template <class... Args>
  static std::vector<std::int64_t> ids(sqlite_statement& from, const Args&... args) {
    std::vector<std::int64_t> all;
    from.rows([&](auto& row) { all.push_back(row.number(0)); }, args...);
    return all;
  }
  template <class F>
  std::uint64_t each_composite(F&& each) {
    std::uint64_t count = 0;
    for (const auto root : ids(make_->roots)) count += below(root, each);
    return count;
  }
  template <class F>
  std::uint64_t below(std::int64_t complex, F&& each) {
    std::uint64_t count = 0;
    for (const auto& sub : fetch(make_->complex_below, complex)) count += below(sub.id, each);
    for (const auto& base : fetch(make_->bases_below, complex))
      for (const auto part : ids(make_->private_of, base.id)) count += each(part);
    return count;
  }
  template <class Root, class Others>
  std::uint64_t each_part(Root root_act, Others act) {
    std::vector<bool> seen(static_cast<std::size_t>(how_.atomic_per_composite));
    return each_composite([&](std::int64_t c) {
      std::fill(seen.begin(), seen.end(), false);
      const std::int64_t root = make_->root_part.number_for(c);
      return depth_first(root, seen, [&](std::int64_t id) { return id == root ? root_act(id) : act(id); });
    });
  }
  template <class F>
  std::uint64_t depth_first(std::int64_t id, std::vector<bool>& seen, const F& act) {
    const auto place = [&](std::int64_t of) { return static_cast<std::size_t>((of - 1) % how_.atomic_per_composite); };
    std::uint64_t count = act(id);
    seen[place(id)] = true;
    for (const auto next : ids(make_->targets, id))
      if (!seen[place(next)]) count += depth_first(next, seen, act);
    return count;
  }

  std::uint64_t traverse_up() {
    restart_random();
    std::set<std::int64_t> complexes;
    const auto bases = ids(make_->bases_of_atomic, draw(how_.atomics()) + 1);
    for (const auto base : bases)
      for (auto up = make_->super_of_base.number_for(base); up != 0 && complexes.insert(up).second;)
        up = make_->super_of_complex.number_for(up);
    return bases.size() + complexes.size();
  }
  std::uint64_t look_up_parts() {
    restart_random();
    std::uint64_t count = 0;
    for (int i = 0; i < 10; ++i) count += act_null(draw(how_.atomics()) + 1);
    return count;
  }
  std::uint64_t look_up_documents() {
    restart_random();
    std::uint64_t count = 0;
    for (int i = 0; i < 10; ++i) {
      const title name = composite_title(draw(how_.composites()) + 1);
      count += ids(make_->uses_of_document, text_of(name)).size();
    }
    return count;
  }
  std::uint64_t older_assemblies() {
    std::uint64_t count = 0;
    for (const auto root : ids(make_->roots)) {
      const auto newest = newest_below(root, count);
      const auto date = sqlite_statement{*database_, "SELECT date FROM complex WHERE id = ?"}.number_for(root);
      count += date < newest ? 1U : 0U;
    }
    return count;
  }
  std::int64_t newest_below(std::int64_t complex, std::uint64_t& older) {
    std::int64_t newest = 0;
    const auto judge = [&](int date, std::int64_t below) {
      older += date < below ? 1U : 0U;
      newest = std::max(newest, below);
    };
    for (const auto& sub : fetch(make_->complex_below, complex)) judge(sub.date, newest_below(sub.id, older));
    for (const auto& base : fetch(make_->bases_below, complex)) {
      std::int64_t below = 0;
      for (const auto part : ids(make_->private_of, base.id))
        below = std::max(below, make_->composite_date.number_for(part));
      judge(base.date, below);
    }
    return newest;
  }

  static constexpr int inserted = 10;
  std::optional<sqlite_database> database_;
  std::optional<statements> make_;
  int complexes_ = 0, bases_ = 0;                             // ids given
  std::vector<std::vector<int>> private_uses_, shared_uses_;  // base assemblies by composite part
};

}  // namespace

std::unique_ptr<contender> make_sqlite(const std::filesystem::path& directory, const configuration& how) {
  return std::make_unique<sqlite_contender>(directory, how);
}
#else
std::unique_ptr<contender> make_sqlite(const std::filesystem::path&, const configuration&) { return nullptr; }
#endif

}  // namespace tenure::bench::oo7
