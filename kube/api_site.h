/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API server's address, the authorities that authenticate it, and our credentials. Files are
 * reread when they have changed (a pod's token and certificates are rotated); if the new content is
 * invalid, the old one stays in use.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "kube/api.h"

/* Content that may come from a file. */
struct api_secret {
	char *path; /* NULL: it does not come from a file */
	char *text; /* NULL: no content */
	size_t size;
	struct stat read; /* the file's attributes when it was read */
};

struct api_site {
	char *server; /* "https://10.96.0.1:443", a path may follow; no "/" at its end */
	struct api_secret ca, certificate, key, token;
	unsigned generation; /* counts changes */
};

must_check int api_site_open(const struct api_place *place, struct api_site **ret_site,
			     struct fault *why);
/* NULL: does nothing. */
void api_site_close(struct api_site *site);

/* `forced`: also files that look unchanged. */
void api_site_refresh(struct api_site *site, bool forced);
