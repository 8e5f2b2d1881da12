// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Recoverable virtual memory: ordinary memory whose changes are atomic and survive crashes.
//
//     tenure::rvm::memory memory{"bank.log"};                       // creates, or opens and recovers
//     auto accounts = memory.map("accounts.seg", {.create_length = 1 << 20});
//     auto& account = accounts.at<account_record>(0);
//     auto tx = memory.begin();
//     tx.set_range(account);                                        // about to change it
//     account.balance += 10;
//     tx.commit();                                                  // durable here
//
// A region can also be mapped with automatic tracking: then nothing is announced, what changed is found.
//
//     auto accounts = memory.map("accounts.seg", {.create_length = 1 << 20, .tracking = tracking_mode::automatic});
//     auto tx = memory.begin_automatic();
//     accounts.at<account_record>(0).balance += 10;
//     tx.commit();
//
// After Satyanarayanan, Mashburn, Kumar, Steere, Kistler, "Lightweight Recoverable Virtual Memory", SOSP 1993 (cited as
// [RVM §section]). A log holds the new values of committed transactions; segments (files or block devices) hold the rest;
// regions of segments are mapped into memory; truncation moves changes from the log to the segments. Nothing uncommitted
// ever reaches a segment.
//
// Errors: every function may throw tenure::error (see error.hpp); nothing that was acknowledged is lost by an error. After
// errc::outcome_unknown (the log could not be written or synced) this memory accepts no more commits: close it and open
// it again, which finds out what is on the disk.
//
// Threads: a memory may be used by any number of threads at once; a transaction by one at a time. RVM gives atomicity and
// permanence, not isolation [RVM §3.1]: threads that share data must keep each other out of it until the commit.
//
// Fork: a child has no part in its parent's memory: its calls throw errc::forked, and touching a region ends the child
// with a message.
#pragma once

#include <tenure/error.hpp>
#include <tenure/rvm/commit.hpp>
#include <tenure/rvm/log_options.hpp>
#include <tenure/rvm/map_options.hpp>
#include <tenure/rvm/memory.hpp>
#include <tenure/rvm/options.hpp>
#include <tenure/rvm/paged_segment.hpp>
#include <tenure/rvm/region.hpp>
#include <tenure/rvm/segment_options.hpp>
#include <tenure/rvm/statistics.hpp>
#include <tenure/rvm/transaction.hpp>
