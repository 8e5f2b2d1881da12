#!/bin/bash
# Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#
# Makes each of the mistakes in mutations.py and looks whether the tests notice. Names as arguments: only these.
exec python3 "$(dirname "$0")/check.py" "$@"
