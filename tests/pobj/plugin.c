/* Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
 *
 * A library that a program loads and closes as it likes, with an anchor.
 */
static void* root;
void** plugin_anchor(void);
void** plugin_anchor(void) { return &root; }
