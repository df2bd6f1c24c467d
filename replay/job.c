/* SPDX-License-Identifier: Apache-2.0 */
#include <glob.h>
#include <string.h>

#include "replay/job.h"

static int add_list(struct replay_job *job, const char *name, struct fault *why)
{
	if (job->lists_size == REPLAY_LISTS)
		return fault_set(why, -EINVAL, "more than %d pod lists", REPLAY_LISTS);
	if (!*name || strlen(name) >= sizeof(job->lists[0]) || strchr(name, '/'))
		return fault_set(why, -EINVAL, "'%s' is not the name of a pod list", name);
	strcpy(job->lists[job->lists_size++], name);
	return 0;
}

static int all_lists(struct replay_job *job, struct fault *why)
{
	static const char prefix[] = "openb_pod_list_";
	char pattern[4096];
	glob_t found;
	int r = 0;

	/* The result is sorted, so a table and its compressed form are neighbours. */
	snprintf(pattern, sizeof(pattern), "%s/%s*.csv*", job->folder, prefix);
	if (glob(pattern, 0, NULL, &found) != 0)
		return fault_set(why, -ENOENT, "%s has no files %s*.csv", job->folder, prefix);
	for (size_t i = 0; i < found.gl_pathc && r == 0; i++) {
		const char *name = strrchr(found.gl_pathv[i], '/') + sizeof(prefix);
		const char *end = strstr(name, ".csv");
		size_t known = job->lists_size;
		char list[64];

		if (strcmp(end, ".csv") != 0 && strcmp(end, ".csv.gz") != 0)
			continue;
		snprintf(list, sizeof(list), "%.*s", (int)(end - name), name);
		if (!known || strcmp(job->lists[known - 1], list) != 0)
			r = add_list(job, list, why);
	}
	globfree(&found);
	return r;
}

int replay_job_lists(struct replay_job *job, const char *text, struct fault *why)
{
	owned(free) char *copy = strdup(text);
	char *rest = copy, *name;
	int r = 0;

	if (!copy)
		return fault_set(why, -ENOMEM, "out of memory");
	if (strcmp(text, "all") == 0)
		return all_lists(job, why);
	while (r == 0 && (name = strsep(&rest, ",")))
		r = add_list(job, name, why);
	return r;
}

int replay_job_policies(struct replay_job *job, const char *text, struct fault *why)
{
	owned(free) char *copy = strdup(
		text ? text : "random,dot-product,clustering,packing,best-fit,fgd,foresight");
	char *rest = copy, *name;

	if (!copy)
		return fault_set(why, -ENOMEM, "out of memory");
	while ((name = strsep(&rest, ","))) {
		int policy;

		if (cluster_policy_parse(name, &policy) < 0)
			return fault_set(
				why, -EINVAL,
				"'%s' is not a policy; accepted: random, binpack, spread, "
				"best-fit, dot-product, clustering, packing, fgd, foresight",
				name);
		if (job->policies_size == REPLAY_POLICIES)
			return fault_set(why, -EINVAL, "more than %d policies", REPLAY_POLICIES);
		job->policies[job->policies_size++] = policy;
	}
	return 0;
}

int replay_job_seeds(struct replay_job *job, const char *text, struct fault *why)
{
	unsigned long long first, last;
	char end;
	int n = sscanf(text, "%llu-%llu%c", &first, &last, &end);

	if (n == 1 && !strchr(text, '-'))
		last = first;
	else if (n != 2)
		last = first = 1, first = 2;
	if (*text < '0' || *text > '9' || last < first || last - first >= REPLAY_SEEDS)
		return fault_set(why, -EINVAL,
				 "seeds '%s': FIRST-LAST or one number is needed, at most %d seeds",
				 text, REPLAY_SEEDS);
	job->first_seed = first;
	job->seeds = last - first + 1;
	return 0;
}

/* Shows the progress: on a terminal, one line that is overwritten; elsewhere, a line per policy. */
static void show(const struct replay_job *job, size_t done, size_t all, size_t list,
		 const struct cluster_run *run)
{
	bool terminal = job->progress && isatty(fileno(job->progress));

	if (!job->progress || (!terminal && run->seed != job->first_seed))
		return;
	fprintf(job->progress, "%s%zu of %zu: %s, %s, seed %llu%s", terminal ? "\r" : "", done + 1,
		all, job->lists[list], cluster_policy_name(run->policy),
		(unsigned long long)run->seed, terminal ? " \033[K" : "\n");
	fflush(job->progress);
}

static int run_one(const struct replay_job *job, const struct replay_trace *trace,
		   const struct cluster_run *run, struct replay_results *results, size_t at,
		   struct fault *why)
{
	struct departures_run living = job->living;

	if (!job->departures)
		return openb_replay(trace, run, &results->curves[at], why);
	living.how = *run;
	return departures_replay(trace, &living, &results->outcomes[at], why);
}

static int run_list(const struct replay_job *job, size_t list, struct replay_results *results,
		    size_t *done, struct fault *why)
{
	struct replay_trace trace = {0};
	char nodes[4096], pods[4096];
	size_t all = job->lists_size * job->policies_size * job->seeds;
	int r;

	snprintf(nodes, sizeof(nodes), "%s/openb_node_list_gpu_node.csv", job->folder);
	snprintf(pods, sizeof(pods), "%s/openb_pod_list_%s.csv", job->folder, job->lists[list]);
	r = replay_trace_load(nodes, pods, &trace, why);
	for (size_t i = 0; i < job->policies_size * job->seeds && r == 0; i++) {
		struct cluster_run run = job->how;

		run.policy = job->policies[i / job->seeds];
		run.seed = job->first_seed + i % job->seeds;
		show(job, *done, all, list, &run);
		r = run_one(job, &trace, &run, results, *done, why);
		++*done;
	}
	replay_trace_done(&trace);
	return r;
}

/* The published figures of each list, of both kinds. */
static int load_published(const struct replay_job *job, struct published *published,
			  struct fault *why)
{
	int r = 0;

	for (size_t i = 0; i < 2 * job->lists_size && r == 0 && !job->departures; i++)
		r = published_load(job->folder, i % 2 ? "frag" : "allo", job->lists[i / 2],
				   &published[i * PUBLISHED_POLICIES], why);
	return r;
}

int replay_job_run(const struct replay_job *job, struct replay_results *ret_results,
		   struct fault *why)
{
	size_t all = job->lists_size * job->policies_size * job->seeds, done = 0;
	owned(free) struct openb_curve *curves = calloc(all, sizeof(*curves));
	owned(free) struct departures_outcome *outcomes = calloc(all, sizeof(*outcomes));
	owned(free) struct published *published =
		calloc(2 * job->lists_size * PUBLISHED_POLICIES, sizeof(*published));
	struct replay_results results = {.job = job, .curves = curves, .outcomes = outcomes};
	int r;

	if (!curves || !outcomes || !published)
		return fault_set(why, -ENOMEM, "out of memory");
	r = load_published(job, published, why);
	for (size_t i = 0; i < job->lists_size && r == 0; i++)
		r = run_list(job, i, &results, &done, why);
	if (job->progress && isatty(fileno(job->progress)))
		fputs("\r\033[K", job->progress);
	if (r < 0)
		return r;
	*ret_results = (struct replay_results){
		.job = job,
		.curves = job->departures ? NULL : take(curves),
		.outcomes = job->departures ? take(outcomes) : NULL,
		.published = job->departures ? NULL : take(published),
	};
	return 0;
}

void replay_results_done(struct replay_results *results)
{
	free(results->curves);
	free(results->outcomes);
	free(results->published);
	results->published = NULL;
	results->curves = NULL;
	results->outcomes = NULL;
}

const struct openb_curve *replay_curve(const struct replay_results *results, size_t list,
				       size_t policy, size_t seed)
{
	const struct replay_job *job = results->job;

	return &results->curves[(list * job->policies_size + policy) * job->seeds + seed];
}

const struct departures_outcome *replay_outcome(const struct replay_results *results, size_t list,
						size_t policy, size_t seed)
{
	const struct replay_job *job = results->job;

	return &results->outcomes[(list * job->policies_size + policy) * job->seeds + seed];
}

const struct published *replay_published(const struct replay_results *results, size_t list,
					 bool stranded, int policy)
{
	const struct published *it =
		&results->published[(2 * list + stranded) * PUBLISHED_POLICIES + (size_t)policy];

	return it->seeds ? it : NULL;
}
