/* Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0 */
/* Loaded while a store is open: what its data refers to is kept. */
void* tenure_test_initialized_word = &tenure_test_initialized_word;
void* tenure_test_zero_words[1000];
