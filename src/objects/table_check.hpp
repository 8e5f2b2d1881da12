// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A database's tables, looked at before anybody follows their pointers: damaged ones are refused when the database is opened.
// Costs nothing that grows with the number of objects.
#pragma once

namespace tenure {
struct database_state;
}

namespace tenure::heap {

// Types, roots and databases lie in the database, their counts, texts and layouts make sense. Throws errc::damaged, naming the
// file and what is wrong.
void require_sound_tables(const database_state& of);

}  // namespace tenure::heap
