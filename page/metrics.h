/* SPDX-License-Identifier: Apache-2.0 */
/* The figures for Prometheus, on a machine without Kubernetes; on a node the plugin has them. */
#pragma once

#include "http/http.h"
#include "page/looks.h"

struct metrics {
	struct looks *looks; /* borrowed */
	struct http *http;
	char node[256];
	char *text; /* of the rows that were gathered at `since_ns`; NULL: there is none */
	uint64_t since_ns;
	uint32_t copies;
};

/* At host->metrics; does nothing without it. */
must_check int metrics_open(struct metrics *metrics, struct looks *looks, struct http_tls *tls,
			    struct fault *why);
void metrics_close(struct metrics *metrics);
