/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's memory, its nodes and how it is configured.
 */
#include "core/placement_machine.h"

static const char *const policy_names[] = {
#define POLICY(name, spelling, within, what) spelling,
#include "core/placement_policies.def"
#undef POLICY
};

static const char *const reason_texts[] = {
	"it fits",
#define REASON(name, sentence) sentence,
#include "core/placement_reasons.def"
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

static struct placement lay_out(struct pieces *all, const struct placement_limits *l)
{
	struct placement p = {.limits = *l, .blocks = blocks_of(l)};

	p.row_size = p.blocks * PLACEMENT_BLOCK;
	(void)piece(all, 1, sizeof(p));
	p.hosts = piece(all, l->nodes, sizeof(*p.hosts));
	p.pods = piece(all, l->pods, sizeof(*p.pods));
	p.charges = piece(all, l->charges, sizeof(*p.charges));
	p.shapes = piece(all, l->shapes, sizeof(*p.shapes));
	p.hashes = piece(all, l->shapes, sizeof(*p.hashes));
	p.rows = piece(all, (size_t)l->shapes * (p.row_size + p.blocks), sizeof(*p.rows));
	p.changes = piece(all, l->nodes, sizeof(*p.changes));
	p.marks = piece(all, l->nodes, sizeof(*p.marks));
	p.glances = piece(all, l->nodes, sizeof(*p.glances));
	p.learned = piece(all, l->typicals, sizeof(*p.learned));
	p.usuals = piece(all, l->typicals, sizeof(*p.usuals));
	p.cpu_steps = piece(all, l->typicals, sizeof(*p.cpu_steps));
	p.remainders = piece(all, PLACEMENT_LOW_STEPS * PLACEMENT_TOP_STEPS, sizeof(*p.remainders));
	p.asks = piece(all, l->typicals, sizeof(*p.asks));
	p.fits = piece(all, (size_t)l->typicals * PLACEMENT_LOW_STEPS, sizeof(*p.fits));
	p.rooms_now = piece(all, l->typicals, sizeof(*p.rooms_now));
	p.supply = piece(all, PLACEMENT_MODELS * (size_t)l->typicals, sizeof(*p.supply));
	p.prices = piece(all, PLACEMENT_MODELS * (size_t)l->typicals, sizeof(*p.prices));
	p.weights = piece(all, PLACEMENT_MODELS * placement_cells(l), sizeof(*p.weights));
	return p;
}

static bool sane(const struct placement_limits *l)
{
	return l->nodes > 0 && l->nodes < 1u << 24 && l->pods > 0 && l->pods < 1u << 30 &&
	       l->charges > 0 && l->charges < 1u << 30 && l->shapes > 0 && l->shapes < 1u << 16 &&
	       l->typicals < 1u << 12;
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

int placement_configure(struct placement *p, const struct placement_config *config)
{
	const uint32_t *given[2] = {config->compute_factor_milli, config->memory_factor_milli};

	if ((unsigned)config->policy >= PLACEMENT_POLICIES)
		return -EINVAL;
	for (int which = 0; which < 2; which++)
		for (int i = 0; i < PLACEMENT_CLASSES; i++)
			if (given[which][i] &&
			    (given[which][i] < 1000 || given[which][i] > 1000000))
				return -EINVAL;
	p->config = *config;
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
	p->usual_stale = p->lost_stale = true;
	placement_look_again(p);
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
	p->totals.compute_milli += (uint64_t)(sign * placement_milli(host));
	p->totals.devices += (uint32_t)(sign * host->devices);
	p->totals.nodes += (uint32_t)sign;
	p->turnover += host->devices;
	p->empties[placement_empties(host)] += (uint32_t)sign;
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

/* Member by member: GPUs are compared as bytes, and padding is nobody's. */
static void copy_device(struct placement_device *to, const struct placement_device *from)
{
	to->memory_bytes = from->memory_bytes;
	to->compute_milli = from->compute_milli;
	to->taints = from->taints;
	to->slots = from->slots;
	to->links = from->links;
	to->numa = from->numa;
	to->geometry = from->geometry;
}

int placement_add_node(struct placement *p, const struct placement_node *node, uint32_t *ret_node)
{
	struct placement_host *host;
	uint32_t at = p->node_free;

	if (!sane_node(p, node))
		return -EINVAL;
	while (at < p->node_end && p->hosts[at].present)
		at++;
	if (at == p->limits.nodes)
		return -ENOSPC;
	host = &p->hosts[at];
	memset(host, 0, sizeof(*host));
	host->cpu = node->cpu_milli;
	host->memory_bytes = node->host_memory_bytes;
	host->model = node->model;
	host->devices = node->devices;
	host->cordoned = node->cordoned;
	host->present = true;
	host->first_pod = PLACEMENT_NONE;
	for (int i = 0; i < node->devices; i++)
		copy_device(&host->gpu[i].is, &node->device[i]);
	if (at == p->node_end)
		p->node_end++;
	p->node_free = at + 1;
	count_node(p, host, 1);
	p->nodes_stale = true;
	placement_changed(p, at);
	*ret_node = at;
	return 0;
}

static struct placement_host *find_host(struct placement *p, uint32_t node)
{
	return node < p->node_end && p->hosts[node].present ? &p->hosts[node] : NULL;
}

int placement_remove_node(struct placement *p, uint32_t node)
{
	struct placement_host *host = find_host(p, node);

	if (!host)
		return -ENOENT;
	if (host->pods)
		return -EBUSY;
	count_node(p, host, -1);
	host->present = false;
	if (node < p->node_free)
		p->node_free = node;
	p->nodes_stale = true;
	placement_changed(p, node);
	return 0;
}

int placement_cordon(struct placement *p, uint32_t node, bool cordoned)
{
	struct placement_host *host = find_host(p, node);

	if (!host)
		return -ENOENT;
	host->cordoned = cordoned;
	placement_changed(p, node);
	return 0;
}

int placement_taint(struct placement *p, uint32_t node, uint32_t device, uint32_t taints)
{
	struct placement_host *host = find_host(p, node);

	if (!host || device >= host->devices)
		return -ENOENT;
	host->gpu[device].is.taints = taints;
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
		struct placement_host *host = &p->hosts[i];
		struct placement_view view;

		if (!host->present)
			continue;
		if (p->config.policy == PLACEMENT_FGD && host->waste_known) {
			sum += (double)host->waste;
			continue;
		}
		placement_look(p, host, &view);
		sum += (double)placement_waste(p, &view);
	}
	return p->usual_count ? sum / p->usual_count : 0;
}
