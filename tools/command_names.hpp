// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What is said to somebody who asks for a command that there is not.
#pragma once

#include <string>
#include <vector>

namespace tenure::tools {

// `names`: all commands, of one word or two ("info", "log status"). `words`: those of a command line that are no options.
// A sentence that names what is missing or unknown, what may have been meant, and what there is; empty if `words` begin with
// a command.
[[nodiscard]] std::string advice_on_commands(const std::vector<std::string>& names,
                                             const std::vector<std::string>& words);

}  // namespace tenure::tools
