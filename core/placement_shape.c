/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions. A shape is a request that was asked before: its score on each node, and the best of
 * each block of nodes. Asking again costs the nodes that changed since, and a look at the blocks.
 */
#include "core/placement_machine.h"

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
	for (int i = 0; i < request->containers; i++) {
		const struct placement_container *it = &request->container[i];

		hash = mix(mix(hash, it->memory_bytes), it->host_memory_bytes);
		hash = mix(hash, (uint64_t)it->cpu_milli << 32 | it->compute_milli);
		hash = mix(hash, (uint64_t)it->profile << 32 | (uint32_t)it->devices << 16 |
					 (uint32_t)it->kind << 8 | it->exclusive);
	}
	return hash;
}

static int32_t score_node(struct placement *p, struct placement_shape *shape, uint32_t node)
{
	bool in_full = p->tries >= PLACEMENT_TRIES;
	struct placement_assignment assignment;
	int32_t score;

	if (!placement_may_fit(p, node, &shape->needs))
		return INT32_MIN;
	if (placement_assign(p, &p->hosts[node], node, &shape->request, 0, &assignment, &score) ==
	    0)
		return score;
	if (!in_full && node < shape->cut)
		shape->cut = node;
	return INT32_MIN;
}

static void find_top(struct placement_shape *shape, uint32_t block)
{
	const int32_t *row = shape->scores + (size_t)block * PLACEMENT_BLOCK;
	int32_t best = INT32_MIN;

	for (int i = 0; i < PLACEMENT_BLOCK; i++)
		best = row[i] > best ? row[i] : best;
	shape->tops[block] = best;
}

/* Empty nodes of which a score is known. A cluster that is not full has many, and few kinds. */
struct empties {
	uint32_t node[32];
	int size;
};

static bool same_empty(const struct placement_host *a, const struct placement_host *b)
{
	if (a->cpu != b->cpu || a->memory_bytes != b->memory_bytes || a->model != b->model ||
	    a->devices != b->devices || a->cordoned != b->cordoned)
		return false;
	for (int i = 0; i < a->devices; i++)
		if (!placement_same_gpu(&a->gpu[i], &b->gpu[i]))
			return false;
	return true;
}

/* An earlier node that is looked at like this one; or this one, from now on. */
static uint32_t like_another(const struct placement *p, struct empties *empties, uint32_t node)
{
	const struct placement_host *host = &p->hosts[node];

	if (!host->present || host->pods)
		return node;
	for (int i = 0; i < empties->size; i++)
		if (same_empty(host, &p->hosts[empties->node[i]]))
			return empties->node[i];
	if (empties->size < (int)ARRAY_SIZE(empties->node))
		empties->node[empties->size++] = node;
	return node;
}

static void look_everywhere(struct placement *p, struct placement_shape *shape)
{
	bool anywhere = shape->request.node == PLACEMENT_ANYWHERE;

	struct empties empties = {.size = 0};

	shape->cut = UINT32_MAX;
	for (uint32_t i = 0; i < p->row_size; i++) {
		uint32_t like = i;

		if (i < p->node_end && anywhere)
			like = like_another(p, &empties, i);
		if (i >= p->node_end)
			shape->scores[i] = INT32_MIN;
		else if (like != i && shape->scores[like] != INT32_MIN)
			shape->scores[i] = shape->scores[like];
		else
			shape->scores[i] = score_node(p, shape, i);
	}
	for (uint32_t i = 0; i < p->blocks; i++)
		find_top(shape, i);
}

static void look_at_changes(struct placement *p, struct placement_shape *shape)
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
}

/* Where the choices of a decision did not do for all nodes those of the next one go on. */
static void look_further(struct placement *p, struct placement_shape *shape)
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
	if (!shape->live || p->change - shape->seen >= p->limits.nodes)
		look_everywhere(p, shape);
	else
		look_at_changes(p, shape);
	if (shape->cut < p->node_end)
		look_further(p, shape);
	shape->live = true;
	shape->seen = p->change;
	shape->used = ++p->use;
}

static bool same_container(const struct placement_container *a, const struct placement_container *b)
{
	return a->memory_bytes == b->memory_bytes && a->host_memory_bytes == b->host_memory_bytes &&
	       a->cpu_milli == b->cpu_milli && a->compute_milli == b->compute_milli &&
	       a->profile == b->profile && a->devices == b->devices && a->kind == b->kind &&
	       a->exclusive == b->exclusive;
}

static bool same_request(const struct placement_request *a, const struct placement_request *b)
{
	if (a->containers != b->containers)
		return false;
	for (int i = 0; i < a->containers; i++)
		if (!same_container(&a->container[i], &b->container[i]))
			return false;
	return a->models == b->models && a->tolerations == b->tolerations &&
	       a->named_devices == b->named_devices && a->node == b->node && a->class == b->class &&
	       a->numa == b->numa && a->links == b->links;
}

static struct placement_shape *find_shape(struct placement *p,
					  const struct placement_request *request)
{
	uint64_t hash = hash_of(request);
	struct placement_shape *oldest = &p->shapes[0];

	/* A few hundred hashes in a row are read faster than a table is kept. */
	for (uint32_t i = 0; i < p->limits.shapes; i++)
		if (p->hashes[i] == hash && same_request(&p->shapes[i].request, request))
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

/* No node has as many free GPUs as one container wants for itself: known without a look at any. */
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
	/* Never refused: the score says that it fits. */
	p->tries = PLACEMENT_TRIES_ALL;
	return placement_assign(p, &p->hosts[node], node, request, 0, &ret_decision->assignment,
				&ret_decision->score);
}
