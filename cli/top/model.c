/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/model.h"
#include "cli/ps_fetch.h"

#include <string.h>

static const uint64_t second_ns = 1000000000;

enum {
	BUSY_MOST = 1024, /* processes of a device */
	NOBODY = 0,	  /* no tenant has that number */
};

void model_free(struct model *model)
{
	ps_rows_free(&model->rows);
	history_free(&model->history);
	history_free(&model->boards);
	gpus_close(model->gpus);
	free(model->device);
	free(model->tenant);
}

static int by_number(const void *a, const void *b)
{
	const struct wire_tenant_row *one = ((const struct model_tenant *)a)->row;
	const struct wire_tenant_row *other = ((const struct model_tenant *)b)->row;

	if (one->tenant != other->tenant)
		return one->tenant < other->tenant ? -1 : 1;
	return (one->device > other->device) - (one->device < other->device);
}

static struct model_tenant *find(const struct model *model, uint32_t tenant, uint32_t device)
{
	struct wire_tenant_row row = {.tenant = tenant, .device = device};
	struct model_tenant key = {.row = &row};

	if (!model->tenants)
		return NULL;
	return bsearch(&key, model->tenant, model->tenants, sizeof(key), by_number);
}

const struct model_tenant *model_tenant(const struct model *model, uint32_t tenant, uint32_t device)
{
	return find(model, tenant, device);
}

const struct history_track *model_board(const struct model *model, uint32_t device)
{
	return history_find(&model->boards, NOBODY, device);
}

static uint16_t milli(uint64_t part_ns, uint64_t whole_ns)
{
	double part = whole_ns ? (double)part_ns / (double)whole_ns : 0;

	return (uint16_t)((part < 1 ? part : 1) * 1000 + 0.5);
}

static void account(struct model_tenant *tenant)
{
	const struct wire_tenant_row *row = tenant->row;
	uint64_t window = row->age && row->age < second_ns ? row->age : second_ns;

	tenant->had = tenant->due = HISTORY_UNSAID;
	if (!row->governed)
		return;
	tenant->had = milli(row->charged_1s, window);
	tenant->due = milli(row->entitled_1s, window);
}

static size_t count_rows(const struct ps_rows *rows, uint32_t code)
{
	size_t n = 0;

	for (size_t i = 0; i < rows->count; i++)
		n += rows->row[i].code == code;
	return n;
}

static uint64_t since(const struct model *model, uint32_t index)
{
	for (size_t i = 0; i < model->devices; i++)
		if (model->device[i].row->index == index)
			return model->device[i].since_us;
	return 0;
}

/* Rebuilds devices and tenants from the rows, but keeps each device's newest sample time. */
static int arrange(struct model *model, const struct ps_rows *rows)
{
	size_t devices = count_rows(rows, WIRE_device_row);
	size_t tenants = count_rows(rows, WIRE_tenant_row);
	owned(free) struct model_device *device = calloc(devices + 1, sizeof(*device));
	owned(free) struct model_tenant *tenant = calloc(tenants + 1, sizeof(*tenant));
	size_t d = 0, t = 0;

	if (!device || !tenant)
		return -ENOMEM;
	for (size_t i = 0; i < rows->count; i++) {
		if (rows->row[i].code == WIRE_device_row) {
			device[d].row = &rows->row[i].device_row;
			device[d].since_us = since(model, device[d].row->index);
			d++;
		}
		if (rows->row[i].code == WIRE_tenant_row)
			tenant[t++].row = &rows->row[i].tenant_row;
	}
	qsort(tenant, tenants, sizeof(*tenant), by_number);
	for (size_t i = 0; i < tenants; i++)
		account(&tenant[i]);
	free(model->device);
	free(model->tenant);
	model->device = take(device);
	model->tenant = take(tenant);
	model->devices = devices;
	model->tenants = tenants;
	return 0;
}

static unsigned percent_of(const struct gpus_busy *busy, size_t count, unsigned pid)
{
	size_t first = 0, end = count;

	while (first < end) {
		size_t middle = first + (end - first) / 2;

		if (busy[middle].pid == pid)
			return busy[middle].percent;
		if (busy[middle].pid < pid)
			first = middle + 1;
		else
			end = middle;
	}
	return 0;
}

/* On a device without turns, a tenant's part is that of its processes by the driver's samples. */
static void add_samples(struct model *model, uint32_t device, const struct gpus_busy *busy,
			size_t count)
{
	for (size_t i = 0; i < model->rows.count; i++) {
		const struct wire_guest_row *guest = &model->rows.row[i].guest_row;
		struct model_tenant *tenant;
		unsigned sum;

		if (model->rows.row[i].code != WIRE_guest_row || guest->device != device)
			continue;
		tenant = find(model, guest->tenant, device);
		if (!tenant || tenant->row->governed)
			continue;
		sum = (tenant->had == HISTORY_UNSAID ? 0 : tenant->had) +
		      10 * percent_of(busy, count, guest->pid);
		tenant->had = (uint16_t)(sum < 1000 ? sum : 1000);
	}
}

static void ask_boards(struct model *model)
{
	owned(free) struct gpus_busy *busy = calloc(BUSY_MOST, sizeof(*busy));
	const struct gpus *gpus;
	struct fault why;

	if (!model->asked)
		best_effort(gpus_open(&model->gpus, &why));
	model->asked = true;
	gpus = model->rows.elsewhere.text[0] ? NULL : model->gpus;
	for (size_t i = 0; i < model->devices; i++) {
		struct model_device *device = &model->device[i];
		struct ps_uuid uuid = ps_uuid(device->row);
		size_t n;

		device->gauges = gpus_gauges(gpus, uuid.text);
		if (!gpus || !busy)
			continue;
		n = gpus_busy(gpus, uuid.text, &device->since_us, busy, BUSY_MOST);
		add_samples(model, device->row->index, busy, n);
	}
}

/* One device's answer: the board's row, samples, and the end. */
static int read_board(struct model *model, struct model_device *device, struct admin *admin,
		      struct gpus_busy *busy, struct fault *why)
{
	struct wire_message row = {0};
	size_t n = 0;
	int r;

	while ((r = admin_next(admin, &row, why)) == 0 && row.code != WIRE_end) {
		if (row.code == WIRE_board_row)
			device->gauges = (struct gpu_board){
				(int)row.board_row.load, (int)row.board_row.celsius,
				(int)row.board_row.watts, (int)row.board_row.watts_most,
				(int)row.board_row.mhz};
		else if (row.code == WIRE_sample_row && n < BUSY_MOST)
			busy[n++] = (struct gpus_busy){row.sample_row.pid, row.sample_row.percent};
	}
	if (r == 0)
		add_samples(model, device->row->index, busy, n);
	return r;
}

/* Sends all requests before it reads the first answer: the API server may be far away. */
static int ask_boards_at(struct model *model, struct remote *remote, struct fault *why)
{
	owned(free) struct gpus_busy *busy = calloc(BUSY_MOST, sizeof(*busy));
	struct wire_message ask = {.code = WIRE_board_ask};
	int r = 0;

	if (!busy)
		return fault_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; i < model->devices; i++) {
		model->device[i].gauges = gpus_gauges(NULL, "");
		wire_set_text(&ask.board_ask.name, ps_uuid(model->device[i].row).text);
		if (r == 0)
			r = admin_send(&remote->admin, &ask, why);
	}
	for (size_t i = 0; i < model->devices && r == 0; i++)
		r = read_board(model, &model->device[i], &remote->admin, busy, why);
	return remote_check(remote, r, why);
}

static void remember(struct model *model)
{
	history_begin(&model->history);
	for (size_t i = 0; i < model->tenants; i++)
		history_add(&model->history, model->tenant[i].row->tenant,
			    model->tenant[i].row->device, model->tenant[i].had);
	history_end(&model->history);
}

static void remember_boards(struct model *model)
{
	history_begin(&model->boards);
	for (size_t i = 0; i < model->devices; i++) {
		int percent = model->device[i].gauges.load_percent;

		history_add(&model->boards, NOBODY, model->device[i].row->index,
			    percent == BOARD_UNSAID ? HISTORY_UNSAID : (uint16_t)(10 * percent));
	}
	history_end(&model->boards);
}

int model_refresh(struct model *model, struct remote *remote, const struct ps_filter *filter,
		  struct fault *why)
{
	struct ps_rows rows = {.filter = filter}, old = model->rows;
	struct fault trouble = {""};
	int r = ps_fetch_at(remote, &rows, &trouble);

	if (r == 0)
		r = arrange(model, &rows);
	if (r == -ENOMEM) {
		ps_rows_free(&rows);
		return fault_set(why, r, "out of memory");
	}
	model->trouble = trouble;
	if (r < 0) {
		ps_rows_free(&rows);
		return 0;
	}
	model->rows = rows;
	ps_rows_free(&old);
	if (remote->node)
		best_effort(ask_boards_at(model, remote, &model->trouble));
	else
		ask_boards(model);
	remember(model);
	remember_boards(model);
	return 0;
}
