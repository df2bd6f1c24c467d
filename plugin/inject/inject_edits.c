/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/inject/inject_edits.h"

#include <string.h>

#include "base/place.h"

int edits_text(char **field, const char *text)
{
	*field = strdup(text);
	return *field ? 0 : -ENOMEM;
}

int edits_mount(struct inject_edits *edits, const char *from, const char *to, bool writable)
{
	struct inject_mount *mount = &edits->mount[edits->mounts];

	if (edits->mounts == INJECT_EDITS_MAX)
		return -E2BIG;
	edits->mounts++;
	mount->writable = writable;
	return edits_text(&mount->from, from) < 0 || edits_text(&mount->to, to) < 0 ? -ENOMEM : 0;
}

int edits_node(struct inject_edits *edits, const char *from, const char *to)
{
	struct inject_node *node = &edits->node[edits->nodes];

	if (edits->nodes == INJECT_EDITS_MAX)
		return -E2BIG;
	edits->nodes++;
	return edits_text(&node->from, from) < 0 || edits_text(&node->to, to) < 0 ? -ENOMEM : 0;
}

int edits_env(struct inject_edits *edits, const char *name, const char *value)
{
	struct inject_env *env = &edits->env[edits->envs];

	if (edits->envs == INJECT_ENV_MAX)
		return -E2BIG;
	edits->envs++;
	return edits_text(&env->name, name) < 0 || edits_text(&env->value, value) < 0 ? -ENOMEM : 0;
}

int edits_fault(int error, struct fault *why)
{
	return fault_set(why, error, "a container's edits: %s",
			 error == -ENOMEM ? "out of memory" : "there are too many of them");
}

int edits_slot(struct inject_edits *edits, const struct inject_slot *slot)
{
	int r = edits_mount(edits, slot->folder, PLACE_SYSTEM, false);

	for (uint32_t i = 0; r == 0 && i < slot->node_count; i++)
		r = edits_node(edits, slot->nodes[i].from, slot->nodes[i].to);
	if (r == 0 && slot->visible)
		r = edits_env(edits, "CUDA_VISIBLE_DEVICES", slot->visible);
	return r;
}

int edits_copy(const struct inject_edits *edits, struct inject_edits **ret_edits)
{
	owned(inject_free) struct inject_edits *copy = calloc(1, sizeof(*copy));
	int r = copy ? 0 : -ENOMEM;

	for (uint32_t i = 0; r == 0 && i < edits->mounts; i++)
		r = edits_mount(copy, edits->mount[i].from, edits->mount[i].to,
				edits->mount[i].writable);
	for (uint32_t i = 0; r == 0 && i < edits->nodes; i++)
		r = edits_node(copy, edits->node[i].from, edits->node[i].to);
	for (uint32_t i = 0; r == 0 && i < edits->envs; i++)
		r = edits_env(copy, edits->env[i].name, edits->env[i].value);
	if (r == 0 && edits->hook)
		r = edits_text(&copy->hook, edits->hook);
	if (r == 0 && edits->preload)
		r = edits_text(&copy->preload, edits->preload);
	if (r < 0)
		return r;
	*ret_edits = take(copy);
	return 0;
}

void inject_free(struct inject_edits *edits)
{
	if (!edits)
		return;
	for (uint32_t i = 0; i < edits->mounts; i++) {
		free(edits->mount[i].from);
		free(edits->mount[i].to);
	}
	for (uint32_t i = 0; i < edits->nodes; i++) {
		free(edits->node[i].from);
		free(edits->node[i].to);
	}
	for (uint32_t i = 0; i < edits->envs; i++) {
		free(edits->env[i].name);
		free(edits->env[i].value);
	}
	free(edits->hook);
	free(edits->preload);
	free(edits);
}
