/* SPDX-License-Identifier: Apache-2.0 */
/* What a check costs while GPUs wait for their containers' end, and which containers they wait for.
 */
#include "plugin/mps/inside.h"
#include "tests/test.h"

enum { GPUS = 8 };

static struct {
	uint32_t reads, changes;
	bool given[HOST_DEVICES]; /* the record's content */
} others;

/* ---- what turnover.c asks others for ------------------------------------------------------- */

void allocated_devices(const struct plugin *p, const char *uid, bool ret_given[HOST_DEVICES])
{
	(void)p;
	(void)uid;
	others.reads++;
	memcpy(ret_given, others.given, sizeof(others.given));
}

int binding_place(const struct binding *b, uint32_t device)
{
	(void)b;
	(void)device;
	return -1;
}

void mps_follow(struct mps_hub *now)
{
	(void)now;
}

void mps_gpu_want(struct mps_gpu *gpu)
{
	mps_gpu_stays(gpu, gpu->daemon.hub->plugin->config->as_nvidia.mps);
}

bool mps_gpu_is_marked(const struct mps_gpu *gpu)
{
	return gpu->daemon.machine.marked || gpu->apart;
}

void serve_changed(struct plugin *p)
{
	(void)p;
	others.changes++;
}

/* -------------------------------------------------------------------------------------------- */

static struct config config;
static struct host host;
static struct plugin plugin;
static struct mps_hub hub;

/* A node with an API server, whose file wants MPS, or no more. */
static void begin(bool mps, bool marked)
{
	static struct host_device device[GPUS];

	memset(&others, 0, sizeof(others));
	config = (struct config){.as_nvidia = {.mps = mps, .mps_root = "/run/mps"}};
	host = (struct host){.device = device, .devices = GPUS};
	plugin = (struct plugin){
		.host = &host, .config = &config, .pods = (struct pods *)&host, .settled = true};
	list_init(&plugin.bindings.all);
	hub = (struct mps_hub){.plugin = &plugin};
	list_init(&hub.containers);
	for (uint32_t i = 0; i < GPUS; i++) {
		device[i].uuid = "GPU-of-a-test";
		hub.gpu[i] = (struct mps_gpu){.device = i};
		hub.gpu[i].daemon.hub = &hub;
		hub.gpu[i].daemon.machine.marked = marked;
		others.given[i] = true;
	}
	mps_read_given(&hub);
	for (uint32_t i = 0; i < GPUS; i++)
		mps_gpu_want(&hub.gpu[i]);
}

TEST(a_check_reads_the_kubelets_record_once_for_all_gpus_that_wait)
{
	begin(true, false);
	for (uint32_t i = 0; i < GPUS; i++)
		expect(mps_waits(&hub, i));
	others.reads = 0;
	mps_look(&hub);
	expect_eq(others.reads, 1);
	expect_eq(others.changes, 0);
	others.given[3] = false;
	mps_look(&hub);
	expect_eq(others.reads, 2);
	expect_eq(others.changes, 1);
	expect(!mps_stays(&hub, 3) && mps_waits(&hub, 4));
}

TEST(a_check_reads_nothing_where_no_gpu_waits)
{
	begin(true, false);
	memset(others.given, 0, sizeof(others.given));
	mps_look(&hub);
	others.reads = 0;
	mps_look(&hub);
	expect_eq(others.reads, 0);
}

TEST(a_gpu_of_mps_stays_for_pods_that_have_not_started)
{
	begin(false, true);
	expect(mps_stays(&hub, 0) && !mps_waits(&hub, 0));
	expect(mps_has(&hub, 0, "uid"));
	others.given[0] = false;
	mps_look(&hub);
	expect(!mps_stays(&hub, 0) && mps_stays(&hub, 1));
}

TEST(without_an_api_server_the_record_holds_nothing)
{
	begin(false, true);
	plugin.pods = NULL;
	mps_look(&hub);
	expect(!mps_stays(&hub, 0));
}
