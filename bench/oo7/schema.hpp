// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The classes of OO7, once for all worlds (worlds/plain_world.hpp says what a world is). Every association is
// bidirectional; bags keep duplicates.
#pragma once

#include <type_traits>

#include <tenure/persist.hpp>

#include "oo7/configuration.hpp"

namespace tenure::bench::oo7 {

// An assembly knows what it is by its virtual function …
template <class S>
struct virtual_dispatch {
  explicit virtual_dispatch(bool) {}
  virtual ~virtual_dispatch() = default;
  virtual void accept(typename S::visitor& by) = 0;

  static constexpr auto persistent = tenure::members<>{};
};
// … or, where there can be none, by a member.
template <class S>
struct stored_dispatch {
  explicit stored_dispatch(bool base) : is_base(base) {}
  void accept(typename S::visitor& by) {
    if (is_base) {
      by.visit(static_cast<typename S::base_assembly&>(*this));
    } else {
      by.visit(static_cast<typename S::complex_assembly&>(*this));
    }
  }
  bool is_base;
};

template <class W>
struct schema {
  template <class T>
  using ptr = typename W::template ptr<T>;
  template <class T>
  using field = typename W::template field<T>;
  template <class T>
  using link = field<ptr<T>>;
  template <class T>
  using bag = typename W::template vector<ptr<T>>;

  struct module;
  struct complex_assembly;
  struct base_assembly;
  struct composite_part;
  struct atomic_part;

  // Of assemblies; lives in the program, not in the world.
  struct visitor {
    virtual void visit(complex_assembly& one) = 0;
    virtual void visit(base_assembly& one) = 0;

   protected:
    ~visitor() = default;
  };

  struct manual {
    field<title> name;
    field<int> id = 0;
    typename W::string text;
    field<int> text_length = 0;
    link<module> of{};
  };
  struct module {
    field<int> id = 0;
    field<type_name> type;
    field<int> build_date = 0;
    link<oo7::schema<W>::manual> manual{};
    link<complex_assembly> design_root{};
    bag<base_assembly> all_bases;
  };

  using dispatch = std::conditional_t<W::virtual_functions, virtual_dispatch<schema>, stored_dispatch<schema>>;
  struct assembly : dispatch {
    explicit assembly(bool base) : dispatch(base) {}
    field<int> id = 0;
    field<type_name> type;
    field<int> build_date = 0;
    link<complex_assembly> super_assembly{};
    link<oo7::schema<W>::module> module{};

    static constexpr auto persistent =
        tenure::bases<dispatch>{} + tenure::members<&assembly::id, &assembly::type, &assembly::build_date,
                                                    &assembly::super_assembly, &assembly::module>{};
  };
  struct complex_assembly final : assembly {
    complex_assembly() : assembly(false) {}
    void accept(visitor& by) { by.visit(*this); }
    bag<assembly> sub_assemblies;

    static constexpr auto persistent = tenure::bases<assembly>{} + tenure::members<&complex_assembly::sub_assemblies>{};
  };
  struct base_assembly final : assembly {
    base_assembly() : assembly(true) {}
    void accept(visitor& by) { by.visit(*this); }
    bag<composite_part> private_components, shared_components;

    static constexpr auto persistent =
        tenure::bases<assembly>{} +
        tenure::members<&base_assembly::private_components, &base_assembly::shared_components>{};
  };

  struct document {
    field<title> name;
    field<int> id = 0;
    typename W::string text;
    field<int> text_length = 0;
    link<composite_part> part{};
  };
  struct connection {
    field<type_name> type;
    field<int> length = 0;
    link<atomic_part> from{}, to{};
  };
  struct atomic_part {
    field<int> id = 0;
    field<type_name> type;
    field<int> build_date = 0;
    field<int> x = 0, y = 0;
    field<int> document_id = 0;
    bag<connection> to, from;
    link<composite_part> part_of{};
  };
  struct composite_part {
    field<int> id = 0;
    field<type_name> type;
    field<int> build_date = 0;
    link<document> documentation{};
    bag<atomic_part> parts;
    link<atomic_part> root_part{};
    bag<base_assembly> used_in_private, used_in_shared;
  };

  // The root. The index of atomic parts by id is their extent, too.
  struct database {
    template <class K, class T>
    using index = typename W::template map<K, ptr<T>>;

    bag<module> modules;
    index<title, module> modules_by_name;
    index<int, base_assembly> bases_by_id;
    index<int, composite_part> composites_by_id;
    index<title, document> documents_by_title;
    index<int, document> documents_by_id;
    index<int, atomic_part> atomics_by_id;
    typename W::template multimap<int, ptr<atomic_part>> atomics_by_date;
  };
};

}  // namespace tenure::bench::oo7
