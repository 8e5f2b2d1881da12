#!/bin/bash
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
# Builds the example named packages and runs it with the arguments given.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset user >/dev/null
cmake --build --preset user --target example_packages
exec build/user/examples/packages "$@"
