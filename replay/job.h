/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comparison: pod lists x policies x seeds. Each run is one of replay/openb.h or
 * replay/departures.h. The results are printed and plotted. The same job always gives the same
 * results, and byte for byte the same JSON.
 */
#pragma once

#include "replay/departures.h"
#include "replay/openb.h"
#include "replay/published.h"

enum { REPLAY_LISTS = 32, REPLAY_POLICIES = PLACEMENT_POLICIES + 1, REPLAY_SEEDS = 1000 };

struct replay_job {
	const char *folder; /* holds openb_node_list_gpu_node.csv and openb_pod_list_NAME.csv */
	char lists[REPLAY_LISTS][64];
	size_t lists_size;
	int policies[REPLAY_POLICIES];
	size_t policies_size;
	uint64_t first_seed;
	size_t seeds;		/* 1 .. REPLAY_SEEDS */
	struct cluster_run how; /* seed and policy are filled in */
	bool departures;	/* pods leave, as `living` says; its `how` is filled in */
	struct departures_run living;
	FILE *progress; /* gets a line that is overwritten; NULL: silent */
};

struct replay_results {
	const struct replay_job *job;
	/* [list][policy][seed]; one of the two is NULL. */
	struct openb_curve *curves;
	struct departures_outcome *outcomes;
	/* [list][allocated, stranded][policy]; NULL if pods leave. */
	struct published *published;
};

/* "NAME,NAME" or "all" (every list in job->folder). -EINVAL, -ENOENT. */
must_check int replay_job_lists(struct replay_job *job, const char *text, struct fault *why);
/* "NAME,NAME"; NULL: the policies of the published comparison, and foresight. */
must_check int replay_job_policies(struct replay_job *job, const char *text, struct fault *why);
/* "FIRST-LAST" or "SEED". */
must_check int replay_job_seeds(struct replay_job *job, const char *text, struct fault *why);

must_check int replay_job_run(const struct replay_job *job, struct replay_results *ret_results,
			      struct fault *why);
void replay_results_done(struct replay_results *results);

const struct openb_curve *replay_curve(const struct replay_results *results, size_t list,
				       size_t policy, size_t seed);

/* A measured value: the mean over the seeds, and their standard deviation. */
struct replay_mean {
	double mean, deviation;
};

/* Takes the values of the seeds one by one (Welford's method); all zero: no values yet. */
struct replay_tally {
	size_t size;
	double mean, squares; /* the mean so far, and the sum of squared deviations from it */
};
void replay_tally_add(struct replay_tally *tally, double value);
struct replay_mean replay_tally_mean(const struct replay_tally *tally);

struct replay_mean replay_allocated(const struct replay_results *results, size_t list,
				    size_t policy, int percent);
struct replay_mean replay_stranded(const struct replay_results *results, size_t list, size_t policy,
				   int percent);

const struct departures_outcome *replay_outcome(const struct replay_results *results, size_t list,
						size_t policy, size_t seed);

void replay_print_tables(FILE *out, const struct replay_results *results);
void replay_print_json(FILE *out, const struct replay_results *results);
/* Plots what is allocated, or what is stranded, over arrivals. */
void replay_print_svg(FILE *out, const struct replay_results *results, size_t list, bool stranded);
/* NULL: nothing was published for it. */
const struct published *replay_published(const struct replay_results *results, size_t list,
					 bool stranded, int policy);
/* The same for runs in which pods leave. */
void departures_print_tables(FILE *out, const struct replay_results *results);
void departures_print_json(FILE *out, const struct replay_results *results);
void departures_print_svg(FILE *out, const struct replay_results *results, size_t list);
