/* SPDX-License-Identifier: Apache-2.0 */
/* meted's command line. Refuses unknown options, with one sentence. */
#pragma once

#include "base/fault.h"
#include "base/log.h"

#define OPTIONS_UNSAID UINT64_MAX

struct options {
	int user, system, help, version, stand_by;
	const char *dir;	/* borrowed from argv; NULL: the usual place */
	const char *driver;	/* borrowed from argv; NULL: the loader's */
	const char *kubernetes; /* borrowed from argv: the configuration; NULL: no Kubernetes */
	const char *mig_config; /* borrowed from argv: mig-parted's file; NULL: none */
	int no_native_limits;	/* the guest alone limits memory */
	const char *page;	/* borrowed from argv: an address; NULL: nothing is shown */
	const char *tls_cert, *tls_key; /* likewise */
	const char *page_token;		/* borrowed from argv: a file; NULL: there is none */
	int page_open;			/* a loopback address needs no token */
	uint64_t page_kubernetes_ns; /* how long the cluster's word is believed; 0: it is not asked
				      */
	const char *page_audience;   /* borrowed from argv; NULL: the API server */
	const char *metrics;	     /* borrowed from argv: an address; NULL: there are none */
	const char *policy;	     /* borrowed from argv; NULL: POLICY_FILE */
	uint64_t reserve_bytes, context_bytes, grace_ns, park_after_ns, park_delay_ns, look_ns;
	uint64_t store_bytes, quota_bytes; /* OPTIONS_UNSAID: derived from the host's memory */
	uint32_t movement_milli;
	uint64_t block_bytes; /* whole MiB */
	enum log_level log_level;
};

must_check int options_parse(int argc, char **argv, struct options *ret_options, struct fault *why);

void options_help(FILE *out);
