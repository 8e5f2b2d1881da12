// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The parts of <algorithm>, <iterator> and <memory> that containers use: concepts of iterators, reverse_iterator,
// construct_at, destroy_n, min, equal, and the like. libstdc++ has them in <vector> and <string_view>, too. These
// headers compile in a third of the time, because the others include streams, ranges and smart pointers.
#pragma once

#include <cstddef>

#if defined(__GLIBCXX__)
#include <string_view>
#include <vector>
#else
#include <algorithm>
#include <iterator>
#include <memory>
#endif
