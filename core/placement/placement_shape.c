/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions. A shape is a request that was asked before: its score on each node, and the best of
 * each block of nodes. Asking again costs the nodes that changed since, and a pass over the blocks.
 */
#include "core/placement/placement_machine.h"

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15;
	return hash ^ hash >> 29;
}

static uint64_t hash_of(const struct placement_request *request)
{
	uint64_t hash = mix(1, request->models);

	hash = mix(hash, (uint64_t)request->tolerations << 32 | request->named_devices);
	hash = mix(hash, (uint64_t)(uint32_t)request->node << 32 | (uint32_t)request->class << 16 |
				 (uint32_t)request->numa << 8 | request->links);
	hash = mix(mix(hash, request->prefers),
		   (uint64_t)request->avoids << 16 | (uint32_t)request->stays << 8 | request->way);
	for (int i = 0; i < request->containers; i++) {
		const struct placement_container *it = &request->container[i];

		hash = mix(mix(hash, it->memory_bytes), it->host_memory_bytes);
		hash = mix(hash, (uint64_t)it->cpu_milli << 32 | it->compute_milli);
		hash = mix(hash, (uint64_t)it->profile << 32 | (uint32_t)it->devices << 16 |
					 (uint32_t)it->kind << 8 | it->exclusive);
	}
	return hash;
}

/* A node that may fit. */
static int32_t score_fitting(struct placement *p, struct placement_shape *shape, uint32_t node)
{
	bool in_full = p->tries >= PLACEMENT_TRIES;
	struct placement_assignment assignment;
	int32_t score;

	if (shape->simple && p->briefs[node].known)
		return placement_quick(p, node, &shape->request, &assignment, &score) ? score
										      : INT32_MIN;
	if (placement_assign(p, &p->hosts[node], node, &shape->request, 0, &assignment, &score) ==
	    0)
		return score;
	if (!in_full && node < shape->cut)
		shape->cut = node;
	return INT32_MIN;
}

static int32_t score_node(struct placement *p, struct placement_shape *shape, uint32_t node)
{
	return placement_may_fit(p, node, &shape->needs) ? score_fitting(p, shape, node)
							 : INT32_MIN;
}

static void find_top(struct placement_shape *shape, uint32_t block)
{
	const int32_t *row = shape->scores + (size_t)block * PLACEMENT_BLOCK;
	int32_t best = INT32_MIN;

	for (int i = 0; i < PLACEMENT_BLOCK; i++)
		best = row[i] > best ? row[i] : best;
	shape->tops[block] = best;
}

static void score_changes(struct placement *p, struct placement_shape *shape);
static bool same_request(const struct placement_request *a, const struct placement_request *b,
			 bool but_memory);

/* A shape that differs in nothing but the memory that it wants of the host, which no policy reads:
 * where both fit they score the same. NULL: there is none. */
static struct placement_shape *find_twin(struct placement *p, const struct placement_shape *shape)
{
	for (uint32_t i = 0; i < p->limits.shapes && shape->simple; i++) {
		struct placement_shape *it = &p->shapes[i];

		if (it != shape && it->live && it->simple &&
		    p->change - it->seen < p->limits.nodes &&
		    same_request(&it->request, &shape->request, true))
			return it;
	}
	return NULL;
}

/* Where the twin fits it is known how good that is; where it does not, a larger one fits neither.
 */
static bool score_by_twin(const struct placement *p, const struct placement_shape *twin,
			  struct placement_shape *shape, uint32_t node)
{
	uint64_t memory = shape->request.container[0].host_memory_bytes;
	bool fits = twin->scores[node] != INT32_MIN;

	if (!fits && twin->request.container[0].host_memory_bytes > memory)
		return false;
	if (!fits || memory > p->briefs[node].host_memory)
		shape->scores[node] = INT32_MIN;
	else
		shape->scores[node] = twin->scores[node];
	return true;
}

/* In a scan of all nodes: those that are alike are scored once. */
static int32_t score_once(struct placement *p, struct placement_shape *shape, uint32_t node)
{
	const struct placement_brief *brief = &p->briefs[node];
	uint32_t first;

	if (!shape->simple || !brief->known || p->config.policy == PLACEMENT_CLUSTERING)
		return score_fitting(p, shape, node);
	if (shape->request.container[0].host_memory_bytes > brief->host_memory)
		return INT32_MIN;
	first = placement_alike(p, node);
	return first == node ? score_fitting(p, shape, node) : shape->scores[first];
}

/* A cluster that is not full has many empty nodes, and few makes of them. */
static void score_everywhere(struct placement *p, struct placement_shape *shape)
{
	bool anywhere = shape->request.node == PLACEMENT_ANYWHERE;
	struct placement_shape *twin = find_twin(p, shape);
	int32_t known[PLACEMENT_MAKES];

	for (int i = 0; i < PLACEMENT_MAKES; i++)
		known[i] = INT32_MIN;
	shape->cut = UINT32_MAX;
	p->scan++;
	if (twin)
		score_changes(p, twin);
	for (uint32_t i = 0; i < p->node_end; i++) {
		const struct placement_glance *glance = &p->glances[i];
		uint8_t make = anywhere && glance->empty ? glance->make : 0;

		if (!placement_may_fit(p, i, &shape->needs)) {
			shape->scores[i] = INT32_MIN;
			continue;
		}
		if (twin && score_by_twin(p, twin, shape, i))
			continue;
		shape->scores[i] = known[make] != INT32_MIN ? known[make] : score_once(p, shape, i);
		if (make)
			known[make] = shape->scores[i];
	}
	for (uint32_t i = p->node_end; i < p->row_size; i++)
		shape->scores[i] = INT32_MIN;
	for (uint32_t i = 0; i < p->blocks; i++)
		find_top(shape, i);
}

static void score_changes(struct placement *p, struct placement_shape *shape)
{
	uint64_t refresh = ++p->refresh;

	for (uint64_t c = shape->seen + 1; c <= p->change; c++) {
		uint32_t node = p->changes[c % p->limits.nodes];
		int32_t *score = &shape->scores[node], old = *score;
		uint32_t block = node / PLACEMENT_BLOCK;

		if (p->marks[node] == refresh)
			continue;
		p->marks[node] = refresh;
		*score = score_node(p, shape, node);
		if (*score > shape->tops[block])
			shape->tops[block] = *score;
		else if (*score < old && old == shape->tops[block])
			find_top(shape, block);
	}
	shape->seen = p->change;
}

/* If a decision's choices did not suffice for all nodes, those of the next one go on. */
static void score_further(struct placement *p, struct placement_shape *shape)
{
	uint32_t node = shape->cut;

	for (; node < p->node_end && p->tries >= PLACEMENT_TRIES; node++) {
		if (shape->scores[node] != INT32_MIN)
			continue;
		shape->scores[node] = score_node(p, shape, node);
		if (shape->scores[node] > shape->tops[node / PLACEMENT_BLOCK])
			shape->tops[node / PLACEMENT_BLOCK] = shape->scores[node];
	}
	shape->cut = node < p->node_end ? node : UINT32_MAX;
}

static void bring_up_to_date(struct placement *p, struct placement_shape *shape)
{
	placement_weigh(p);
	p->tries = PLACEMENT_TRIES_ALL;
	shape->simple = placement_is_simple(p, &shape->request);
	if (!shape->live || p->change - shape->seen >= p->limits.nodes)
		score_everywhere(p, shape);
	else
		score_changes(p, shape);
	if (shape->cut < p->node_end)
		score_further(p, shape);
	shape->live = true;
	shape->seen = p->change;
	shape->used = ++p->use;
}

static bool same_container(const struct placement_container *a, const struct placement_container *b,
			   bool but_memory)
{
	return a->memory_bytes == b->memory_bytes &&
	       (but_memory || a->host_memory_bytes == b->host_memory_bytes) &&
	       a->cpu_milli == b->cpu_milli && a->compute_milli == b->compute_milli &&
	       a->profile == b->profile && a->devices == b->devices && a->kind == b->kind &&
	       a->exclusive == b->exclusive;
}

static bool same_request(const struct placement_request *a, const struct placement_request *b,
			 bool but_memory)
{
	if (a->containers != b->containers)
		return false;
	for (int i = 0; i < a->containers; i++)
		if (!same_container(&a->container[i], &b->container[i], but_memory))
			return false;
	return a->models == b->models && a->tolerations == b->tolerations &&
	       a->named_devices == b->named_devices && a->node == b->node && a->class == b->class &&
	       a->numa == b->numa && a->links == b->links && a->prefers == b->prefers &&
	       a->avoids == b->avoids && a->way == b->way && a->stays == b->stays;
}

static struct placement_shape *find_shape(struct placement *p,
					  const struct placement_request *request)
{
	uint64_t hash = hash_of(request);
	struct placement_shape *oldest = &p->shapes[0];

	/* A few hundred hashes in a row are read faster than a table is kept. */
	for (uint32_t i = 0; i < p->limits.shapes; i++)
		if (p->hashes[i] == hash && same_request(&p->shapes[i].request, request, false))
			return &p->shapes[i];
	for (uint32_t i = 0; i < p->limits.shapes; i++)
		if (p->shapes[i].used < oldest->used)
			oldest = &p->shapes[i];
	oldest->request = *request;
	placement_needs_of(request, &oldest->needs);
	oldest->live = false;
	p->hashes[oldest - p->shapes] = hash;
	return oldest;
}

int placement_scores(struct placement *p, const struct placement_request *request,
		     const int32_t **ret_scores, uint32_t *ret_size)
{
	struct placement_shape *shape;

	if (placement_valid(request) < 0)
		return -EINVAL;
	shape = find_shape(p, request);
	bring_up_to_date(p, shape);
	*ret_scores = shape->scores;
	*ret_size = p->node_end;
	return 0;
}

/* No node has as many free GPUs as one container wants for itself: known without a test of any. */
static bool hopeless(const struct placement *p, const struct placement_request *request)
{
	int wanted = 0;

	for (int i = 0; i < request->containers; i++) {
		const struct placement_container *it = &request->container[i];

		if (it->exclusive && it->kind == PLACEMENT_APP && it->devices > wanted)
			wanted = it->devices;
	}
	for (int i = wanted; i <= PLACEMENT_DEVICES; i++)
		if (p->empties[i])
			return false;
	return true;
}

int placement_decide(struct placement *p, const struct placement_request *request,
		     struct placement_decision *ret_decision)
{
	struct placement_shape *shape;
	uint32_t block = 0, node;

	if (placement_valid(request) < 0)
		return -EINVAL;
	if (hopeless(p, request))
		return PLACEMENT_NOWHERE;
	shape = find_shape(p, request);
	bring_up_to_date(p, shape);
	for (uint32_t i = 1; i < p->blocks; i++)
		if (shape->tops[i] > shape->tops[block])
			block = i;
	if (shape->tops[block] == INT32_MIN)
		return PLACEMENT_NOWHERE;
	node = block * PLACEMENT_BLOCK;
	while (shape->scores[node] != shape->tops[block])
		node++;
	ret_decision->node = node;
	if (shape->simple && p->briefs[node].known &&
	    placement_quick(p, node, request, &ret_decision->assignment, &ret_decision->score))
		return 0;
	/* Never refused: the score says that it fits. */
	p->tries = PLACEMENT_TRIES_ALL;
	return placement_assign(p, &p->hosts[node], node, request, 0, &ret_decision->assignment,
				&ret_decision->score);
}
