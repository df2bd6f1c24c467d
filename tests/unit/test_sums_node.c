/* SPDX-License-Identifier: Apache-2.0 */
/* The devices that amounts are counted by, of a node that has more of them than that is for. */
#include "plugin/sums/seats_inside.h"
#include "tests/test.h"

enum { TOO_MANY = SEATING_DEVICES + 6 };

/* ---- what seats_settle.c asks others for --------------------------------------------------- */

bool entitled_portion(const struct plugin *p, uint32_t device, uint32_t *ret_slots,
		      struct config_share *ret_portion)
{
	(void)p;
	(void)device;
	(void)ret_slots;
	(void)ret_portion;
	return false;
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
	return false;
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
TEST(devices_beyond_those_that_seats_are_for_are_left_out)
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
