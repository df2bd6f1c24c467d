/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/parts_around.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct around others;

/* ---- what parts.c asks others for ----------------------------------------------------------- */

uint64_t loop_now_ns(void)
{
	return others.now_ns;
}

int loop_work(struct loop *loop, struct loop_work *work, void (*run)(struct loop_work *work),
	      void (*finished)(struct loop_work *work))
{
	(void)loop;
	expect(!others.work);
	work->work = run;
	work->finished = finished;
	work->busy = 1;
	others.work = work;
	return 0;
}

int allocated_known(const struct plugin *p, allocated_found *found, void *owner)
{
	(void)p;
	if (others.unread)
		return others.unread;
	if (others.given)
		found(owner, NULL, "uid", others.given);
	return 0;
}

static void each_claimed(const struct plugin *p, void (*each)(void *owner, const char *device),
			 void *owner)
{
	(void)p;
	if (others.claimed)
		each(owner, others.claimed);
}

bool pods_known(const struct pods *pods)
{
	(void)pods;
	return others.pods_known;
}

void grpc_call_keep(struct grpc_call *call, void *mine)
{
	expect(!call->ended);
	call->kept = mine;
}

void *grpc_call_kept(const struct grpc_call *call)
{
	expect(!call->ended);
	return call->kept;
}

void grpc_end(struct grpc_call *call, enum grpc_status status, const char *message)
{
	expect(!call->ended);
	call->ended = true;
	call->status = status;
	snprintf(call->said, sizeof(call->said), "%s", message);
}

void as_nvidia_allocate(struct serving *s, struct grpc_call *call,
			const V1beta1__ContainerAllocateRequest *said)
{
	(void)s;
	grpc_end(call, GRPC_OK, said->devices_ids[0]);
}

static void look(struct daemon *d)
{
	(void)d;
	others.looks++;
}

void serve_changed(struct plugin *p)
{
	(void)p;
}

bool kinds_differ(const struct plugin *p)
{
	(void)p;
	return *others.unnamed;
}

int active_config_divided(struct plugin *p, uint32_t former, struct fault *why)
{
	(void)p;
	(void)former;
	return *others.unnamed ? fault_set(why, -EINVAL, "%s", others.unnamed) : 0;
}

void offered_find(struct plugin *p)
{
	(void)p;
}

/* -------------------------------------------------------------------------------------------- */

static char place[64]; /* "" between two tests */
struct config config;
static struct host_device device[MIG_DRIVER_PLACES];
struct host host;
struct plugin plugin;
struct serving serving = {.plugin = &plugin, .resource = "nvidia.com/mig-1g.10gb"};
struct parts *parts;

const char *around_record(void)
{
	static char path[sizeof(place) + 8];

	snprintf(path, sizeof(path), "%s/parts", place);
	return path;
}

void around_set_strategy(enum config_mig mig)
{
	config.as_nvidia.mig = mig;
}

void around_begin(enum config_mig mig, const char *recorded)
{
	struct fault why;

	if (!*place) {
		snprintf(place, sizeof(place), "/tmp/mete-parts-XXXXXX");
		expect(mkdtemp(place) != NULL);
	}
	memset(&others, 0, sizeof(others));
	others.unnamed = "";
	others.now_ns = 1000 * S;
	mig_driver_begin();
	memset(&config, 0, sizeof(config));
	around_set_strategy(mig);
	memset(device, 0, sizeof(device));
	host = (struct host){.device = device, .look = look, .place = place};
	plugin = (struct plugin){.host = &host, .config = &config, .settled = true};
	unlink(around_record()); /* of a test that failed */
	if (recorded) {
		FILE *out = fopen(around_record(), "w");

		expect(out && fputs(recorded, out) >= 0 && fclose(out) == 0);
	}
	expect_eq(parts_open(&plugin, each_claimed, &parts, &why), 0);
}

void around_end(void)
{
	parts_close(parts);
	unlink(around_record());
	rmdir(place);
	place[0] = '\0';
}

void around_finish(void)
{
	struct loop_work *work = others.work;

	expect(work);
	others.work = NULL;
	work->work(work);
	work->busy = 0;
	work->finished(work);
}

void around_divided(void)
{
	static char uuid[MIG_DRIVER_PLACES][MIG_UUID_MAX];

	host.devices = 0;
	for (uint32_t i = 0; i < mig_driver.gpu.parts; i++) {
		snprintf(uuid[i], MIG_UUID_MAX, "%s", mig_driver.gpu.part[i].uuid[0]);
		device[host.devices++].uuid = uuid[i];
	}
	parts_divided(parts);
}

void around_do_look(void)
{
	parts_look(parts);
	while (others.work)
		around_finish();
}

void around_await(struct grpc_call *call, const char *id)
{
	char *ids[] = {(char *)id};
	V1beta1__ContainerAllocateRequest said = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;

	memset(call, 0, sizeof(*call));
	said.devices_ids = ids;
	said.n_devices_ids = 1;
	expect(parts_await(parts, &serving, call, &said));
}

void around_give(const char *id)
{
	struct grpc_call call;

	around_await(&call, id);
	around_finish();
	around_divided();
	expect(call.ended && call.status == GRPC_OK);
	expect_str(call.said, id);
}

void around_start(void)
{
	struct fault why;

	expect_eq(parts_begin(parts, &why), 0);
	around_do_look();
}

uint32_t around_there(void)
{
	return mig_driver.gpu.parts;
}
