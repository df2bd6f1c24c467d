/* SPDX-License-Identifier: Apache-2.0 */
/* mete ps: devices, tenants and their time, as tables for people. JSON is ps_json.c's. */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/grid.h"
#include "cli/ps_filter.h"
#include "cli/ps_json.h"
#include "cli/ps_query.h"
#include "cli/ps_fetch.h"
#include "cli/ps_time.h"
#include "cli/values.h"

static const uint64_t second_ns = 1000000000;

enum {
	PS_UNWRITTEN = 1, /* outcome of print_once(): main() says so of each verb */
};

struct page {
	FILE *out;
	struct screen screen;
	struct ps_unit unit;
	const struct ps_rows *rows;
};

static bool is_shown(const struct page *page, size_t i, uint32_t code)
{
	const struct wire_message *row = &page->rows->row[i];

	return row->code == code && ps_shows(page->rows, row);
}

static void add_steps(struct grid *grid, const struct page *page, enum grid_style style,
		      uint64_t steps)
{
	grid_add(grid, style, "%s", ps_amount(page->unit, steps).text);
}

/* A part; the whole. */
static void add_up(struct grid *grid, const struct page *page, enum grid_style style,
		   uint64_t bytes)
{
	add_steps(grid, page, style, ps_steps(page->unit, bytes, TEXT_UP));
}

static void add_down(struct grid *grid, const struct page *page, uint64_t bytes)
{
	add_steps(grid, page, GRID_PLAIN, ps_steps(page->unit, bytes, TEXT_DOWN));
}

/* Empty where nothing is promised: without tenants, and by a meted that does not say it, there is
 * no such column. */
static void add_promised(struct grid *grid, const struct page *page, uint64_t bytes)
{
	if (bytes)
		add_up(grid, page, GRID_PLAIN, bytes);
	else
		grid_add(grid, GRID_PLAIN, "%s", "");
}

/* Only the whole is 100 %, and only nothing is 0 %. */
static void add_part(struct grid *grid, const struct page *page, uint64_t part, uint64_t whole)
{
	double full = whole ? (double)part / (double)whole : 0;
	enum grid_style style = full >= 0.9 ? GRID_BAD : full >= 0.75 ? GRID_WARM : GRID_GOOD;
	unsigned percent = (unsigned)(full * 100);

	grid_add(grid, style, "%s", grid_bar(&page->screen, full).text);
	grid_add(grid, style, "%u%%", part && !percent ? 1 : percent);
}

static void print_head(const struct page *page)
{
	const struct ps_rows *rows = page->rows;
	char line[600], trouble[WIRE_TEXT_MAX + 1], *rest = trouble, *one;

	if (rows->node)
		snprintf(line, sizeof(line), "node %.100s's meted %.20s; memory in %s", rows->node,
			 rows->daemon.version.text, page->unit.name);
	else if (!rows->absent)
		snprintf(line, sizeof(line), "%s meted %.20s, pid %u; memory in %s",
			 rows->daemon.system ? "the system's" : "your own",
			 rows->daemon.version.text, rows->daemon.pid, page->unit.name);
	else if (rows->why.text[0])
		snprintf(line, sizeof(line), "no meted is running: `mete run` starts one; %s",
			 rows->why.text);
	else
		snprintf(line, sizeof(line),
			 "no meted is running: `mete run` starts one; memory in %s",
			 page->unit.name);
	text_make_plain(line);
	grid_line(page->out, &page->screen, GRID_DIM, line);
	if (page->screen.width && rows->elsewhere.text[0])
		grid_line(page->out, &page->screen, GRID_BAD, rows->elsewhere.text);
	snprintf(trouble, sizeof(trouble), "%s",
		 page->screen.width ? rows->daemon.trouble.text : "");
	while ((one = strsep(&rest, "\n")) != NULL) {
		text_make_plain(one);
		if (*one)
			grid_line(page->out, &page->screen, GRID_BAD, one);
	}
}

static void print_devices(const struct page *page)
{
	static const struct grid_column columns[] = {
		{"GPU", .right = true},
		{"MODEL", .least = 6, .may_go = true, .rank = 4},
		{"TOTAL", .right = true},
		{"PROMISED", .right = true, .may_go = true, .rank = 7},
		{"USED", .right = true},
		{"FREE", .right = true},
		{"OUTSIDE", .right = true, .may_go = true, .rank = 2},
		{"IN USE", .may_go = true, .rank = 3},
		{"", .right = true, .may_go = true, .rank = 1, .alone = "FULL"},
		{"UUID", .least = 12, .may_go = true, .rank = 8},
		{"PICKED", .least = 6, .may_go = true, .rank = 5},
		{"NEW TENANTS", .may_go = true, .rank = 6},
	};
	owned(grid_done) struct grid grid;

	grid_init(&grid, columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < page->rows->count; i++) {
		const struct wire_device_row *device = &page->rows->row[i].device_row;
		uint64_t outside;

		if (!is_shown(page, i, WIRE_device_row))
			continue;
		outside = ps_outside(page->rows, device->index);
		grid_add(&grid, GRID_PLAIN, "%u", device->index);
		grid_add(&grid, GRID_PLAIN, "%s", device->model.text);
		add_down(&grid, page, device->capacity);
		add_promised(&grid, page, device->promised);
		add_up(&grid, page, GRID_PLAIN, ps_used(device));
		add_steps(&grid, page, GRID_PLAIN, ps_free_steps(page->rows, device));
		add_up(&grid, page, outside ? GRID_WARM : GRID_PLAIN, outside);
		add_part(&grid, page, ps_used(device) + outside, device->capacity);
		grid_add(&grid, GRID_PLAIN, "%s", ps_uuid(device).text);
		grid_add(&grid, GRID_WARM, "%s", ps_picked(device).text);
		grid_add(&grid, GRID_WARM, "%s", device->cordoned ? "none: cordoned" : "");
	}
	if (grid.cells)
		grid_print(&grid, page->out, &page->screen);
	else if (page->rows->filter->count)
		fputs("no device fits the filter\n", page->out);
}

static void add_tenant(struct grid *grid, const struct page *page, const struct wire_tenant_row *t)
{
	static const enum grid_style styles[] = {GRID_PLAIN, GRID_WARM, GRID_BAD};
	struct ps_text state;
	int bad = 0;

	state = ps_state(page->rows, t, &bad);
	grid_add(grid, GRID_PLAIN, "%u", t->tenant);
	grid_add(grid, GRID_PLAIN, "%s", t->name.text);
	if (t->outer)
		grid_add(grid, GRID_PLAIN, "%u", t->outer);
	else
		grid_add(grid, GRID_PLAIN, "%s", "");
	grid_add(grid, GRID_PLAIN, "%u", t->device);
	add_steps(grid, page, GRID_PLAIN, ps_held_steps(page->rows, t));
	add_down(grid, page, t->limit);
	add_part(grid, page, ps_held(t) + ps_within(page->rows, t), t->limit);
	grid_add(grid, GRID_PLAIN, "%s", ps_user_of(page->rows, t->owner).text);
	grid_add(grid, GRID_PLAIN, "%s", ps_duration(t->age).text);
	grid_add(grid, styles[bad], "%s", state.text);
	grid_add(grid, GRID_PLAIN, "%s", ps_tenant_command(page->rows, t).text);
}

static void print_tenants(const struct page *page)
{
	static const struct grid_column columns[] = {
		{"ID", .right = true},
		{"TENANT", .least = 10, .rank = 4, .soft = 24, .soft_rank = 7},
		{"WITHIN", .right = true, .may_go = true, .rank = 3},
		{"GPU", .right = true, .may_go = true, .rank = 2},
		{"USED", .right = true},
		{"LIMIT", .right = true},
		{"OF LIMIT", .may_go = true, .rank = 5},
		{"", .right = true, .may_go = true, .rank = 1, .alone = "FULL"},
		{"USER", .least = 8, .may_go = true, .rank = 6},
		{"AGE", .right = true, .may_go = true, .rank = 7},
		{"STATE", .least = 12, .may_go = true, .rank = 3, .whole = true},
		{"COMMAND", .least = 12, .may_go = true, .rank = 8},
	};
	owned(grid_done) struct grid grid;

	grid_init(&grid, columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < page->rows->count; i++)
		if (is_shown(page, i, WIRE_tenant_row))
			add_tenant(&grid, page, &page->rows->row[i].tenant_row);
	fputc('\n', page->out);
	if (grid.cells)
		grid_print(&grid, page->out, &page->screen);
	else
		fputs(page->rows->filter->count ? "no tenant fits the filter\n" : "no tenants\n",
		      page->out);
}

/* Processes outside of all tenants that hold device memory, without a limit. */
static void print_outside(const struct page *page)
{
	static const struct grid_column columns[] = {
		{"OUTSIDE", .right = true},
		{"GPU", .right = true},
		{"PID", .right = true},
		{"USER", .least = 8, .may_go = true, .rank = 2},
		{"COMMAND", .least = 12, .rank = 1},
	};
	owned(grid_done) struct grid grid;

	grid_init(&grid, columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < page->rows->count; i++) {
		const struct wire_outside_row *one = &page->rows->row[i].outside_row;

		if (!is_shown(page, i, WIRE_outside_row))
			continue;
		add_up(&grid, page, GRID_PLAIN, one->used);
		grid_add(&grid, GRID_PLAIN, "%u", one->device);
		grid_add(&grid, GRID_PLAIN, "%u", one->pid);
		grid_add(&grid, GRID_PLAIN, "%s", ps_user_of(page->rows, one->user).text);
		grid_add(&grid, GRID_PLAIN, "%s", ps_outside_command(page->rows, one).text);
	}
	if (!grid.cells)
		return;
	fputc('\n', page->out);
	grid_print(&grid, page->out, &page->screen);
}

static void print_processes(const struct page *page)
{
	static const struct grid_column columns[] = {
		{"ID", .right = true},
		{"GPU", .right = true, .may_go = true, .rank = 3},
		{"PID", .right = true},
		{"ALLOCATED", .right = true},
		{"DRIVER'S", .right = true, .may_go = true, .rank = 1},
		{"IN ADVANCE", .right = true, .may_go = true, .rank = 4},
		{"PROGRAM", .least = 8, .rank = 2},
	};
	owned(grid_done) struct grid grid;

	grid_init(&grid, columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < page->rows->count; i++) {
		const struct wire_guest_row *guest = &page->rows->row[i].guest_row;

		if (!is_shown(page, i, WIRE_guest_row))
			continue;
		grid_add(&grid, GRID_PLAIN, "%u", guest->tenant);
		grid_add(&grid, GRID_PLAIN, "%u", guest->device);
		grid_add(&grid, GRID_PLAIN, "%u", guest->pid);
		add_up(&grid, page, GRID_PLAIN, guest->allocated);
		add_up(&grid, page, GRID_PLAIN, guest->residual);
		add_up(&grid, page, GRID_PLAIN, guest->credit);
		grid_add(&grid, GRID_PLAIN, "%s", guest->program.text);
	}
	if (!grid.cells)
		return;
	fputc('\n', page->out);
	grid_print(&grid, page->out, &page->screen);
}

static void print_page(const struct page *page, bool processes)
{
	print_head(page);
	print_devices(page);
	if (!page->rows->absent)
		print_tenants(page);
	if (processes)
		print_processes(page);
	print_outside(page);
	ps_time_print(page->rows, page->out, &page->screen);
}

/* Draws in place: from the top left corner, each line is overwritten and its rest cleared, so that
 * nothing flickers. Lines that do not fit are left out, with a note. Nothing is cleared before
 * there is a page: a fault's sentence stays. */
static void show_in_place(const char *text, const struct screen *screen)
{
	unsigned lines = 0, left = 0;

	fputs("\033[H", stdout);
	while (*text) {
		size_t n = strcspn(text, "\n");

		if (screen->height && ++lines >= screen->height)
			left++;
		else
			printf("%.*s\033[K\n", (int)n, text);
		text += n + (text[n] != '\0');
	}
	fputs("\033[J", stdout);
	if (left)
		printf("%u more lines: the terminal is short", left);
}

enum format { FORMAT_TABLE, FORMAT_JSON, FORMAT_CSV, FORMAT_CSV_BARE };

/* One page of output. */
struct order {
	enum format format;
	bool processes, watch;
	uint64_t interval_ns;
	struct ps_filter filter;
	struct ps_query query;
	bool queried;
	struct remote remote;
};

static void order_done_owned(struct order *order)
{
	ps_query_done(&order->query);
	remote_close(&order->remote);
}

static int print_table(const struct order *order, const struct ps_rows *rows, struct fault *why)
{
	owned(free) char *text = NULL;
	struct page page = {.rows = rows, .screen = screen_now(), .unit = ps_unit(rows)};
	size_t size = 0;

	page.out = open_memstream(&text, &size);
	if (!page.out)
		return fault_set(why, -ENOMEM, "out of memory");
	print_page(&page, order->processes);
	if (fclose(page.out) != 0)
		return fault_set(why, -ENOMEM, "out of memory");
	if (order->watch && isatty(STDOUT_FILENO))
		show_in_place(text, &page.screen);
	else
		fputs(text, stdout);
	return 0;
}

static int print_once(struct order *order, struct fault *why)
{
	owned(ps_rows_free) struct ps_rows rows = {.filter = &order->filter};
	int r = ps_fetch_at(&order->remote, &rows, why);

	if (r < 0)
		return -1;
	if (order->format == FORMAT_TABLE)
		r = print_table(order, &rows, why);
	else if (order->format != FORMAT_JSON)
		ps_query_csv(&order->query, &rows, order->format == FORMAT_CSV, stdout);
	else if (order->queried)
		ps_query_json(&order->query, &rows, stdout);
	else
		ps_json_print(&rows);
	if (r < 0)
		return -1;
	return fflush(stdout) == 0 ? 0 : PS_UNWRITTEN;
}

static int read_format(const struct cli_call *call, struct order *order, struct fault *why)
{
	static const struct {
		const char *name;
		enum format format;
	} formats[] = {
		{"table", FORMAT_TABLE},
		{"json", FORMAT_JSON},
		{"csv", FORMAT_CSV},
		{"csv,noheader", FORMAT_CSV_BARE},
	};
	const char *name = cli_value(call, "format");

	order->format = cli_value(call, "json") ? FORMAT_JSON
			: order->queried	? FORMAT_CSV
						: FORMAT_TABLE;
	if (!name)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		if (strcmp(name, formats[i].name) != 0)
			continue;
		order->format = formats[i].format;
		if (order->queried && order->format == FORMAT_TABLE)
			break;
		return 0;
	}
	return fault_set(why, -EINVAL,
			 "--format '%.40s': accepted are %scsv, csv,noheader and json", name,
			 order->queried ? "with --query " : "table, ");
}

/* What would be ignored is refused: who asks for it would look for it in vain. */
static int check_words(const struct cli_call *call, const struct order *order, struct fault *why)
{
	const char *format = cli_value(call, "format");

	if (order->processes &&
	    (order->queried || order->format == FORMAT_CSV || order->format == FORMAT_CSV_BARE))
		return fault_set(
			why, -EINVAL,
			"--processes means nothing with --query and with csv, which have a "
			"tenant or a device in each line; --json has processes, too");
	if (cli_value(call, "json") && format && strcmp(format, "json") != 0)
		return fault_set(why, -EINVAL,
				 "--json and --format '%.40s': accepted is one of them", format);
	return 0;
}

static int read_order(const struct cli_call *call, struct order *order, struct fault *why)
{
	const char *filter = cli_value(call, "filter"), *query = cli_value(call, "query");
	int r = remote_read(&order->remote, call, why);

	if (r == 0)
		r = values_seconds(call, "interval", second_ns / 10, 3600 * second_ns,
				   &order->interval_ns, why);
	order->watch = cli_value(call, "watch") || cli_value(call, "interval");
	order->processes = cli_value(call, "processes") != NULL;
	order->queried = query != NULL;
	if (r == 0 && filter)
		r = ps_filter_read(&order->filter, filter, why);
	if (r == 0)
		r = ps_query_read(&order->query, query, why);
	if (r == 0)
		r = read_format(call, order, why);
	return r < 0 ? r : check_words(call, order, why);
}

int ps_main(const struct cli_call *call)
{
	owned(order_done) struct order order = {.interval_ns = second_ns};
	struct fault why;
	int r;

	if (call->argc)
		return cli_complain(call, CLI_USAGE, "'%s': ps takes no arguments", call->argv[0]);
	if (read_order(call, &order, &why) < 0)
		return cli_fail(call, CLI_USAGE, &why);
	do {
		r = print_once(&order, &why);
		if (r != 0)
			return r < 0 ? cli_fail(call, 1, &why) : 1;
	} while (order.watch &&
		 (poll(NULL, 0, (int)(order.interval_ns / 1000000)) == 0 || errno == EINTR));
	return 0;
}
