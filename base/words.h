/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles words that people write in a configuration or an annotation: whether Kubernetes accepts
 * one as a name, which known word was probably meant, and how to show one. Pure.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"

enum {
	WORDS_LABEL_MAX = 63,
	WORDS_SUBDOMAIN_MAX = 253,
};

struct words_shown {
	char text[68];
};

/* Safe to display, cut with "..." if it is long. */
struct words_shown words_show(const char *text);

/* A key as people write it: "on-daemon-loss" for the table's on_daemon_loss. */
struct words_shown words_dashed(const char *key);

/* Dashes and underscores are alike. */
bool words_same(const char *a, const char *b);

/* The name that was probably meant, ignoring case; NULL if none is close. */
const char *words_nearest(const char *word, const char *const *names, size_t count);

bool words_is_label(const char *text);	   /* DNS: "notebook-1" */
bool words_is_subdomain(const char *text); /* the name of an object: "mete.dev" */
bool words_is_resource(const char *text);  /* "mete.dev/gpu" */

/* For an amount that is refused because of its unit: what to write instead, as ": write ...", or
 * "" if that is unknown. `part`: only a part of a device is accepted, not bytes. */
struct words_shown words_unit_advice(const char *amount, bool part);
