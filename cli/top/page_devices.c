/* SPDX-License-Identifier: Apache-2.0 */
/* Each device: its board's figures, how busy and how full it is, and which tenants had its last
 * second. */
#include <string.h>

#include "base/least.h"
#include "base/text.h"
#include "cli/top/page.h"

enum {
	SPARK_LEAST = 10, /* seconds: fewer say nothing */
	SPARK_MOST = 60,
};

struct words {
	char text[256];
};

/* "52 °C 320/700 W 1980 MHz", as far as the board reports them. */
static struct words board(const struct page *page, const struct gpu_board *gauges)
{
	struct words said = {""};
	size_t n = 0;

	if (gauges->celsius != BOARD_UNSAID)
		n += (size_t)snprintf(said.text + n, sizeof(said.text) - n, "  %d %s",
				      gauges->celsius, page->screen.ascii ? "C" : "°C");
	if (gauges->watts != BOARD_UNSAID && gauges->watts_most != BOARD_UNSAID)
		n += (size_t)snprintf(said.text + n, sizeof(said.text) - n, "  %d/%d W",
				      gauges->watts, gauges->watts_most);
	else if (gauges->watts != BOARD_UNSAID)
		n += (size_t)snprintf(said.text + n, sizeof(said.text) - n, "  %d W",
				      gauges->watts);
	if (gauges->mhz != BOARD_UNSAID)
		snprintf(said.text + n, sizeof(said.text) - n, "  %d MHz", gauges->mhz);
	return said;
}

static struct words percent(const struct gpu_board *gauges)
{
	struct words said;

	if (gauges->load_percent == BOARD_UNSAID)
		snprintf(said.text, sizeof(said.text), "not said");
	else
		snprintf(said.text, sizeof(said.text), "%d%%", gauges->load_percent);
	return said;
}

static uint64_t in_use(const struct page *page, const struct wire_device_row *row)
{
	return ps_used(row) + ps_outside(&page->model->rows, row->index);
}

/* "12.30/79.60" */
static struct words memory(const struct page *page, const struct wire_device_row *row)
{
	struct words said;

	snprintf(said.text, sizeof(said.text), "%.60s/%.60s",
		 ps_amount(page->unit, ps_steps(page->unit, in_use(page, row), TEXT_UP)).text,
		 ps_amount(page->unit, ps_steps(page->unit, row->capacity, TEXT_DOWN)).text);
	return said;
}

static double part_of(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}

static void put_bars(const struct page *page, const struct model_device *device, unsigned width,
		     const char *time, const char *space)
{
	const struct wire_device_row *row = device->row;
	/* On a terminal that is too narrow for anything, there are no bars. */
	unsigned bars = (unsigned)beyond(width, grid_width(time) + grid_width(space));

	fputs(time, page->out);
	page_bar(page, bars / 2, device->gauges.load_percent / 100.0,
		 percent(&device->gauges).text);
	fputs(space, page->out);
	page_bar(page, bars - bars / 2, part_of((double)in_use(page, row), (double)row->capacity),
		 memory(page, row).text);
	fputc('\n', page->out);
}

/* Bytes of its tenants that are in the host's memory. */
static uint64_t out_of(const struct page *page, uint32_t device)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < page->model->tenants; i++)
		if (page->model->tenant[i].row->device == device)
			sum += page->model->tenant[i].row->out;
	return sum;
}

/* "  3.00 GiB promised", if any. */
static struct words amount(const struct page *page, uint64_t bytes, const char *what)
{
	struct words said = {""};

	if (bytes)
		snprintf(said.text, sizeof(said.text), "  %.60s %s %s",
			 ps_amount(page->unit, ps_steps(page->unit, bytes, TEXT_UP)).text,
			 page->unit.name, what);
	return said;
}

/* What the device is and says, and, where there is room, how busy it was in the last minute. */
static void put_name(const struct page *page, const struct model_device *device)
{
	const struct wire_device_row *row = device->row;
	unsigned spark;
	char line[WIRE_TEXT_MAX + 800];

	snprintf(line, sizeof(line), "GPU %u  %s%s%s%s", row->index, row->model.text,
		 board(page, &device->gauges).text,
		 amount(page, out_of(page, row->index), "in the host's memory").text,
		 amount(page, row->promised, "promised").text);
	spark = (unsigned)least(beyond(page->screen.width, grid_width(line) + 2), SPARK_MOST);
	if (spark < SPARK_LEAST)
		spark = 0;
	grid_begin(page->out, &page->screen, GRID_HEAD);
	grid_field(page->out, &page->screen, line, page->screen.width - spark);
	grid_end(page->out, &page->screen, GRID_HEAD);
	grid_begin(page->out, &page->screen, GRID_GOOD);
	page_spark(page, model_board(page->model, row->index), spark, 1, 0);
	grid_end(page->out, &page->screen, GRID_GOOD);
	fputc('\n', page->out);
}

/* A piece of the strip: a tenant's name in a field as wide as its part of the second. */
static unsigned put_piece(const struct page *page, const struct model_tenant *tenant, unsigned from,
			  unsigned to, unsigned number)
{
	static const enum grid_style styles[] = {GRID_GOOD, GRID_WARM, GRID_HEAD};
	enum grid_style style = styles[number % ARRAY_SIZE(styles)];
	char name[WIRE_TEXT_MAX + 40];

	if (to <= from)
		return from;
	/* Its edge is a character, since there may be no colours. */
	snprintf(name, sizeof(name), "%s%s %u%%", page->screen.ascii ? "|" : "▌",
		 tenant->row->name.text, tenant->had / 10);
	grid_begin(page->out, &page->screen, style);
	grid_field(page->out, &page->screen, name, to - from);
	grid_end(page->out, &page->screen, style);
	return to;
}

/* The tenants that had the last second, one after the other; unused time is at the right. */
static void put_strip(const struct page *page, uint32_t device)
{
	static const char title[] = "had  ";
	unsigned width = (unsigned)beyond(page->screen.width, strlen(title)), at = 0, number = 0;
	uint64_t sum = 0;

	fputs(title, page->out);
	for (size_t i = 0; i < page->model->tenants; i++) {
		const struct model_tenant *tenant = &page->model->tenant[i];

		if (tenant->row->device != device || tenant->had == HISTORY_UNSAID || !tenant->had)
			continue;
		sum += tenant->had;
		at = put_piece(page, tenant, at,
			       (unsigned)((sum < 1000 ? sum : 1000) * width / 1000), number++);
	}
	for (; at < width; at++)
		fputs(page->screen.ascii ? "." : "·", page->out);
	fputc('\n', page->out);
}

static void put_short(const struct page *page, const struct model_device *device)
{
	char index[16];

	snprintf(index, sizeof(index), "%-3u", device->row->index);
	put_bars(page, device, page->screen.width, index, " ");
}

void page_devices(const struct page *page, const struct page_parts *parts)
{
	size_t room = parts->each ? parts->devices / parts->each : 0, left;

	/* The line that says how many there are takes the place of one. */
	left = page->model->devices > room ? page->model->devices - room + (room > 0) : 0;
	for (size_t i = 0; i < page->model->devices - left; i++) {
		const struct model_device *device = &page->model->device[i];

		if (parts->each == 1) {
			put_short(page, device);
			continue;
		}
		put_name(page, device);
		put_bars(page, device, page->screen.width, "time ", " memory ");
		put_strip(page, device->row->index);
	}
	if (left && room)
		fprintf(page->out, "%zu more GPUs: the terminal is short\n", left);
}
