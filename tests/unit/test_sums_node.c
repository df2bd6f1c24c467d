/* SPDX-License-Identifier: Apache-2.0 */
/* The devices that amounts are counted by, of a node that has more of them than that is for; and
 * the bindings that count beside seats. */
#include "plugin/sums/seats_inside.h"
#include "tests/test.h"

enum { TOO_MANY = SEATING_DEVICES + 6 };

static bool is_one_pod; /* all seats and bindings are of it, and the GPUs are shared out */

/* ---- what seats_settle.c asks others for --------------------------------------------------- */

bool entitled_portion(const struct plugin *p, uint32_t device, uint32_t *ret_slots,
		      struct config_share *ret_portion)
{
	(void)p;
	(void)device;
	*ret_slots = 1;
	*ret_portion = (struct config_share){0};
	return is_one_pod;
}

bool containers_is_foreign(const struct plugin *p, const struct binding *b)
{
	(void)p;
	(void)b;
	return false;
}

struct binding *binding_store_find(struct binding_store *store, const char *key)
{
	(void)store;
	(void)key;
	return NULL;
}

const struct pod *pods_find_uid(const struct pods *pods, const char *uid)
{
	(void)pods;
	(void)uid;
	return NULL;
}

bool seats_are_of(const struct binding *b, const struct seat *seat)
{
	(void)b;
	(void)seat;
	return is_one_pod;
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

bool seats_cover(const struct seats *seats, const struct binding *b)
{
	(void)seats;
	(void)b;
	return false;
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

	is_one_pod = true;
	plugin.seats = &seats;
	plugin.offer[0].shared = plugin.offer[0].healthy = true;
	list_init(&seats.all);
	list_init(&plugin.bindings.all);
	list_append(&seats.all, &seat.link);
	list_append(&plugin.bindings.all, &former.link);
	plugin.bindings.count = 1;
	seat.name[0] = former.container = (char *)"main";
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
	is_one_pod = false;
}
