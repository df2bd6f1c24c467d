/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mete --complete keys|filters VALUE`: what a list of `mete ps --query` or `--filter` may go on
 * with, on standard output, one whole value on each line.
 */
#pragma once

#include "view/ps_rows.h"

void complete_keys(const char *typed);
void complete_filters(const char *typed, const struct ps_rows *rows);
