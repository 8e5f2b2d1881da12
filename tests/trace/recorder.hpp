// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Records which functions one thread enters and leaves. The functions must be compiled with -finstrument-functions, and the
// recorder without. scripts/trace-commit turns the record into words.
#pragma once

namespace trace {

// Between the two, what the calling thread does is recorded; other threads are not.
void begin();
void end();
// Writes what was recorded since the last begin(): a line for each event, "> ADDRESS" for a function that was entered and "<"
// for one that was left. Fails the program if the record was cut because it was too long.
void write(const char* path);

}  // namespace trace
