/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of devices of a node whose GPUs are divided while meted runs. */
#include <stdlib.h>
#include <unistd.h>

#include "plugin/mps/mps.h"
#include "plugin/nodes.h"
#include "plugin/nvidia/mig_label.h"
#include "plugin/nvidia/parts.h"
#include "plugin/sums/seats.h"
#include "tests/test.h"

enum { LOST_XID = 79, HARDWARE_XID = 48 };

/* The first one is another GPU than that of the second one, which is, or was, the third one's. */
enum { OTHER, GPU, PART, DEVICES };

static uint32_t falls;	/* that the node was told of */
static uint32_t events; /* that tell of one */
static host_health *seen;

/* ---- what health.c asks others for --------------------------------------------------------- */

void serve_changed(struct plugin *p)
{
	(void)p;
}

void seats_changed(struct plugin *p)
{
	(void)p;
}

void nodes_changed(struct nodes *nodes)
{
	(void)nodes;
}

void events_node(struct plugin *p, const char *reason, const char *message)
{
	(void)p;
	(void)reason;
	(void)message;
	falls++;
}

void events_node_well(struct plugin *p, const char *reason, const char *message)
{
	(void)p;
	(void)reason;
	(void)message;
}

void strangers_look(struct plugin *p)
{
	(void)p;
}

void over_look(struct plugin *p)
{
	(void)p;
}

void containers_look(struct plugin *p)
{
	(void)p;
}

void as_nvidia_look(struct plugin *p)
{
	(void)p;
}

void mps_look(struct mps_hub *hub)
{
	(void)hub;
}

void mig_label_look(struct mig_label *label)
{
	(void)label;
}

void parts_look(struct parts *parts)
{
	(void)parts;
}

bool parts_hides(const struct parts *parts, uint32_t device)
{
	(void)parts;
	(void)device;
	return false;
}

static bool is_cordoned(const struct daemon *d, uint32_t device)
{
	(void)d;
	(void)device;
	return false;
}

static void happened(struct daemon *d, uint32_t tenant, uint32_t device, enum happened kind,
		     const char *said)
{
	(void)d;
	(void)tenant;
	(void)device;
	(void)said;
	events += kind == HAPPENED_UNHEALTHY;
}

static void watch(struct daemon *d, host_health *news, void *owner)
{
	(void)d;
	(void)owner;
	seen = news;
}

/* -------------------------------------------------------------------------------------------- */

struct node {
	char place[32];
	struct host_device device[DEVICES];
	struct host host;
	struct config config;
	struct plugin plugin;
};

static void open_node(struct node *node)
{
	static const char *const uuids[DEVICES] = {"GPU-other", "GPU-divided", "MIG-part"};

	*node = (struct node){.place = "/tmp/mete-health-XXXXXX"};
	expect(mkdtemp(node->place));
	for (uint32_t i = 0; i < DEVICES; i++)
		node->device[i] = (struct host_device){.uuid = uuids[i], .gpu_instance = -1};
	node->device[PART].gpu_instance = 7;
	node->host = (struct host){.devices = DEVICES,
				   .device = node->device,
				   .place = node->place,
				   .cordoned = is_cordoned,
				   .watch = watch,
				   .happened = happened};
	node->plugin = (struct plugin){.host = &node->host, .config = &node->config};
	falls = events = 0;
	health_open(&node->plugin);
}

static void close_node(const struct node *node)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/health", node->place);
	unlink(path);
	expect_eq(rmdir(node->place), 0);
}

static void divide(struct node *node, bool is_divided)
{
	node->device[GPU].gone = is_divided;
	node->device[PART].gone = !is_divided;
	health_divided(&node->plugin, DEVICES);
}

TEST(a_gpu_that_is_lost_stays_so_when_another_one_is_divided)
{
	struct node node;

	open_node(&node);
	seen(&node.plugin, OTHER, HOST_LOST, 0);
	expect(!node.plugin.offer[OTHER].healthy);
	divide(&node, true);
	divide(&node, false);
	expect(!node.plugin.offer[OTHER].healthy);
	seen(&node.plugin, OTHER, HOST_LOST, 0);
	expect_eq(falls, 1);
	expect_eq(events, 1);
	close_node(&node);
}

TEST(a_fault_goes_with_its_device_which_comes_back_healthy)
{
	const struct {
		enum host_news news;
		uint64_t xid;
	} falls_by[] = {
		{HOST_XID, HARDWARE_XID}, {HOST_XID, LOST_XID}, {HOST_ECC, 0}, {HOST_LOST, 0}};

	for (size_t i = 0; i < ARRAY_SIZE(falls_by); i++) {
		struct node node;

		open_node(&node);
		divide(&node, true);
		seen(&node.plugin, PART, falls_by[i].news, falls_by[i].xid);
		expect(!node.plugin.offer[PART].healthy);
		divide(&node, false);
		divide(&node, true);
		expect(node.plugin.offer[PART].healthy);
		/* Nor does the next meted know of it. */
		node.plugin = (struct plugin){.host = &node.host, .config = &node.config};
		health_open(&node.plugin);
		expect(node.plugin.offer[PART].healthy);
		close_node(&node);
	}
}

/* The driver's event names a GPU and numbers, which are those of several devices by then. */
TEST(a_fault_of_a_part_befalls_no_device_that_is_gone)
{
	struct node node;

	open_node(&node);
	divide(&node, true);
	seen(&node.plugin, GPU, HOST_XID, HARDWARE_XID);
	seen(&node.plugin, PART, HOST_XID, HARDWARE_XID);
	seen(&node.plugin, GPU, HOST_LOST, 0);
	expect_eq(falls, 1);
	expect_eq(events, 1);
	expect_eq(node.plugin.xids[GPU], 0);
	expect_eq(node.plugin.xids[PART], 1);
	divide(&node, false);
	expect(node.plugin.offer[GPU].healthy);
	close_node(&node);
}
