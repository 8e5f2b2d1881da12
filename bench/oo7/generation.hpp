// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Generates an OO7 database, in the random order of the original program, and takes it apart again.
#pragma once

#include <vector>

#include "oo7/schema.hpp"

namespace tenure::bench::oo7 {

template <class W>
class generation {
  using s = schema<W>;
  template <class T>
  using ptr = typename W::template ptr<T>;

 public:
  generation(const configuration& how, typename s::database& in) : how_(how), in_(in) {}

  // Within a transaction, with checkpoints in it: no system must hold all at once.
  void build() {
    restart_random();
    private_uses_.resize(static_cast<std::size_t>(how_.composites()) + 1);
    shared_uses_.resize(private_uses_.size());
    for (int m = 1; m <= how_.modules; ++m) {
      build_module(m);
      W::checkpoint();
    }
    for (int c = 1; c <= how_.composites(); ++c) {
      const auto part = build_composite(c);
      for (const int base : private_uses_[static_cast<std::size_t>(c)]) use_private(*base_named(base), part);
      for (const int id : shared_uses_[static_cast<std::size_t>(c)]) {
        const ptr<typename s::base_assembly> base = base_named(id);
        base->shared_components.push_back(part);
        part->used_in_shared.push_back(base);
      }
      if (c % 50 == 0) W::checkpoint();
    }
  }

  // The operation Insert: new composite parts, each in one base assembly.
  std::uint64_t insert_composites() {
    const int bases = static_cast<int>(in_.bases_by_id.size());
    for (int c = 1; c <= inserted; ++c) {
      const auto part = build_composite(how_.composites() + c);
      use_private(*base_named(draw(bases) + 1), part);
    }
    return inserted;
  }
  // The operation Delete: those again, with all that they own.
  std::uint64_t delete_composites() { return take_out_inserted(&destroy_composite); }
  // Calls each(part) for those that were inserted, to which nothing leads then.
  template <class F>
  std::uint64_t take_out_inserted(F&& each) {
    for (int c = 1; c <= inserted; ++c) {
      const int id = how_.composites() + c;
      const ptr<typename s::composite_part> part = *W::find(in_.composites_by_id, id);
      for (const auto& base : part->used_in_private) take_one(base->private_components, part);
      for (const auto& base : part->used_in_shared) take_one(base->shared_components, part);
      forget(part);
      each(part);
    }
    return inserted;
  }

  // A database grows old: ten composite parts, drawn among all, are taken out, and new ones are put where they were, in the same
  // base assemblies and with the same ids. Those taken out are destroyed, or nothing leads to them any more. Choices go on from
  // where they are.
  std::uint64_t replace_composites(bool destroys) {
    for (int n = 0; n < inserted; ++n) {
      const int id = draw(how_.composites()) + 1;
      const ptr<typename s::composite_part> old = *W::find(in_.composites_by_id, id);
      forget(old);
      const auto made = build_composite(id);
      for (const auto& base : old->used_in_private) {
        exchange(base->private_components, old, made);
        made->used_in_private.push_back(base);
      }
      for (const auto& base : old->used_in_shared) {
        exchange(base->shared_components, old, made);
        made->used_in_shared.push_back(base);
      }
      if (destroys) destroy_composite(old);
    }
    return inserted;
  }

  // Destroys all objects but the root, whose indexes then lead nowhere.
  void destroy_all() {
    W::scan(in_.composites_by_id, 0, [&](int, const ptr<typename s::composite_part>& part) {
      destroy_composite(part);
      return true;
    });
    destroyer with;
    for (const auto& module : in_.modules) {
      with.visit(*module->design_root);
      W::destroy(ptr<typename s::manual>{module->manual});
      W::destroy(module);
    }
  }

 private:
  static constexpr int inserted = 10;

  void build_module(int id) {
    const auto module = W::template make<typename s::module>();
    module->id = id;
    module->type = draw_type();
    module->build_date = 1000 + draw(1000);
    const auto manual = W::template make<typename s::manual>();
    manual->name = module_title(id);
    manual->id = id;
    W::assign(manual->text, manual_text(id, how_.manual_size));
    manual->text_length = how_.manual_size - 1;
    manual->of = module;
    module->manual = manual;
    in_.modules.push_back(module);
    W::insert(in_.modules_by_name, module_title(id), module);
    module->design_root = build_complex(module, nullptr, 1);
  }

  template <class Assembly>
  void begin_assembly(Assembly& one, int id, const ptr<typename s::module>& module,
                      const ptr<typename s::complex_assembly>& super) {
    one.id = id;
    one.type = draw_type();
    one.build_date = 1000 + draw(1000);
    one.super_assembly = super;
    one.module = module;
  }
  ptr<typename s::complex_assembly> build_complex(const ptr<typename s::module>& module,
                                                  const ptr<typename s::complex_assembly>& super, int level) {
    const auto one = W::template make<typename s::complex_assembly>();
    begin_assembly(*one, ++complexes_, module, super);
    for (int i = 0; i < how_.assemblies_per_assembly; ++i) {
      if (level < how_.assembly_levels - 1) {
        one->sub_assemblies.push_back(build_complex(module, one, level + 1));
      } else {
        one->sub_assemblies.push_back(build_base(module, one));
      }
    }
    return one;
  }
  ptr<typename s::base_assembly> build_base(const ptr<typename s::module>& module,
                                            const ptr<typename s::complex_assembly>& super) {
    const auto one = W::template make<typename s::base_assembly>();
    begin_assembly(*one, ++bases_, module, super);
    W::insert(in_.bases_by_id, bases_, one);
    module->all_bases.push_back(one);
    const int first = (module->id - 1) * how_.composites_per_module + 1;
    for (int i = 0; i < how_.private_per_base; ++i)
      private_uses_[static_cast<std::size_t>(first + draw(how_.composites_per_module))].push_back(bases_);
    for (int i = 0; i < how_.shared_per_base; ++i)
      shared_uses_[static_cast<std::size_t>(draw(how_.composites()) + 1)].push_back(bases_);
    return one;
  }
  ptr<typename s::base_assembly> base_named(int id) { return *W::find(in_.bases_by_id, id); }
  static void use_private(typename s::base_assembly& base, const ptr<typename s::composite_part>& part) {
    base.private_components.push_back(part);
    part->used_in_private.push_back(W::pointer_to(base));
  }

  ptr<typename s::composite_part> build_composite(int id) {
    const auto part = W::template make<typename s::composite_part>();
    part->id = id;
    part->type = draw_type();
    part->build_date = (id % 10 == 0 ? 2000 : 0) + draw(1000);
    const auto document = W::template make<typename s::document>();
    document->name = composite_title(id);
    document->id = id;
    W::assign(document->text, document_text(id, how_.document_size));
    document->text_length = how_.document_size - 1;
    document->part = part;
    part->documentation = document;
    W::insert(in_.composites_by_id, id, part);
    W::insert(in_.documents_by_title, composite_title(id), document);
    W::insert(in_.documents_by_id, id, document);
    const int first = (id - 1) * how_.atomic_per_composite + 1;
    for (int i = 0; i < how_.atomic_per_composite; ++i) part->parts.push_back(build_atomic(first + i, part));
    part->root_part = part->parts[0];
    const int parts = how_.atomic_per_composite;
    for (int from = 0; from < parts; ++from)
      for (int i = 0; i < how_.connections_per_atomic; ++i) {
        const int to = i == 0 ? (from + 1) % parts : draw(parts);
        connect(part->parts[static_cast<std::size_t>(from)], part->parts[static_cast<std::size_t>(to)]);
      }
    return part;
  }
  ptr<typename s::atomic_part> build_atomic(int id, const ptr<typename s::composite_part>& of) {
    const auto part = W::template make<typename s::atomic_part>();
    part->id = id;
    part->type = draw_type();
    const int date = 1000 + draw(1000);
    part->build_date = date;
    part->x = draw(100'000);
    part->y = draw(100'000);
    part->document_id = draw(how_.composites()) + 1;
    part->part_of = of;
    W::insert(in_.atomics_by_id, id, part);
    W::insert(in_.atomics_by_date, date, part);
    return part;
  }
  static void connect(const ptr<typename s::atomic_part>& from, const ptr<typename s::atomic_part>& to) {
    const auto one = W::template make<typename s::connection>();
    one->type = draw_type();
    one->length = draw(100'000);
    one->from = from;
    one->to = to;
    from->to.push_back(one);
    to->from.push_back(one);
  }

  // Takes one of equal elements out of a bag; the last takes its place.
  template <class Bag, class T>
  static void take_one(Bag& from, const T& one) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (!(from[i] == one)) continue;
      const T last = from[from.size() - 1];
      W::set(from, i, last);
      from.pop_back();
      return;
    }
  }
  // One of equal elements.
  template <class Bag, class T>
  static void exchange(Bag& in, const T& old, const T& by) {
    for (std::size_t i = 0; i < in.size(); ++i)
      if (in[i] == old) return W::set(in, i, by);
  }
  // Out of all indexes.
  void forget(const ptr<typename s::composite_part>& part) {
    const ptr<typename s::document> document = part->documentation;
    W::erase(in_.composites_by_id, int{part->id}, part);
    W::erase(in_.documents_by_title, composite_title(part->id), document);
    W::erase(in_.documents_by_id, int{document->id}, document);
    for (const auto& atomic : part->parts) {
      W::erase(in_.atomics_by_id, int{atomic->id}, atomic);
      W::erase(in_.atomics_by_date, int{atomic->build_date}, atomic);
    }
  }
  static void destroy_composite(const ptr<typename s::composite_part>& part) {
    for (const auto& atomic : part->parts)
      for (const auto& one : atomic->to) W::destroy(one);
    for (const auto& atomic : part->parts) W::destroy(atomic);
    W::destroy(ptr<typename s::document>{part->documentation});
    W::destroy(part);
  }

  struct destroyer final : s::visitor {
    void visit(typename s::complex_assembly& one) override {
      for (const auto& sub : one.sub_assemblies) sub->accept(*this);
      W::destroy(W::pointer_to(one));
    }
    void visit(typename s::base_assembly& one) override { W::destroy(W::pointer_to(one)); }
  };

  const configuration& how_;
  typename s::database& in_;
  int complexes_ = 0, bases_ = 0;  // ids given
  // Ids of base assemblies, by composite part. No pointers: they are kept over checkpoints.
  std::vector<std::vector<int>> private_uses_, shared_uses_;
};

}  // namespace tenure::bench::oo7
