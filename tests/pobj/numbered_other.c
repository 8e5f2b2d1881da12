/* Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Has an anchor of the same name as numbered.c.
 */
static void* list;
void** other_list(void);
void** other_list(void) { return &list; }
