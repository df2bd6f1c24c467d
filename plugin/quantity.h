/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantities of the API server (Kubernetes' resource.Quantity): "20Gi", "4k", "250m", "1.5", "1e3".
 * It writes them in a form of its own ("1024Mi" comes back as "1Gi"), so they are compared as
 * numbers. Pure.
 *
 * Every form that it accepts is read, but no negative number: the suffixes n, u, m, none, k, M, G,
 * T, P, E (powers of 1000), Ki to Ei (powers of 1024), and e or E with an exponent of 10. Like
 * there, a value has at most 63 bits. Unlike there, more than 19 digits are refused, zeros in front
 * apart.
 */
#pragma once

#include "base/macros.h"

enum { QUANTITY_TEXT = 24 };

/* A whole number, of bytes or devices. -EINVAL: it is not a quantity, or not whole. */
must_check int quantity_read(const char *quantity, uint64_t *ret_value);

/* Rounded up to a whole number, as the API server does. -EINVAL: it is not a quantity. */
must_check int quantity_read_up(const char *quantity, uint64_t *ret_value);

/* A whole number in digits alone. -EINVAL as above. */
must_check int quantity_plain(const char *quantity, char ret_text[QUANTITY_TEXT]);
