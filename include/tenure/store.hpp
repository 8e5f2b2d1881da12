// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores: ordinary C++ objects and pointers that outlive the process.
//
//     struct package {
//       tenure::string name;
//       tenure::vector<package*> depends;
//     };
//     tenure::store store{"packages"};                              // creates, or opens and recovers
//     auto& by_name = store.root<tenure::map<tenure::string, package*>>("by-name");
//     store.transact([&] {
//       auto* p = store.make<package>();
//       p->name = "libc6";
//       by_name[p->name] = p;
//     });                                                           // durable here
//
// After Hosking & Chen, "Mostly-copying reachability-based orthogonal persistence", OOPSLA 1999 (cited as [PM3
// §section]), on recoverable memory (rvm.hpp). A store is a directory with one log and one or more databases. A
// database is a segment that is mapped at the same addresses in every process, so a stored pointer is a pointer. When a
// transaction commits, every object that is reachable from a root becomes persistent. All other objects in the heap are
// transient, and cost nothing on disk.
//
// Errors: every function that is not noexcept may throw tenure::error: errc::closed after close(), errc::forked in the
// child of a fork, errc::read_only for a change to a store that is open for reading, and the codes that are named
// below. After errc::outcome_unknown the store must be closed and opened again. Using a store that was moved from is
// undefined.
//
// Threads: any number of threads may use a store at once. But while one thread opens, closes, moves or destroys the
// store, or creates a database, no other thread may use it. There may be one write transaction at a time, or many read
// transactions. A write transaction keeps readers out from begin() until its commit has fixed its place in the order,
// which is before it is durable. Reading persistent objects outside of any transaction while another thread writes is a
// data race.
//
// Fork: a child has no store. Calls that need the log or its files throw errc::forked; touching an object, as
// is_persistent() does, ends the child with a message; close() and stats() do no harm.
#pragma once

#include <tenure/error.hpp>
#include <tenure/store/database.hpp>
#include <tenure/store/options.hpp>
#include <tenure/store/statistics.hpp>
#include <tenure/store/store.hpp>
#include <tenure/store/transaction.hpp>
#include <tenure/types/allocation.hpp>
