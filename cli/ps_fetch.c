/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ps_fetch.h"

#include <unistd.h>

#include "base/place.h"
#include "cli/gpus.h"
#include "cli/sim_node.h"

int ps_fetch_rows(struct admin *admin, uint32_t tenant, struct ps_rows *rows, struct fault *why)
{
	struct wire_message request = {.code = WIRE_list}, answer = {0}, *row;
	int r;

	request.list.tenant = tenant;
	r = admin_ask(admin, &request, &answer, why);
	for (; r == 0 && answer.code != WIRE_end; r = admin_next(admin, &answer, why)) {
		row = ps_rows_add(rows);
		if (!row)
			return fault_set(why, -ENOMEM, "out of memory");
		*row = answer;
	}
	return r;
}

static int add_gpu(struct ps_rows *rows, const struct gpus *gpus, const struct pick_gpu *gpu)
{
	struct gpus_process processes[256];
	size_t n = gpus_processes(gpus, gpu->index, processes, ARRAY_SIZE(processes));
	struct wire_message *row = ps_rows_add(rows);

	if (!row)
		return -ENOMEM;
	row->code = WIRE_device_row;
	row->device_row.index = gpu->index;
	row->device_row.capacity = gpu->memory_bytes;
	/* Memory in use that NVML attributes to no process is outside, too: ps_outside(). */
	row->device_row.outside = gpu->memory_bytes - gpu->free_bytes;
	wire_set_text(&row->device_row.model, gpus_model(gpus, gpu->index).text);
	wire_set_text(&row->device_row.name, gpu->uuid);
	for (size_t i = 0; i < n; i++) {
		row = ps_rows_add(rows);
		if (!row)
			return -ENOMEM;
		row->code = WIRE_outside_row;
		row->outside_row.device = gpu->index;
		row->outside_row.pid = processes[i].pid;
		row->outside_row.user = ps_owner(processes[i].pid);
		row->outside_row.used = processes[i].used_bytes;
	}
	return 0;
}

/* Without a meted: shows the devices by NVML. */
static int fetch_gpus(struct ps_rows *rows, struct fault *why)
{
	owned(gpus_close) struct gpus *gpus = NULL;
	struct pick_gpu gpu[PICK_GPUS];
	size_t size = 0, count = 0;

	rows->absent = true;
	if (gpus_open(&gpus, &rows->why) < 0 || gpus_look(gpus, gpu, &size, &count, &rows->why) < 0)
		return 0; /* the table says so, and this is no failure */
	rows->why.text[0] = '\0';
	for (size_t i = 0; i < size; i++)
		if (add_gpu(rows, gpus, &gpu[i]) < 0)
			return fault_set(why, -ENOMEM, "out of memory");
	return 0;
}

/* Connects anew each time, so that the display survives a replaced meted. */
int ps_fetch(struct ps_rows *ret_rows, struct fault *why)
{
	owned(admin_close) struct admin admin = {.fd = -1};
	char place[PLACE_MAX];
	int r = admin_connect_any(&admin, place, why);

	if (r < 0)
		return r;
	if (r == ADMIN_ABSENT)
		return fetch_gpus(ret_rows, why);
	ret_rows->daemon = admin.daemon;
	ret_rows->elsewhere.text[0] = '\0';
	best_effort(sim_node_same(admin.daemon.pid, &ret_rows->elsewhere));
	/* On a terminal it is part of the page. */
	if (!isatty(STDOUT_FILENO)) {
		admin_tell(&admin, "ps");
		if (ret_rows->elsewhere.text[0])
			fprintf(stderr, "mete ps: note: %s\n", ret_rows->elsewhere.text);
	}
	return ps_fetch_rows(&admin, 0, ret_rows, why);
}

/* This machine's names for users and processes do not apply to the node's numbers. */
static struct ps_text number_of(void *owner, uint32_t uid)
{
	struct ps_text said;

	(void)owner;
	if (uid == 0)
		return (struct ps_text){"root"};
	snprintf(said.text, sizeof(said.text), "%u", uid);
	return said;
}

int ps_fetch_at(struct remote *remote, struct ps_rows *ret_rows, struct fault *why)
{
	static const struct ps_names names = {.user = number_of};
	int r;

	if (!remote->node)
		return ps_fetch(ret_rows, why);
	r = remote_connect(remote, why);
	if (r < 0)
		return r;
	ret_rows->node = remote->node;
	ret_rows->names = &names;
	ret_rows->daemon = remote->admin.daemon;
	if (!isatty(STDOUT_FILENO))
		admin_tell(&remote->admin, "ps");
	return remote_check(remote, ps_fetch_rows(&remote->admin, 0, ret_rows, why), why);
}
