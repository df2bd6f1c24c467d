/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's memory, its nodes and how it is configured.
 */
#include "core/placement/placement_machine.h"

static const char *const policy_names[] = {
#define POLICY(name, spelling, within, what) spelling,
#include "core/placement/placement_policies.def"
#undef POLICY
};

static const char *const reason_texts[] = {
	"it fits",
#define REASON(name, sentence) sentence,
#include "core/placement/placement_reasons.def"
#undef REASON
};

const char *placement_policy_name(enum placement_policy policy)
{
	return (unsigned)policy < ARRAY_SIZE(policy_names) ? policy_names[policy] : "unknown";
}

const char *placement_reason_text(enum placement_reason reason)
{
	return (unsigned)reason < ARRAY_SIZE(reason_texts) ? reason_texts[reason] : "unknown";
}

int placement_policy_parse(const char *spelling, enum placement_policy *ret_policy)
{
	for (size_t i = 0; i < ARRAY_SIZE(policy_names); i++) {
		if (strcmp(spelling, policy_names[i]) == 0) {
			*ret_policy = (enum placement_policy)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* Hands out the caller's memory piece by piece; without memory it only counts. */
struct pieces {
	char *memory;
	size_t used;
};

static void *piece(struct pieces *all, size_t count, size_t size)
{
	size_t at = all->used;

	all->used += (count * size + 15) & ~(size_t)15;
	return all->memory ? all->memory + at : NULL;
}

static uint32_t blocks_of(const struct placement_limits *limits)
{
	return (limits->nodes + PLACEMENT_BLOCK - 1) / PLACEMENT_BLOCK;
}

static void lay_out_asks(struct placement *p, struct pieces *all, size_t row)
{
	p->asks.cpu = piece(all, row, sizeof(*p->asks.cpu));
	p->asks.per_cpu = piece(all, row, sizeof(*p->asks.per_cpu));
	p->asks.free_cpu = piece(all, row, sizeof(*p->asks.free_cpu));
	p->asks.usual = piece(all, row, sizeof(*p->asks.usual));
	p->asks.fits = piece(all, row * PLACEMENT_LOW_STEPS, sizeof(*p->asks.fits));
	p->rooms_now = piece(all, row, sizeof(*p->rooms_now));
	p->supply = piece(all, PLACEMENT_MODELS * row, sizeof(*p->supply));
	p->prices = piece(all, PLACEMENT_MODELS * row, sizeof(*p->prices));
}

static struct placement lay_out(struct pieces *all, const struct placement_limits *l)
{
	struct placement p = {.limits = *l, .blocks = blocks_of(l)};

	p.row_size = p.blocks * PLACEMENT_BLOCK;
	(void)piece(all, 1, sizeof(p));
	p.hosts = piece(all, l->nodes, sizeof(*p.hosts));
	p.pods = piece(all, l->pods, sizeof(*p.pods));
	p.ending = piece(all, l->pods, sizeof(*p.ending));
	p.charges = piece(all, l->charges, sizeof(*p.charges));
	p.shapes = piece(all, l->shapes, sizeof(*p.shapes));
	p.hashes = piece(all, l->shapes, sizeof(*p.hashes));
	p.rows = piece(all, (size_t)l->shapes * (p.row_size + p.blocks), sizeof(*p.rows));
	p.changes = piece(all, l->nodes, sizeof(*p.changes));
	p.marks = piece(all, l->nodes, sizeof(*p.marks));
	p.glances = piece(all, l->nodes, sizeof(*p.glances));
	p.briefs = piece(all, l->nodes, sizeof(*p.briefs));
	p.noted = piece(all, l->steps, sizeof(*p.noted));
	p.learned = piece(all, l->typicals, sizeof(*p.learned));
	p.usuals = piece(all, l->typicals, sizeof(*p.usuals));
	p.cpu_steps = piece(all, l->typicals, sizeof(*p.cpu_steps));
	p.remainders = piece(all, PLACEMENT_LOW_STEPS * PLACEMENT_TOP_STEPS, sizeof(*p.remainders));
	p.weights = piece(all, PLACEMENT_MODELS * placement_cells(l), sizeof(*p.weights));
	p.sums = piece(all, PLACEMENT_MODELS * placement_cells(l), sizeof(*p.sums));
	p.order = piece(all, l->typicals, sizeof(*p.order));
	lay_out_asks(&p, all, placement_ask_row(l));
	return p;
}

static bool sane(const struct placement_limits *l)
{
	return l->nodes > 0 && l->nodes < 1u << 24 && l->pods > 0 && l->pods < 1u << 30 &&
	       l->charges > 0 && l->charges < 1u << 30 && l->shapes > 0 && l->shapes < 1u << 16 &&
	       l->typicals < 1u << 12 && l->steps < 1u << 30;
}

size_t placement_size(const struct placement_limits *limits)
{
	struct pieces all = {0};

	if (!sane(limits))
		return 0;
	(void)lay_out(&all, limits);
	return all.used;
}

int placement_init(void *memory, size_t size, const struct placement_limits *limits,
		   struct placement **ret_placement)
{
	struct pieces all = {memory, 0};
	struct placement *p = memory;

	if (!memory || (uintptr_t)memory % 8 || !sane(limits) || size < placement_size(limits))
		return -EINVAL;
	memset(memory, 0, placement_size(limits));
	*p = lay_out(&all, limits);
	for (uint32_t i = 0; i < limits->pods; i++)
		p->pods[i].next = i + 1 < limits->pods ? (int32_t)i + 1 : PLACEMENT_NONE;
	for (uint32_t i = 0; i < limits->charges; i++)
		p->charges[i].next = i + 1 < limits->charges ? (int32_t)i + 1 : PLACEMENT_NONE;
	for (uint32_t i = 0; i < limits->shapes; i++) {
		p->shapes[i].scores = p->rows + (size_t)i * (p->row_size + p->blocks);
		p->shapes[i].tops = p->shapes[i].scores + p->row_size;
	}
	p->most_cpu = p->most_gpu = 1;
	placement_find_fades(p);
	*ret_placement = p;
	return placement_configure(p, &(struct placement_config){.policy = PLACEMENT_FORESIGHT});
}

/* Of both kinds, for each class; 0 stands for none. */
static bool are_factors(const uint32_t *const given[2])
{
	for (int which = 0; which < 2; which++)
		for (int i = 0; i < PLACEMENT_CLASSES; i++)
			if (given[which][i] &&
			    (given[which][i] < 1000 || given[which][i] > 1000000))
				return false;
	return true;
}

static void set_factors(struct placement *p, const uint32_t *const given[2])
{
	p->plain = true;
	p->low = p->top = 0;
	for (int i = 0; i < PLACEMENT_CLASSES; i++) {
		for (int which = 0; which < 2; which++) {
			p->factors[which][i] = given[which][i] ? given[which][i] : 1000;
			p->plain &= p->factors[which][i] == 1000;
		}
		p->level[i] = (uint8_t)i;
		for (int j = i - 1; j >= 0; j--)
			if (p->factors[0][j] == p->factors[0][i] &&
			    p->factors[1][j] == p->factors[1][i])
				p->level[i] = (uint8_t)j;
		if (p->factors[0][i] < p->factors[0][p->low])
			p->low = p->level[i];
		if (p->factors[0][i] > p->factors[0][p->top])
			p->top = p->level[i];
	}
	p->surplus = (int32_t)p->factors[0][p->top] - 1000;
}

int placement_configure(struct placement *p, const struct placement_config *config)
{
	const uint32_t *const given[2] = {config->compute_factor_milli,
					  config->memory_factor_milli};

	if (p->on_trial)
		return -EBUSY;
	if ((unsigned)config->policy >= PLACEMENT_POLICIES || !are_factors(given))
		return -EINVAL;
	p->config = *config;
	set_factors(p, given);
	p->usual_stale = p->lost_stale = true;
	for (uint32_t i = 0; i < p->node_end; i++) {
		struct placement_host *host = &p->hosts[i];

		if (!host->present)
			continue;
		placement_count(p, host, -1);
		placement_find_over(p, host);
		placement_count(p, host, 1);
	}
	placement_changed_all(p);
	return 0;
}

static bool sane_profile(const struct placement_profile *it)
{
	if (!it->starts || !it->size || it->size > 16)
		return false;
	return (uint64_t)it->starts << it->size >> 33 == 0;
}

int placement_geometry(struct placement *p, const struct placement_profile *profiles, size_t size,
		       uint8_t *ret_geometry)
{
	if (size == 0 || size > PLACEMENT_PROFILES)
		return -EINVAL;
	for (size_t i = 0; i < size; i++)
		if (!sane_profile(&profiles[i]))
			return -EINVAL;
	if (p->geometries == PLACEMENT_GEOMETRIES)
		return -ENOSPC;
	p->geometry[++p->geometries].size = (uint8_t)size;
	memcpy(p->geometry[p->geometries].profile, profiles, size * sizeof(*profiles));
	*ret_geometry = p->geometries;
	return 0;
}

static void count_node(struct placement *p, const struct placement_host *host, int sign)
{
	placement_count(p, host, sign);
	p->totals.compute_milli += (uint64_t)(sign * placement_milli(host));
	p->model_milli[host->model] += (uint64_t)(sign * placement_milli(host));
	p->totals.devices += (uint32_t)(sign * host->devices);
	p->totals.nodes += (uint32_t)sign;
	p->turnover += host->devices;
}

static bool sane_node(const struct placement *p, const struct placement_node *node)
{
	if (node->devices > PLACEMENT_DEVICES || node->model >= PLACEMENT_MODELS)
		return false;
	for (int i = 0; i < node->devices; i++)
		if (node->device[i].geometry > p->geometries ||
		    node->device[i].compute_milli > 1000000 || node->device[i].memory_bytes >> 56)
			return false;
	return true;
}

/* Member by member: GPUs are compared as bytes, so that padding must stay as it is. */
static void copy_device(struct placement_device *to, const struct placement_device *from)
{
	to->memory_bytes = from->memory_bytes;
	to->most_bytes = from->most_bytes;
	to->compute_milli = from->compute_milli;
	to->taints = from->taints;
	to->slots = from->slots;
	to->links = from->links;
	to->numa = from->numa;
	to->geometry = from->geometry;
	to->lost = from->lost;
}

static void copy_node(struct placement_host *to, const struct placement_node *from)
{
	to->cpu = from->cpu_milli;
	/* The room that is left is signed: more may be promised than there is. */
	to->memory_bytes =
		from->host_memory_bytes < INT64_MAX ? from->host_memory_bytes : INT64_MAX;
	to->tags = from->tags;
	to->model = from->model;
	to->devices = from->devices;
	to->cordoned = from->cordoned;
	for (int i = 0; i < from->devices; i++)
		copy_device(&to->gpu[i].is, &from->device[i]);
}

static bool same_node(const struct placement_host *host, const struct placement_node *now)
{
	if (host->cpu != now->cpu_milli || host->memory_bytes != now->host_memory_bytes ||
	    host->model != now->model || host->devices != now->devices || host->tags != now->tags)
		return false;
	for (int i = 0; i < host->devices; i++)
		if (!placement_same_device(&host->gpu[i].is, &now->device[i]))
			return false;
	return true;
}

static void describe(const struct placement_host *host, struct placement_node *ret_node)
{
	*ret_node = (struct placement_node){.host_memory_bytes = host->memory_bytes,
					    .cpu_milli = (uint32_t)host->cpu,
					    .tags = host->tags,
					    .model = host->model,
					    .devices = host->devices,
					    .cordoned = host->cordoned};
	for (int i = 0; i < host->devices; i++)
		ret_node->device[i] = host->gpu[i].is;
}

/* Counts the host among the nodes of its make, or no longer. A make that there is no room for is
 * none. */
static void find_make(struct placement *p, struct placement_host *host, bool leaves)
{
	int at = 0;

	p->makes[host->make].nodes -= host->make != 0;
	host->make = 0;
	for (int i = 1; i < PLACEMENT_MAKES && !leaves; i++) {
		if (p->makes[i].nodes && same_node(host, &p->makes[i].is)) {
			at = i;
			break;
		}
		at = at || p->makes[i].nodes ? at : i;
	}
	if (!at)
		return;
	if (!p->makes[at].nodes++)
		describe(host, &p->makes[at].is);
	host->make = (uint8_t)at;
}

int placement_add_node(struct placement *p, const struct placement_node *node, uint32_t *ret_node)
{
	struct placement_host *host;
	uint32_t at = p->node_free;

	if (!sane_node(p, node))
		return -EINVAL;
	if (p->on_trial)
		return -EBUSY;
	while (at < p->node_end && p->hosts[at].present)
		at++;
	if (at == p->limits.nodes)
		return -ENOSPC;
	host = &p->hosts[at];
	memset(host, 0, sizeof(*host));
	copy_node(host, node);
	host->present = true;
	host->first_pod = PLACEMENT_NONE;
	if (at == p->node_end)
		p->node_end++;
	p->node_free = at + 1;
	find_make(p, host, false);
	count_node(p, host, 1);
	p->nodes_stale = true;
	placement_changed(p, at);
	*ret_node = at;
	return 0;
}

int placement_remove_node(struct placement *p, uint32_t node)
{
	struct placement_host *host = placement_find_host(p, node);

	if (!host)
		return -ENOENT;
	if (host->pods || p->on_trial)
		return -EBUSY;
	count_node(p, host, -1);
	find_make(p, host, true);
	host->present = false;
	if (node < p->node_free)
		p->node_free = node;
	p->nodes_stale = true;
	placement_changed(p, node);
	return 0;
}

int placement_get_node(const struct placement *p, uint32_t node, struct placement_node *ret_node)
{
	const struct placement_host *host = placement_find_host(p, node);

	if (!host)
		return -ENOENT;
	describe(host, ret_node);
	return 0;
}

int placement_update_node(struct placement *p, uint32_t node, const struct placement_node *now)
{
	struct placement_host *host = placement_find_host(p, node);
	int before;

	if (!host)
		return -ENOENT;
	if (!sane_node(p, now))
		return -EINVAL;
	if (p->on_trial)
		return -EBUSY;
	before = host->devices;
	for (int i = now->devices; i < before; i++)
		if (host->gpu[i].tenants)
			return -EBUSY;
	if (same_node(host, now) && host->cordoned == now->cordoned)
		return 0;
	count_node(p, host, -1);
	for (int i = before; i < now->devices; i++)
		memset(&host->gpu[i], 0, sizeof(host->gpu[i]));
	copy_node(host, now);
	find_make(p, host, false);
	placement_rebuild(p, host);
	placement_find_over(p, host);
	count_node(p, host, 1);
	p->nodes_stale = true;
	placement_changed(p, node);
	return 0;
}

int placement_cordon(struct placement *p, uint32_t node, bool cordoned)
{
	struct placement_host *host = placement_find_host(p, node);

	if (!host)
		return -ENOENT;
	if (p->on_trial)
		return -EBUSY;
	host->cordoned = cordoned;
	placement_changed(p, node);
	return 0;
}

int placement_taint(struct placement *p, uint32_t node, uint32_t device, uint32_t taints)
{
	struct placement_host *host = placement_find_host(p, node);

	if (!host || device >= host->devices)
		return -ENOENT;
	if (p->on_trial)
		return -EBUSY;
	host->gpu[device].is.taints = taints;
	find_make(p, host, false);
	placement_changed(p, node);
	return 0;
}

static bool sane_container(const struct placement_container *it)
{
	if (it->kind > PLACEMENT_SIDECAR || it->devices > PLACEMENT_DEVICES ||
	    it->memory_bytes >> 56 || it->host_memory_bytes >> 56 || it->cpu_milli > 1u << 30 ||
	    it->compute_milli > 1000000)
		return false;
	if (!it->devices)
		return !it->memory_bytes && !it->compute_milli && !it->profile && !it->exclusive;
	return !it->profile || (!it->memory_bytes && !it->compute_milli && !it->exclusive);
}

int placement_valid(const struct placement_request *request)
{
	int devices = 0;

	if (request->containers > PLACEMENT_CONTAINERS || request->class >= PLACEMENT_CLASSES ||
	    request->numa > PLACEMENT_REQUIRE || request->links > PLACEMENT_REQUIRE ||
	    request->way > PLACEMENT_WAY_SPREAD || request->stays > PLACEMENT_STAYS ||
	    request->node < PLACEMENT_ANYWHERE ||
	    (request->named_devices && request->node == PLACEMENT_ANYWHERE))
		return -EINVAL;
	for (int i = 0; i < request->containers; i++) {
		if (!sane_container(&request->container[i]))
			return -EINVAL;
		devices += request->container[i].devices;
	}
	return devices > PLACEMENT_SLOTS ? -EINVAL : 0;
}

void placement_totals(const struct placement *p, struct placement_totals *ret_totals)
{
	*ret_totals = p->totals;
}

double placement_fragmentation(struct placement *p)
{
	double sum = 0;

	placement_weigh(p);
	for (uint32_t i = 0; i < p->node_end; i++) {
		const struct placement_host *host = &p->hosts[i];
		const struct placement_measured *known;
		struct placement_view view;

		if (!host->present)
			continue;
		known = p->briefs[i].known ? &p->briefs[i].measured : &host->measured;
		if (p->config.policy == PLACEMENT_FGD && known->known) {
			sum += (double)known->waste;
			continue;
		}
		placement_view_host(p, host, &view);
		sum += (double)placement_waste(p, &view);
	}
	return p->usual_count ? sum / p->usual_count : 0;
}
