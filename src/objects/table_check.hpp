// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Checks a database's tables before their pointers are followed. A database with damaged tables is refused when it is
// opened. The cost does not grow with the number of objects.
#pragma once

namespace tenure {
struct database_state;
}

namespace tenure::heap {

// Checks that types, roots and databases lie in the database, and that their counts, texts and layouts make sense.
// Throws errc::damaged with the file and the mistake.
void require_sound_tables(const database_state& of);

}  // namespace tenure::heap
