/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What meted has refused, and goes on without: a sentence in a file of meted's folder, for `mete
 * doctor` (cli/doctor_refused.c), as long as it is so.
 */
#pragma once

#include "plugin/plugin.h"

#define REFUSED_CONFIG "config"	    /* the configuration that is there */
#define REFUSED_MIG    "mig-config" /* the division that the node's label asks for */

/* NULL: it is well. */
void refused_set(const struct plugin *p, const char *what, const char *sentence);
/* A former meted's. */
void refused_clear(const struct plugin *p);
