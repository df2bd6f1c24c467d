/* SPDX-License-Identifier: Apache-2.0 */
/* The audit: the books anew from the pods, remembered scores anew from the books. */
#include "core/placement/placement_machine.h"

/* The node without its pods, then with them again: the same books? */
static bool adds_up(const struct placement *p, const struct placement_host *host)
{
	struct placement_host anew;
	uint32_t pods = 0;

	placement_copy_host(&anew, host);
	placement_rebuild(p, &anew);
	for (int32_t i = host->first_pod; i >= 0; i = p->pods[i].next)
		pods++;
	for (int i = 0; i < host->devices; i++)
		if (!placement_same_gpu(&anew.gpu[i], &host->gpu[i]) ||
		    anew.gpu[i].overlap != host->gpu[i].overlap)
			return false;
	return pods == host->pods && anew.cpu_used == host->cpu_used &&
	       anew.memory_used == host->memory_used &&
	       memcmp(anew.kinds, host->kinds, sizeof(host->kinds)) == 0;
}

/* A remembered score is the one that a new computation gives, unless the node changed since. */
static bool remembered(struct placement *p, const struct placement_shape *shape, uint32_t node)
{
	struct placement_host *host = &p->hosts[node];
	struct placement_assignment assignment;
	int32_t score = INT32_MIN;

	if (!shape->live || node >= shape->cut || host->changed > shape->seen)
		return true;
	host->measured.known = false;
	p->tries = PLACEMENT_TRIES_ALL;
	if (!host->present ||
	    placement_assign(p, host, node, &shape->request, 0, &assignment, &score) < 0)
		score = INT32_MIN;
	return score == shape->scores[node] && score <= shape->tops[node / PLACEMENT_BLOCK];
}

int placement_audit(struct placement *p, uint32_t *ret_node)
{
	*ret_node = 0;
	if (!placement_ends_add_up(p))
		return -EILSEQ;
	for (uint32_t node = 0; node < p->node_end; node++) {
		const struct placement_host *host = &p->hosts[node];

		*ret_node = node;
		if (host->present && (!adds_up(p, host) || !placement_over_known(p, host)))
			return -EILSEQ;
		for (uint32_t i = 0; i < p->limits.shapes && !placement_stale(p); i++)
			if (!remembered(p, &p->shapes[i], node))
				return -EILSEQ;
	}
	return 0;
}
