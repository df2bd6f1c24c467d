/* SPDX-License-Identifier: Apache-2.0 */
/* The devices that amounts are counted by, of a node that has more of them than that is for; and
 * the bindings that count beside seats. */
#include <stdio.h>
#include <string.h>

#include "plugin/sums/seats_inside.h"
#include "tests/test.h"

enum { TOO_MANY = SEATING_DEVICES + 6 };

enum { PODS = 512 };

static bool is_shared; /* the GPUs are shared out */

/* ---- what seats_settle.c asks others for --------------------------------------------------- */

bool entitled_portion(const struct plugin *p, uint32_t device, uint32_t *ret_slots,
		      struct config_share *ret_portion)
{
	(void)p;
	(void)device;
	*ret_slots = 1;
	*ret_portion = (struct config_share){0};
	return is_shared;
}

bool containers_is_foreign(const struct plugin *p, const struct binding *b)
{
	(void)p;
	(void)b;
	return false;
}

static struct {
	struct seats seats;
	struct seat seat[PODS];
	struct binding binding[PODS];
	struct pod pod[PODS];
	struct amounts_said amounts[PODS];
	char uid[PODS][16];
	bool shown; /* the pods are known */
} many;

const struct pod *pods_find_uid(const struct pods *pods, const char *uid)
{
	(void)pods;
	return many.shown ? &many.pod[(uid - many.uid[0]) / (ptrdiff_t)sizeof(many.uid[0])] : NULL;
}

const struct pod *pods_find(const struct pods *pods, const char *namespace, const char *name)
{
	(void)pods;
	(void)namespace;
	(void)name;
	return NULL;
}

bool pods_known(const struct pods *pods)
{
	(void)pods;
	return many.shown;
}

void pods_each(const struct pods *pods, void (*seen)(void *owner, const struct pod *pod),
	       void *owner)
{
	(void)pods;
	for (uint32_t i = 0; i < PODS; i++)
		seen(owner, &many.pod[i]);
}

bool seats_are_of(const struct binding *b, const struct seat *seat)
{
	return strcmp(b->uid, seat->own_uid) == 0;
}

void seats_reread(const struct plugin *p, struct seat *seat)
{
	(void)p;
	(void)seat;
}

const struct binding *neighbours_owner(const struct plugin *p, uint32_t device)
{
	(void)p;
	(void)device;
	return NULL;
}

int seats_place(const struct seat *seat, const char *container)
{
	for (uint32_t i = 0; i < seat->is.containers; i++)
		if (strcmp(seat->name[i], container) == 0)
			return (int)i;
	return -1;
}

bool seats_cover(const struct seat *seat, const struct binding *b)
{
	int place = seats_place(seat, b->container);

	return place >= 0 && strcmp(seat->key[place], b->key) == 0 && seat->is.seated;
}

/* -------------------------------------------------------------------------------------------- */

/* MIG makes parts while meted runs, and meted starts again only after that. */
TEST(devices_beyond_the_bound_of_seats_are_left_out)
{
	static struct host_device device[TOO_MANY];
	static struct host host = {.devices = TOO_MANY, .device = device};
	static struct config config;
	static struct plugin plugin = {.host = &host, .config = &config};
	static struct {
		struct seating_node node;
		struct seating_device beyond[TOO_MANY - SEATING_DEVICES];
	} is;

	for (uint32_t i = 0; i < TOO_MANY; i++) {
		device[i].total_bytes = i + 1;
		plugin.offer[i].shared = true;
	}
	seats_node(&plugin, &is.node);
	expect_eq(is.node.devices, SEATING_DEVICES);
	expect_eq(is.node.device[SEATING_DEVICES - 1].memory_bytes, SEATING_DEVICES);
	for (uint32_t i = 0; i < ARRAY_SIZE(is.beyond); i++)
		expect_eq(is.beyond[i].memory_bytes, 0);
}

/* Its seat and its former ids' are not known together after meted and the kubelet have started. */
TEST(a_container_that_comes_with_other_ids_does_not_wait_for_its_own_gpu)
{
	static struct host_device device[1] = {{.total_bytes = 1 << 30}};
	static struct host host = {.devices = 1, .device = device};
	static struct config config = {.overcommit_milli = 1000};
	static struct plugin plugin = {.host = &host, .config = &config};
	static struct seats seats;
	static struct seat seat = {.is = {.containers = 1}};
	static struct binding former = {.devices = 1, .counted = true, .counted_milli = 1000};
	struct seating_container *wants = &seat.is.container[0];
	struct fault why;

	is_shared = true;
	plugin.seats = &seats;
	plugin.offer[0].shared = plugin.offer[0].healthy = true;
	list_init(&seats.all);
	list_init(&plugin.bindings.all);
	list_append(&seats.all, &seat.link);
	list_append(&plugin.bindings.all, &former.link);
	plugin.bindings.count = 1;
	seat.name[0] = former.container = (char *)"main";
	seat.uid = seat.own_uid = former.uid = (char *)"1";
	seat.namespace = former.namespace = seat.pod = former.pod = (char *)"a";
	former.key[0] = 'a';
	former.counted_bytes = wants->memory_bytes = 1 << 30;
	wants->gpus = 1;
	wants->milli = 1000;
	expect_eq(seats_settle(&plugin, &why), 1);
	expect(seat.is.seated);
	/* Another container of the pod is no former one. */
	seat.is.seated = false;
	seat.name[0] = (char *)"beside";
	expect_eq(seats_settle(&plugin, &why), 0);
	expect(!seat.is.seated && seat.is.refusal.reason == PLACEMENT_NO_MEMORY);
	is_shared = false;
}

/* A pod of a thousandth of the GPU, which runs there. */
static void add_pod(struct plugin *plugin, uint32_t i)
{
	struct seating_container *it = &many.seat[i].is.container[0];

	snprintf(many.uid[i], sizeof(many.uid[i]), "%08x", i * 2654435761u);
	many.seat[i].uid = many.seat[i].own_uid = many.binding[i].uid = many.uid[i];
	many.seat[i].namespace = many.seat[i].pod = many.binding[i].namespace =
		many.binding[i].pod = (char *)"a";
	many.seat[i].name[0] = many.binding[i].container = (char *)"main";
	snprintf(many.seat[i].key[0], IDS_KEY, "%u", i);
	snprintf(many.binding[i].key, IDS_KEY, "%u", i);
	many.seat[i].is.seated = true;
	many.seat[i].is.containers = it->gpus = 1;
	it->milli = many.binding[i].counted_milli = 1;
	many.binding[i].devices = 1;
	many.binding[i].counted = true;
	list_append(&many.seats.all, &many.seat[i].link);
	list_append(&plugin->bindings.all, &many.binding[i].link);
	plugin->bindings.count++;
}

/* Its amounts are in its binding and in its pod's seat. */
TEST(each_of_many_containers_is_counted_once)
{
	static struct host_device device[1] = {{.total_bytes = 1 << 30}};
	static struct host host = {.devices = 1, .device = device};
	static struct config config = {.overcommit_milli = 1000};
	static struct plugin plugin = {.host = &host, .config = &config, .seats = &many.seats};
	struct seat *waits = &many.seat[PODS - 1];
	struct fault why;

	is_shared = true;
	plugin.offer[0].shared = plugin.offer[0].healthy = true;
	list_init(&many.seats.all);
	list_init(&plugin.bindings.all);
	for (uint32_t i = 0; i < PODS; i++)
		add_pod(&plugin, i);
	/* The last one has not begun. */
	list_remove(&many.binding[PODS - 1].link);
	plugin.bindings.count--;
	*waits->key[0] = '\0';
	waits->is.seated = false;
	waits->is.container[0].milli = 1000 - (PODS - 1) + 1;
	expect_eq(seats_settle(&plugin, &why), 0);
	expect_eq(waits->is.refusal.available, 1000 - (PODS - 1));
	expect(!waits->started && many.seat[0].started);
	waits->is.container[0].milli--;
	expect_eq(seats_settle(&plugin, &why), 1);
	is_shared = false;
}

/* Each pod is shown with a GPU, and says its thousandth but no memory. */
static void show_pods(struct plugin *plugin)
{
	static char *container = (char *)"main";
	static bool is_init;

	for (uint32_t i = 0; i < PODS; i++) {
		many.pod[i] = (struct pod){.uid = many.uid[i],
					   .namespace = (char *)"a",
					   .name = (char *)"a",
					   .containers = &container,
					   .inits = &is_init,
					   .container_count = 1,
					   .amounts = &many.amounts[i]};
		many.amounts[i] = (struct amounts_said){.gpu = "1", .milli = "1"};
	}
	plugin->pods = (struct pods *)&many;
	many.shown = true;
}

/* A quarter of them have seats on which they have not sat down, a quarter seats and bindings, a
 * quarter only bindings, as after a restart, and a quarter none of both yet. */
TEST(a_pod_that_has_begun_is_no_slot_that_is_promised)
{
	static struct host_device device[1] = {{.total_bytes = 1 << 30}};
	static struct host host = {.devices = 1, .device = device};
	static struct config config = {.overcommit_milli = 1000};
	static struct plugin plugin = {.host = &host, .config = &config, .seats = &many.seats};
	uint64_t bytes = 0, milli = 0;

	memset(&many, 0, sizeof(many));
	is_shared = true;
	plugin.offer[0].shared = plugin.offer[0].healthy = true;
	list_init(&many.seats.all);
	list_init(&plugin.bindings.all);
	for (uint32_t i = 0; i < PODS; i++) {
		add_pod(&plugin, i);
		many.seat[i].is.container[0].memory_bytes = 1 << 10;
		many.binding[i].counted_bytes = 1 << 10;
		many.seat[i].is.container[0].slot_memory = true;
		if (i % 4 >= 2)
			list_remove(&many.seat[i].link);
		if (i % 4 == 1 || i % 4 == 2)
			continue;
		list_remove(&many.binding[i].link);
		plugin.bindings.count--;
	}
	show_pods(&plugin);
	expect(seats_sums(&plugin, &bytes, &milli));
	/* A slot is the whole GPU: whoever has not begun leaves nothing. */
	expect_eq(bytes, 0);
	expect_eq(milli, 1000);
	for (uint32_t i = 3; i < PODS; i += 4)
		many.pod[i].container_count = 0;
	expect(seats_sums(&plugin, &bytes, &milli));
	expect_eq(bytes, (1 << 30) - PODS / 4 * 3 * (1 << 10));
	is_shared = many.shown = false;
}

TEST(amounts_on_a_gpu_out_of_service_and_those_before_a_container_are_nobody_elses)
{
	static struct host_device device[2] = {{.total_bytes = 1 << 30}, {.total_bytes = 1 << 30}};
	static struct host host = {.devices = 2, .device = device};
	static struct config config = {.overcommit_milli = 1000};
	static struct plugin plugin = {.host = &host, .config = &config, .seats = &many.seats};
	uint64_t bytes = 0, milli = 0;

	memset(&many, 0, sizeof(many));
	is_shared = true;
	plugin.offer[0].shared = plugin.offer[0].healthy = true;
	list_init(&many.seats.all);
	list_init(&plugin.bindings.all);
	add_pod(&plugin, 0);
	add_pod(&plugin, 1);
	many.seat[0].is.container[0].device[0] = 1;
	many.seat[0].is.container[0].memory_bytes = 1 << 20;
	many.seat[1].is.containers = 2;
	many.seat[1].is.container[1] = (struct seating_container){
		.kind = PLACEMENT_INIT, .gpus = 1, .memory_bytes = 1 << 12, .slot_memory = true};
	show_pods(&plugin);
	for (uint32_t i = 2; i < PODS; i++)
		many.pod[i].container_count = 0;
	expect(seats_sums(&plugin, &bytes, &milli));
	expect_eq(bytes, (1 << 30) + (1 << 20));
	expect_eq(milli, 1000 + 1);
	/* Without its seat it is a slot that is promised. */
	many.seat[1].is.seated = false;
	list_remove(&many.binding[1].link);
	plugin.bindings.count--;
	expect(seats_sums(&plugin, &bytes, &milli));
	expect_eq(bytes, 1 << 20);
	is_shared = many.shown = false;
}

TEST(a_pod_that_has_begun_comes_before_an_older_one_that_has_not)
{
	static struct host_device device[1] = {{.total_bytes = 1 << 30}};
	static struct host host = {.devices = 1, .device = device};
	static struct config config = {.overcommit_milli = 1000};
	static struct plugin plugin = {.host = &host, .config = &config, .seats = &many.seats};
	struct fault why;

	memset(&many, 0, sizeof(many));
	is_shared = true;
	plugin.offer[0].shared = plugin.offer[0].healthy = true;
	list_init(&many.seats.all);
	list_init(&plugin.bindings.all);
	for (uint32_t i = 0; i < 2; i++) {
		add_pod(&plugin, i);
		many.seat[i].is.seated = false;
		many.seat[i].is.container[0].milli = 600;
	}
	list_remove(&many.binding[0].link);
	plugin.bindings.count--;
	many.binding[1].devices = 0;
	expect_eq(seats_settle(&plugin, &why), 1);
	expect(!many.seat[0].is.seated && many.seat[1].is.seated);
	is_shared = false;
}

/* ---- the index ----------------------------------------------------------------------------- */

enum { FEW = 60, ASKED = 400 };

static struct {
	struct seats seats;
	struct seat seat[FEW];
	char uid[2 * FEW][8], name[2 * FEW][8];
} some;

/* A pod's name is its own within a namespace, and the same as pods' in others. */
static void name_some(void)
{
	for (uint32_t i = 0; i < 2 * FEW; i++) {
		snprintf(some.uid[i], sizeof(some.uid[i]), "u%u", i * 37 % (2 * FEW));
		snprintf(some.name[i], sizeof(some.name[i]), "%u", i);
	}
}

/* In any order. */
static void fill_index(uint32_t count)
{
	list_init(&some.seats.all);
	for (uint32_t i = 0; i < count; i++) {
		some.seat[i] = (struct seat){
			.uid = some.uid[i],
			.own_uid = some.uid[i],
			.namespace = some.name[i / 7],
			.pod = some.name[i % 7],
		};
		if (test_random_below(2))
			list_append(&some.seats.all, &some.seat[i].link);
		else
			list_prepend(&some.seats.all, &some.seat[i].link);
	}
}

static const struct seat *look_at_each(const struct binding *b)
{
	list_for_each(link, &some.seats.all)
	{
		const struct seat *seat = list_entry(link, struct seat, link);

		if (*b->uid ? strcmp(b->uid, seat->own_uid) == 0
			    : strcmp(b->pod, seat->pod) == 0 &&
				      strcmp(b->namespace, seat->namespace) == 0)
			return seat;
	}
	return NULL;
}

TEST(the_index_finds_the_same_as_a_search_of_all_seats)
{
	uint32_t found = 0, missed = 0;

	name_some();
	for (uint32_t round = 0; round < 20; round++) {
		struct seats_index index;

		fill_index((uint32_t)test_random_below(FEW + 1));
		expect_eq(seats_index_make(&some.seats, &index), 0);
		for (uint32_t i = 0; i < ASKED; i++) {
			const struct binding b = {
				.uid = test_random_below(2) ? some.uid[test_random_below(2 * FEW)]
							    : (char *)"",
				.namespace = some.name[test_random_below(10)],
				.pod = some.name[test_random_below(10)],
			};
			const struct seat *seat = look_at_each(&b);

			expect(seats_index_find(&index, &b) == seat);
			found += seat != NULL;
			missed += seat == NULL;
		}
		seats_index_free(&index);
	}
	expect(found && missed);
}

/* As seats_is_bound() has it. */
static bool is_bound(const struct plugin *plugin, const struct pod *pod, const char *container)
{
	const char *uid = pod->mirrored ? pod->mirrored : pod->uid;

	list_for_each(link, (struct list *)&plugin->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);
		bool same = *b->uid ? strcmp(b->uid, uid) == 0
				    : strcmp(b->pod, pod->name) == 0 &&
					      strcmp(b->namespace, pod->namespace) == 0;

		if (same && strcmp(b->container, container) == 0)
			return true;
	}
	return false;
}

TEST(a_bound_container_is_found_as_by_a_look_at_each_binding)
{
	static struct plugin plugin;
	static struct binding binding[FEW];
	struct seats_bound bound;
	uint32_t found = 0;

	name_some();
	list_init(&plugin.bindings.all);
	plugin.bindings.count = FEW;
	for (uint32_t i = 0; i < FEW; i++) {
		binding[i] = (struct binding){
			.uid = test_random_below(3) ? some.uid[test_random_below(FEW)] : (char *)"",
			.namespace = some.name[test_random_below(4)],
			.pod = some.name[test_random_below(7)],
			.container = some.name[test_random_below(3)],
		};
		list_append(&plugin.bindings.all, &binding[i].link);
	}
	expect_eq(seats_bound_make(&plugin, &bound), 0);
	for (uint32_t i = 0; i < ASKED; i++) {
		struct pod pod = {.uid = some.uid[test_random_below(FEW)],
				  .namespace = some.name[test_random_below(4)],
				  .name = some.name[test_random_below(7)]};
		const char *container = some.name[test_random_below(3)];

		if (test_random_below(4) == 0)
			pod.mirrored = some.uid[test_random_below(FEW)];
		expect_eq(seats_bound_has(&bound, &pod, container),
			  is_bound(&plugin, &pod, container));
		found += is_bound(&plugin, &pod, container);
	}
	expect(found > 0 && found < ASKED);
	seats_bound_free(&bound);
}
