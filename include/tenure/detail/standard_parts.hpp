// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What containers use of <algorithm>, <iterator> and <memory>: concepts of iterators, reverse_iterator, construct_at,
// destroy_n, min, equal, and the like. libstdc++ has them in <vector> and <string_view>, too, which cost a third of the time
// to compile: the others bring streams, ranges and smart pointers.
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
