/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sharing.mps of a file without `mete`. As with NVIDIA's plugin (v0.20), it overrides timeSlicing,
 * needs a root for its folders, cannot be combined with parts of GPUs, and gives a container one
 * replica unless the file says otherwise. The memory of a replica is also the tenant's limit.
 */
#include <string.h>

#include "plugin/config/config_read.h"
#include "plugin/config/portion.h"

static const char rows[] = "sharing.mps.resources";

static int take_row(struct config_read *read, const struct document_node *resource,
		    unused void *owner)
{
	struct config_as_nvidia *alone = &read->config->as_nvidia;
	uint32_t replicas;
	int r = config_check_row(read, resource, "sharing.mps.resources[]", &replicas);

	if (r < 0)
		return r;
	if (!config_is_gpu(resource))
		return config_warn(read, resource->line,
				   "this node offers only nvidia.com/gpu by MPS");
	/* The last row counts. */
	if (alone->mps)
		r = config_warn(read, resource->line,
				"nvidia.com/gpu has a row already, which is ignored");
	alone->mps = true;
	alone->replicas = replicas;
	return r;
}

/* If no row names a GPU, nothing is shared. */
static int take_rows(struct config_read *read, const struct document_node *list)
{
	size_t before = config_enter(read, "%s", rows);
	int r = config_each_row(read, list, take_row, NULL);

	if (r == 0)
		config_leave(read, before);
	return r;
}

static int take_root(struct config_read *read, uint32_t line)
{
	struct config_as_nvidia *alone = &read->config->as_nvidia;
	int r = config_take_folder(read, "flags.mpsRoot", &alone->mps_root);

	read->from = NULL;
	if (r == 0 && alone->mps_root && strlen(alone->mps_root) > CONFIG_MPS_ROOT_MAX) {
		best_effort(config_enter(read, "flags.mpsRoot"));
		return config_wrong(read, line,
				    "this has more than %d bytes: MPS's sockets below it would be "
				    "too long; accepted: a shorter path",
				    CONFIG_MPS_ROOT_MAX);
	}
	if (r < 0 || alone->mps_root)
		return r;
	best_effort(config_enter(read, "sharing.mps"));
	return config_wrong(read, line,
			    "flags.mpsRoot is missing; accepted: a folder of the host in which "
			    "MPS's pipes and logs are kept, as /run/nvidia/mps");
}

/* mete's own key: whether each GPU or each container has a control daemon. */
static int take_daemons(struct config_read *read)
{
	static const char *const words[] = {"gpu", "container"};
	uint32_t word;
	int r = config_take_word(read, "sharing.mps.daemonPer", words, ARRAY_SIZE(words),
				 "gpu or container", &word);

	read->config->as_nvidia.mps_apart = word == 1;
	return r;
}

/* mete's own key, too: without namespaces, though the driver has them; or not without. */
static int take_protocol(struct config_read *read)
{
	static const char *const words[] = {
		[CONFIG_MPS_NEWEST] = "newest", [CONFIG_MPS_OLDER] = "2", [CONFIG_MPS_NEWER] = "3"};
	uint32_t word;
	int r = config_take_word(read, "sharing.mps.protocol", words, ARRAY_SIZE(words),
				 "newest, 2 or 3", &word);

	read->config->as_nvidia.mps_protocol = (enum config_mps_protocol)word;
	return r;
}

static int take_limits(struct config_read *read)
{
	struct config_as_nvidia *alone = &read->config->as_nvidia;
	const struct document_node *one;
	char memory[16];
	int r = config_setting(read, "sharing.mps.failRequestsGreaterThanOne", &one);

	alone->one_only = true;
	if (r == 0 && one)
		r = config_take_switch(read, "sharing.mps.failRequestsGreaterThanOne",
				       &alone->one_only);
	snprintf(memory, sizeof(memory), "1/%u", alone->replicas);
	return r == 0 ? config_keep(read, memory, &read->config->share.texts[PORTION_memory]) : r;
}

static int take_settings(struct config_read *read)
{
	int r = take_daemons(read);

	if (r == 0)
		r = take_protocol(read);
	return r == 0 ? take_limits(read) : r;
}

int config_take_mps(struct config_read *read)
{
	struct config_as_nvidia *alone = &read->config->as_nvidia;
	const struct document_node *list, *slicing = NULL;
	int r = config_find_rows(read, "sharing.mps", &list);

	if (r < 0 || !list)
		return r;
	/* Time slices do not count beside it, whichever resources it names. */
	alone->replicas = alone->kinds = 0;
	r = config_take_switch(read, "sharing.mps.renameByDefault", &alone->renamed);
	if (r == 0)
		r = take_rows(read, list);
	if (r < 0)
		return r;
	if (config_mig_names_kinds(alone->mig)) {
		best_effort(config_enter(read, "sharing.mps"));
		return config_wrong(read, list->line,
				    "MPS does not go with migStrategy: %s; accepted: none or "
				    "single",
				    alone->mig == CONFIG_MIG_DYNAMIC ? "dynamic" : "mixed");
	}
	r = take_root(read, list->line);
	if (r == 0 && alone->mps)
		r = take_settings(read);
	if (r == 0)
		r = config_setting(read, "sharing.timeSlicing.resources", &slicing);
	if (r < 0 || !slicing || !slicing->first)
		return r;
	return config_warn(read, slicing->line,
			   "sharing.timeSlicing is ignored beside sharing.mps, as by NVIDIA's "
			   "plugin");
}
