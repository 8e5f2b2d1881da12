// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenure/store/transact_all.hpp>
